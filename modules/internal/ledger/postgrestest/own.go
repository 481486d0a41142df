package postgrestest

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// own is the server of this test binary, once a test has asked for it.
var (
	own       atomic.Pointer[Server]
	startOwn  = sync.OnceValues(func() (*Server, error) { s, err := Start(); own.Store(s); return s, err })
	databases atomic.Int64
)

// Database makes an empty database on this test binary's own server, which the first test that asks starts, and StopOwn
// stops. It returns its url.
func Database(t testing.TB) string {
	t.Helper()
	s, err := startOwn()
	if err != nil {
		t.Fatal(err)
	}
	return s.CreateDatabase(t, "own"+strconv.FormatInt(databases.Add(1), 10), "template1")
}

// StopOwn stops the server of this test binary, if there is one: TestMain calls it.
func StopOwn() error {
	if s := own.Load(); s != nil {
		return s.Stop()
	}
	return nil
}
