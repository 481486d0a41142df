package people_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("25") // each step hashes a password, and writes to a disk
	}
	code := m.Run()
	if err := postgrestest.StopOwn(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Who asks in tests, from two places.
var (
	home = people.Client{Address: "192.0.2.7", Agent: "Firefox", Host: "portal.example", Secure: true}
	away = people.Client{Address: "203.0.113.9", Agent: "curl", Host: "portal.example", Secure: true}
)

const (
	password = "a long and rainy afternoon"
	account  = "acct_0123456789abcdef01234567"
)

// fixture is a service with a clock that only the test turns.
type fixture struct {
	*testing.T
	*people.Service
	options people.Options
	config  config.Portal

	mu    sync.Mutex
	time  time.Time
	acts  []string // action, account and subject of each
	fails error    // what the audit trail says instead
}

func (f *fixture) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.time
}

// pass turns the clock.
func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.time = f.time.Add(d)
}

func (f *fixture) record(_ context.Context, action, account, _ string, _ map[string]any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return f.fails
	}
	f.acts = append(f.acts, action+" "+account)
	return nil
}

// takeActs are those since the last time.
func (f *fixture) takeActs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	acts := f.acts
	f.acts = nil
	return acts
}

func (f *fixture) open() *people.Service {
	s := people.New(f.options)
	f.Cleanup(func() { require.NoError(f, s.Close()) })
	return s
}

func newFixture(t *testing.T, path, dsn string) *fixture {
	f := &fixture{T: t, time: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	begun := f.time
	f.options = people.Options{Path: path, DSN: dsn, Config: func() config.Portal { return f.config }, Record: f.record,
		Limiter: ratelimit.NewMemory(ratelimit.Options{Elapsed: func() time.Duration { return f.now().Sub(begun) }}),
		Log:     slog.New(slog.DiscardHandler), Now: f.now}
	f.Service = f.open()
	return f
}

// onFile is a fixture with a store in SQLite.
func onFile(t *testing.T) *fixture { return newFixture(t, filepath.Join(t.TempDir(), "portal.db"), "") }

// onBoth runs a test on both kinds of stores.
func onBoth(t *testing.T, test func(f *fixture)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(onFile(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(newFixture(t, "", postgrestest.Database(t)))
	})
}

// invited is the token of an invitation to an account.
func (f *fixture) invited(email string, role people.Role) string {
	f.Helper()
	token, _, err := f.Invite(f.Context(), people.Invitation{Email: email, Account: account, Role: role})
	require.NoError(f, err)
	return token
}

// join makes somebody a member of the account, and is their first session.
func (f *fixture) join(email string, role people.Role) (token string, v people.Session) {
	f.Helper()
	token, v, err := f.Accept(f.Context(), f.invited(email, role), people.Acceptance{Name: "Ann", Password: password},
		home)
	require.NoError(f, err)
	return token, v
}

// admin makes the first operator, and is their first session.
func (f *fixture) admin(email string) (token string, v people.Session) {
	f.Helper()
	link, _, err := f.FirstLink(f.Context())
	require.NoError(f, err)
	token, v, err = f.Accept(f.Context(), link, people.Acceptance{Email: email, Password: password}, home)
	require.NoError(f, err)
	return token, v
}

// opens is whose session a token opens; "" for nobody's.
func (f *fixture) opens(token string) string {
	f.Helper()
	_, p, err := f.Session(f.Context(), token, home)
	if err != nil {
		require.ErrorIs(f, err, people.ErrNoSession)
		return ""
	}
	return p.Email
}
