package people_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/people"
)

func TestAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	server, err := postgrestest.Start()
	require.NoError(t, err)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			require.NoError(t, server.Stop())
		}
	})
	f := newFixture(t, "", server.URL("postgres"))
	token, v := f.join("ann@example.com", people.RoleOwner)
	require.NoError(t, f.Ping(t.Context()))
	require.NoError(t, server.Stop())
	stopped = true
	_, _, err = f.Session(t.Context(), token, home)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.NotErrorIs(t, err, people.ErrNoSession)
	_, err = f.SignIn(t.Context(), "ann@example.com", password, home)
	require.ErrorIs(t, err, people.ErrUnavailable)
	require.ErrorIs(t, f.SetDisabled(t.Context(), v.Person, true), people.ErrUnavailable)
	other := f.open()
	require.ErrorIs(t, other.Ping(t.Context()), people.ErrUnavailable)
}

func TestAStoreThatComesLater(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	f := newFixture(t, filepath.Join(folder, "none", "portal.db"), "")
	require.ErrorIs(t, f.Ping(t.Context()), people.ErrUnavailable)
	f.options.Path = filepath.Join(folder, "portal.db")
	later := f.open()
	require.NoError(t, later.Ping(t.Context()))
	require.NoError(t, later.Close())
	require.ErrorIs(t, later.Ping(t.Context()), people.ErrUnavailable)
}

func TestNodesMakeTheTablesTogether(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Database(t)
	done := make(chan error)
	const nodes = 4
	for range nodes {
		s := people.New(people.Options{DSN: dsn, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		go func() { done <- s.Ping(t.Context()) }()
	}
	for range nodes {
		require.NoError(t, <-done)
	}
}
