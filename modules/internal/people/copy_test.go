package people_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/people/issuertest"
)

func TestCopiesAreWhole(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	token, v := f.join("ann@example.com", people.RoleOwner)
	link := f.invited("bob@example.com", people.RoleViewer)
	reset, _, err := f.InviteReset(t.Context(), v.Person, "")
	require.NoError(t, err)
	_, err = f.ChangeTopUp(t.Context(), "acct_1", "", func(v *people.TopUp) error {
		v.Active, v.Method = true, "pm_1"
		return nil
	})
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, people.Copy(t.Context(), f.options.Path, to))
	require.NoError(t, people.Check(t.Context(), to))
	for _, path := range []string{to, f.options.Path} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), path)
	}
	copied := newFixture(t, to, "")
	require.Empty(t, copied.opens(token), "a session that may have ended since is in a copy")
	for s, active := range map[*people.Service]bool{f.Service: true, copied.Service: false} {
		v, err := s.TopUp(t.Context(), "acct_1")
		require.NoError(t, err)
		require.Equal(t, active, v.Active, "a copy that is put back charges nobody by itself")
		require.Equal(t, "pm_1", v.Method)
	}
	_, err = copied.ReadInvitation(t.Context(), reset)
	require.ErrorIs(t, err, people.ErrExpired)
	_, err = copied.ReadInvitation(t.Context(), link)
	require.NoError(t, err)
	_, err = copied.SignIn(t.Context(), "ann@example.com", password, home)
	require.NoError(t, err)
	require.Error(t, people.Copy(t.Context(), f.options.Path, to), "a file that is there is written over")
	require.ErrorIs(t, people.Copy(t.Context(), filepath.Join(t.TempDir(), "none.db"), filepath.Join(t.TempDir(), "x")),
		fs.ErrNotExist)
	require.NoError(t, os.WriteFile(to, []byte("no database at all, but long enough to be looked at twice"), 0o600))
	require.Error(t, people.Check(t.Context(), to))
}

func TestMovesTakeEverybodyAlong(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := t.Context()
	i := issuertest.Start(t, callback)
	f.withIssuer(i)
	_, v := f.join("ann@example.com", people.RoleOwner)
	d := newDevice()
	d.add(f, v)
	secret, recovery := f.withCodes(v)
	i.Add("u1", "bob@example.com", true, "helpdesk")
	_, err := f.signInBy(i, "u1")
	require.NoError(t, err)
	link := f.invited("eve@example.com", people.RoleViewer)
	reset, _, err := f.InviteReset(ctx, v.Person, "")
	require.NoError(t, err)

	to := newFixture(t, "", postgrestest.Database(t))
	to.withIssuer(i)
	for range 2 { // it was interrupted
		n, err := people.Move(ctx, f.Service, to.Service)
		require.NoError(t, err)
		require.Equal(t, 2, n)
	}
	to.mu.Lock()
	to.time = f.now()
	to.mu.Unlock()
	for _, p := range []string{"ann@example.com", "bob@example.com"} {
		want, err := f.FindPerson(ctx, p)
		require.NoError(t, err)
		got, err := to.FindPerson(ctx, p)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	in, err := to.SignIn(ctx, "ann@example.com", password, home)
	require.NoError(t, err)
	defer func() {
		_, err := people.Move(ctx, f.Service, to.Service)
		require.ErrorIs(t, err, people.ErrExists, "somebody signs in there")
		_, err = people.Move(ctx, onFile(t).Service, to.Service)
		require.ErrorIs(t, err, people.ErrExists, "there are others")
		left, err := to.People(ctx, "", 10)
		require.NoError(t, err)
		require.Len(t, left, 2)
	}()
	_, err = to.EnterCode(ctx, in.Challenge, f.code(secret), home)
	require.ErrorIs(t, err, people.ErrWrong, "a code that was used works at the new place")
	_, err = to.EnterCode(ctx, in.Challenge, recovery[0], home)
	require.NoError(t, err)
	d.credential.Counter++
	_, err = d.signIn(to, home)
	require.NoError(t, err)
	_, err = to.signInBy(i, "u1")
	require.NoError(t, err)
	for _, token := range []string{link, reset} {
		want, err := f.ReadInvitation(ctx, token)
		require.NoError(t, err)
		got, err := to.ReadInvitation(ctx, token)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
