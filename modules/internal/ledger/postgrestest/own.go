package postgrestest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// own is the server of this test binary, once a test has asked for it.
var (
	own       atomic.Pointer[Server]
	startOwn  = sync.OnceValues(func() (*Server, error) { s, err := Start(); own.Store(s); return s, err })
	databases atomic.Int64
)

// Database makes an empty database on this test binary's own server, which the first test that asks starts, and StopOwn
// stops. It returns its url.
func Database(t testing.TB) string { return Copy(t, "template1") }

// Copy is Database, with a copy of a database that CreateTemplate made.
func Copy(t testing.TB, like string) string {
	t.Helper()
	s, err := startOwn()
	if err != nil {
		t.Fatal(err)
	}
	return s.CreateDatabase(t, "own"+strconv.FormatInt(databases.Add(1), 10), like)
}

// CreateTemplate makes a database on this test binary's own server, for Copy. fill is given its url, and leaves it.
func CreateTemplate(name string, fill func(url string) error) error {
	s, err := startOwn()
	if err != nil {
		return err
	}
	if err := s.Exec(`CREATE DATABASE ` + pgx.Identifier{name}.Sanitize()); err != nil {
		return err
	}
	return fill(s.URL(name))
}

// StopOwn stops the server of this test binary, if there is one: TestMain calls it.
func StopOwn() error {
	if s := own.Load(); s != nil {
		return s.Stop()
	}
	return nil
}
