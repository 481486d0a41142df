package people_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/people"
)

func TestSignInWithAPassword(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		first, _ := f.join("ann@example.com", people.RoleOwner)
		in, err := f.SignIn(ctx, " ANN@example.com ", password, away)
		require.NoError(f, err)
		require.NotEqual(f, first, in.Token)
		require.Equal(f, "password", in.Session.Method)
		require.Equal(f, "ann@example.com", f.opens(in.Token))
		for _, wrong := range [][2]string{{"ann@example.com", password + "!"}, {"ann@example.com", ""},
			{"bob@example.com", password}, {"", ""}, {strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)}} {
			_, err := f.SignIn(ctx, wrong[0], wrong[1], people.Client{Address: "198.51.100.1", Host: home.Host})
			require.Equal(f, people.ErrWrong, err, "it says which is wrong")
		}
		// Letters that look the same are the same, however a keyboard makes them (NFC).
		link, _, err := f.InviteReset(ctx, in.Session.Person, "")
		require.NoError(f, err)
		_, _, err = f.Accept(ctx, link, people.Acceptance{Password: "a long caf\u00e9 visit"}, home)
		require.NoError(f, err)
		_, err = f.SignIn(ctx, "ann@example.com", "a long cafe\u0301 visit", home)
		require.NoError(f, err)
	})
}

func TestUnknownPeopleTakeTheSameWork(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	f.join("ann@example.com", people.RoleOwner)
	_, gone := f.join("gone@example.com", people.RoleViewer)
	require.NoError(t, f.SetDisabled(ctx, gone.Person, true))
	for _, email := range []string{"ann@example.com", "gone@example.com", "nobody@example.com", "no e-mail at all"} {
		before := f.Computed()
		_, err := f.SignIn(ctx, email, "not the right one at all", away)
		require.Equal(t, people.ErrWrong, err)
		require.EqualValues(t, 1, f.Computed()-before, email)
		f.pass(time.Minute)
	}
}

func TestPasswordsThatAreWeak(t *testing.T) {
	t.Parallel()
	for password, want := range map[string]people.Weakness{
		"":                           people.TooShort,
		"elevenchars":                people.TooShort,
		strings.Repeat("aé", 6):      people.Common,
		strings.Repeat("ab c", 257):  people.TooLong,
		"PasswordPassword":           people.Common,
		"qwertyuiopas":               people.Common,
		"210987654321":               people.Common,
		"xyz1xyz1xyz1xyz":            people.Common,
		"my ann.smith@Example.com !": people.Personal,
		"I am Ann.Smith2026":         people.Personal,
	} {
		err := people.CheckPassword("ann.smith@example.com", password)
		require.ErrorIs(t, err, people.ErrWeak, password)
		var weak *people.WeakError
		require.ErrorAs(t, err, &weak)
		require.Equal(t, want, weak.Weakness, password)
	}
	require.ErrorIs(t, people.CheckPassword("a@example.com", "\xff\xfe not a text at all"), people.ErrInvalid)
	for _, good := range []string{password, "twelve chars", "пароль из слов", "🦊🐙🦉🐝🦋🐢🦀🐳🦒🦔🐘🦩"} {
		require.NoError(t, people.CheckPassword("ann.smith@example.com", good), good)
	}
}

func TestAddressesThatGuess(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		for i := range 10 {
			_, err := f.SignIn(ctx, string(rune('a'+i))+"@example.com", "some password or other", away)
			require.ErrorIs(f, err, people.ErrWrong)
		}
		before := f.Computed()
		_, err := f.SignIn(ctx, "z@example.com", "some password or other", away)
		var throttled *people.ThrottledError
		require.ErrorAs(f, err, &throttled)
		require.ErrorIs(f, err, people.ErrThrottled)
		require.Positive(f, throttled.Wait)
		require.Equal(f, before, f.Computed(), "who is throttled costs a computation")
		_, err = f.SignIn(ctx, "z@example.com", "some password or other", home)
		require.ErrorIs(f, err, people.ErrWrong, "who asks from elsewhere waits as well")
		f.pass(time.Minute)
		_, err = f.SignIn(ctx, "z@example.com", "some password or other", away)
		require.ErrorIs(f, err, people.ErrWrong)
	})
}

