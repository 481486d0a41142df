package people_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/people"
)

// TestForgottenPasswords: who has a password and does not run the gateway gets a link that sets a new one, and takes
// nothing else away.
func TestForgottenPasswords(t *testing.T) {
	t.Parallel()
	const another = "quite another long one"
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		session, v := f.join("ann@example.com", people.RoleOwner)
		f.admin("root@example.com")
		_, gone := f.join("gone@example.com", people.RoleViewer)
		require.NoError(f, f.SetDisabled(ctx, gone.Person, true))
		none := func(email string) {
			f.Helper()
			token, _, err := f.ForgetPassword(ctx, email)
			require.NoError(f, err, email)
			require.Empty(f, token, email)
		}
		for _, email := range []string{"", "no e-mail", "nobody@example.com", "root@example.com", "gone@example.com"} {
			none(email)
		}
		f.takeActs()
		first, i, err := f.ForgetPassword(ctx, " ANN@example.com ")
		require.NoError(f, err)
		require.True(f, i.Reset && i.KeepsFactors)
		require.Equal(f, "ann@example.com", i.Email)
		require.Equal(f, []string{"portal.forget_password "}, f.takeActs())
		require.Equal(f, "ann@example.com", f.opens(session), "that somebody asks ends nothing")
		none("ann@example.com") // just now
		f.pass(6 * time.Minute)
		link, _, err := f.ForgetPassword(ctx, "ann@example.com")
		require.NoError(f, err)
		require.NotEmpty(f, link)
		_, err = f.ReadInvitation(ctx, first)
		require.NoError(f, err, "who asks in somebody's place ends no link")
		for range 3 {
			f.pass(6 * time.Minute)
			more, _, err := f.ForgetPassword(ctx, "ann@example.com")
			require.NoError(f, err)
			require.NotEmpty(f, more)
		}
		f.pass(6 * time.Minute)
		none("ann@example.com") // five in a day
		read, err := f.ReadInvitation(ctx, link)
		require.NoError(f, err)
		require.True(f, read.KeepsFactors)

		in, _, err := f.Accept(ctx, link, people.Acceptance{Password: another}, home)
		require.NoError(f, err)
		require.Equal(f, "ann@example.com", f.opens(in), "nothing else is asked for")
		require.Empty(f, f.opens(session), "sessions of before are ended")
		for _, used := range []string{link, first} {
			_, _, err = f.Accept(ctx, used, people.Acceptance{Password: another}, home)
			require.ErrorIs(f, err, people.ErrExpired, "one of them, once")
		}

		signedIn, _, err := f.Session(ctx, in, home)
		require.NoError(f, err)
		_, recovery := f.withCodes(signedIn)
		f.pass(6 * time.Minute)
		link, _, err = f.ForgetPassword(ctx, "ann@example.com")
		require.NoError(f, err)
		in, _, err = f.Accept(ctx, link, people.Acceptance{Password: password}, home)
		require.NoError(f, err)
		require.Empty(f, in, "a code is asked for")
		signed, err := f.SignIn(ctx, "ann@example.com", password, home)
		require.NoError(f, err)
		require.NotEmpty(f, signed.Challenge)
		signed, err = f.EnterCode(ctx, signed.Challenge, recovery[0], home)
		require.NoError(f, err)
		require.Equal(f, "ann@example.com", f.opens(signed.Token))

		// A link of before does not make an operator somebody's who reads the mail.
		f.pass(6 * time.Minute)
		link, _, err = f.ForgetPassword(ctx, "ann@example.com")
		require.NoError(f, err)
		require.NoError(f, f.SetOperator(ctx, v.Person, people.Admin))
		_, _, err = f.Accept(ctx, link, people.Acceptance{Password: another}, home)
		require.ErrorIs(f, err, people.ErrExpired)
		require.NoError(f, f.SetOperator(ctx, v.Person, ""))
		f.pass(6 * time.Minute)
		link, _, err = f.ForgetPassword(ctx, "ann@example.com")
		require.NoError(f, err)
		f.pass(25 * time.Hour)
		_, _, err = f.Accept(ctx, link, people.Acceptance{Password: another}, home)
		require.ErrorIs(f, err, people.ErrExpired, "after a day")
	})
}

func TestForgottenPasswordsAreCounted(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	for range 10 {
		require.NoError(t, f.AdmitForgotten(t.Context(), away))
	}
	require.ErrorIs(t, f.AdmitForgotten(t.Context(), away), people.ErrThrottled)
	require.NoError(t, f.AdmitForgotten(t.Context(), home), "from elsewhere")
	f.pass(2 * time.Minute)
	require.NoError(t, f.AdmitForgotten(t.Context(), away))
}

// TestForgottenPasswordsTakePasskeysAway: who had somebody's place before, by an invitation that they took themselves,
// is out once its owner has set a password by mail.
func TestForgottenPasswordsTakePasskeysAway(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	_, mallory := f.join("victim@example.com", people.RoleViewer)
	d := newDevice()
	d.add(f, mallory)
	link, _, err := f.ForgetPassword(ctx, "victim@example.com")
	require.NoError(t, err)
	_, _, err = f.Accept(ctx, link, people.Acceptance{Password: "quite another long one"}, home)
	require.NoError(t, err)
	_, err = d.signIn(f, away)
	require.ErrorIs(t, err, people.ErrWrong)
}