func TestGuessesOfOneNameWaitLongerAndLonger(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		_, v := f.join("ann@example.com", people.RoleOwner)
		begun, tried := f.now(), 0
		for i := 0; f.now().Sub(begun) < 15*time.Minute; i++ {
			from := people.Client{Address: "198.51.100." + string(rune('1'+i%9)), Host: home.Host} // many machines
			_, err := f.SignIn(ctx, "ann@example.com", "some password or other", from)
			require.Error(f, err)
			if errors.Is(err, people.ErrWrong) {
				tried++
			}
			f.pass(5 * time.Second)
		}
		require.LessOrEqual(f, tried, 10)
		_, err := f.SignIn(ctx, "ann@example.com", password, away)
		require.ErrorIs(f, err, people.ErrThrottled)
		// From where she has a session, and in it, she goes on.
		_, err = f.SignIn(ctx, "ann@example.com", password, home)
		require.NoError(f, err)
		require.NoError(f, f.Confirm(ctx, v, password, ""))
		// An unknown name is treated alike.
		for range 5 {
			_, err := f.SignIn(ctx, "nobody@example.com", "some password or other", away)
			require.ErrorIs(f, err, people.ErrWrong)
		}
		_, err = f.SignIn(ctx, "nobody@example.com", "some password or other", away)
		require.ErrorIs(f, err, people.ErrThrottled)
		f.pass(time.Hour)
		_, err = f.SignIn(ctx, "ann@example.com", password, away)
		require.NoError(f, err)
	})
}

// withCodes has codes asked for, and is the secret and the recovery codes.
func (f *fixture) withCodes(v people.Session) (secret string, recovery []string) {
	f.Helper()
	secret, uri, err := f.BeginTOTP(f.Context(), v)
	require.NoError(f, err)
	require.Contains(f, uri, "otpauth://totp/")
	_, err = f.ConfirmTOTP(f.Context(), v, "000000x")
	require.ErrorIs(f, err, people.ErrWrong)
	recovery, err = f.ConfirmTOTP(f.Context(), v, f.code(secret))
	require.NoError(f, err)
	require.Len(f, recovery, 10)
	return secret, recovery
}

func (f *fixture) code(secret string) string {
	f.Helper()
	code, err := totp.GenerateCode(secret, f.now())
	require.NoError(f, err)
	return code
}

func TestCodes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v := f.join("ann@example.com", people.RoleOwner)
		other, err := f.SignIn(ctx, "ann@example.com", password, away)
		require.NoError(f, err)
		secret, recovery := f.withCodes(v)
		require.Empty(f, f.opens(other.Token), "another session outlives a change of how its person signs in")
		require.Equal(f, "ann@example.com", f.opens(token))
		_, _, err = f.BeginTOTP(ctx, v)
		require.ErrorIs(f, err, people.ErrExists)

		challenge := func() string {
			in, err := f.SignIn(ctx, "ann@example.com", password, home)
			require.NoError(f, err)
			require.Empty(f, in.Token)
			return in.Challenge
		}
		asked := challenge()
		_, err = f.EnterCode(ctx, asked, f.code(secret), home)
		require.ErrorIs(f, err, people.ErrWrong, "the code that has confirmed the app is used")
		f.pass(30 * time.Second)
		code := f.code(secret)
		_, err = f.EnterCode(ctx, asked, code, people.Client{Address: home.Address, Host: "evil.example"})
		require.ErrorIs(f, err, people.ErrExpired, "a challenge is good for another host")
		in, err := f.EnterCode(ctx, asked, code[:3]+" "+code[3:], home)
		require.NoError(f, err)
		require.Equal(f, "password+code", in.Session.Method)
		require.Equal(f, "ann@example.com", f.opens(in.Token))
		_, err = f.EnterCode(ctx, asked, code, home)
		require.ErrorIs(f, err, people.ErrExpired)
		_, err = f.EnterCode(ctx, challenge(), code, home)
		require.ErrorIs(f, err, people.ErrWrong, "a code works twice")

		in, err = f.EnterCode(ctx, challenge(), strings.ToUpper(recovery[3]), home)
		require.NoError(f, err)
		_, err = f.EnterCode(ctx, challenge(), recovery[3], home)
		require.ErrorIs(f, err, people.ErrWrong, "a recovery code works twice")

		asked = challenge()
		f.pass(5*time.Minute + time.Second)
		_, err = f.EnterCode(ctx, asked, f.code(secret), home)
		require.ErrorIs(f, err, people.ErrExpired)

		require.ErrorIs(f, f.Confirm(ctx, in.Session, password, "123"), people.ErrWrong)
		require.NoError(f, f.Confirm(ctx, in.Session, password, f.code(secret)))
		require.NoError(f, f.RemoveTOTP(ctx, in.Session))
		in, err = f.SignIn(ctx, "ann@example.com", password, home)
		require.NoError(f, err)
		require.NotEmpty(f, in.Token)
	})
}

func TestOneCodeAtOnceOpensOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		_, v := f.join("ann@example.com", people.RoleOwner)
		secret, _ := f.withCodes(v)
		f.pass(time.Minute)
		const tries = 4
		var challenges []string
		for range tries {
			in, err := f.SignIn(ctx, "ann@example.com", password, home)
			require.NoError(f, err)
			challenges = append(challenges, in.Challenge)
		}
		code, done := f.code(secret), make(chan error, tries)
		for _, asked := range challenges {
			go func() {
				_, err := f.EnterCode(ctx, asked, code, home)
				done <- err
			}()
		}
		in := 0
		for range tries {
			if err := <-done; err == nil {
				in++
			} else {
				require.ErrorIs(f, err, people.ErrWrong)
			}
		}
		require.Equal(f, 1, in)
	})
}

func TestOneChallengeTakesFewCodes(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	_, v := f.join("ann@example.com", people.RoleOwner)
	secret, _ := f.withCodes(v)
	in, err := f.SignIn(ctx, "ann@example.com", password, home)
	require.NoError(t, err)
	f.pass(30 * time.Second)
	for range 5 {
		_, err := f.EnterCode(ctx, in.Challenge, "12345a", home)
		require.ErrorIs(t, err, people.ErrWrong)
	}
	_, err = f.EnterCode(ctx, in.Challenge, f.code(secret), home)
	require.ErrorIs(t, err, people.ErrExpired)
}

func TestResets(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v := f.join("ann@example.com", people.RoleOwner)
		f.withCodes(v)
		before, _, err := f.InviteReset(ctx, v.Person, "bob")
		require.NoError(f, err)
		link, read, err := f.InviteReset(ctx, v.Person, "bob")
		require.NoError(f, err)
		require.Equal(f, people.Invitation{ID: read.ID, Email: "ann@example.com", Reset: true, Person: v.Person, By: "bob",
			Created: f.now(), Expires: f.now().Add(24 * time.Hour)}, read)
		_, _, err = f.Accept(ctx, before, people.Acceptance{Password: "another long password"}, home)
		require.ErrorIs(f, err, people.ErrExpired)
		_, _, err = f.Accept(ctx, link, people.Acceptance{Password: "short"}, home)
		require.ErrorIs(f, err, people.ErrWeak)
		fresh, _, err := f.Accept(ctx, link, people.Acceptance{Password: "another long password"}, home)
		require.NoError(f, err)
		require.Empty(f, f.opens(token))
		require.Equal(f, "ann@example.com", f.opens(fresh))
		_, err = f.SignIn(ctx, "ann@example.com", password, home)
		require.ErrorIs(f, err, people.ErrWrong)
		in, err := f.SignIn(ctx, "ann@example.com", "another long password", home)
		require.NoError(f, err)
		require.NotEmpty(f, in.Token, "a code of a lost app is asked for")
	})
}

func TestChangeOfPassword(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v := f.join("ann@example.com", people.RoleOwner)
		other, err := f.SignIn(ctx, "ann@example.com", password, away)
		require.NoError(f, err)
		link, _, err := f.InviteReset(ctx, v.Person, "")
		require.NoError(f, err)
		require.ErrorIs(f, f.ChangePassword(ctx, v, "not the old one", "another long password"), people.ErrWrong)
		require.ErrorIs(f, f.ChangePassword(ctx, v, password, "short"), people.ErrWeak)
		require.NoError(f, f.ChangePassword(ctx, v, password, "another long password"))
		require.Equal(f, "ann@example.com", f.opens(token))
		require.Empty(f, f.opens(other.Token))
		_, err = f.ReadInvitation(ctx, link)
		require.ErrorIs(f, err, people.ErrExpired)
		_, err = f.SignIn(ctx, "ann@example.com", "another long password", home)
		require.NoError(f, err)
		require.ErrorIs(f, f.ChangePassword(ctx, other.Session, "another long password", password), people.ErrNoSession)
	})
}

func TestWhatHasToBeConfirmed(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	token, v := f.join("ann@example.com", people.RoleOwner)
	f.pass(11 * time.Minute)
	_, _, err := f.BeginTOTP(ctx, v)
	require.ErrorIs(t, err, people.ErrConfirm)
	_, _, err = f.BeginAddPasskey(ctx, v)
	require.ErrorIs(t, err, people.ErrConfirm)
	require.ErrorIs(t, f.RemoveTOTP(ctx, v), people.ErrConfirm)
	require.ErrorIs(t, f.Confirm(ctx, v, "something else", ""), people.ErrWrong)
	require.NoError(t, f.Confirm(ctx, v, password, ""))
	v, _, err = f.Session(ctx, token, home)
	require.NoError(t, err)
	_, _, err = f.BeginTOTP(ctx, v)
	require.NoError(t, err)
}
