package command

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/command/top"
	"github.com/fareway/fareway/modules/internal/engine"
)

// TestTopOnce: one frame as text and as JSON, of what has ended and of who has spent.
func TestTopOnce(t *testing.T) {
	t.Parallel()
	data, e := running(t)
	account, err := e.Store().CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	for i := range 3 {
		e.Metrics().Request("chat", 200, time.Millisecond, time.Second)
		e.NoteEnded(&engine.Ended{ID: fmt.Sprint("req_", i), Endpoint: "chat", Status: 200, At: e.Now(), Took: time.Second,
			Account: "ann", AccountID: account.ID, Last4: "c1XZ", Route: "small", Attempts: 1, Input: 10, Output: 5,
			Charged: 1_335_000})
	}
	out, err := run(t, "top", "--once", "--interval", "500ms", "--data", data)
	require.NoError(t, err)
	require.NotContains(t, out, "\x1b")
	require.Contains(t, out, "requests 0/s")
	require.Regexp(t, `(?m)^ann +4\.00 +3 +0 +0 +45 +0 `, out)
	require.Regexp(t, `(?m)^\d\d:\d\d:\d\d 200 +ann +c1XZ small +10/5 +1,335,000 +1\.0s req_2`, out)
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, len(line), plainWidth+1)
	}

	f := runJSON[top.Frame](t, "top", "--interval", "500ms", "--data", data)
	require.EqualValues(t, 3*1_335_000, f.Accounts[0].Microcents)
	require.NotNil(t, f.Accounts[0].Balance)
	require.Len(t, f.Requests, 3)
	require.EqualValues(t, 0, *f.Rates.Requests)

	recent := runAPI[admin.Recent](t, data, "/fareway/requests?after=2")
	require.EqualValues(t, 3, recent.Last)
	require.Len(t, recent.Requests, 1)
	require.Zero(t, recent.Missed)
	require.Equal(t, "req_2", recent.Requests[0].ID)
}

// runAPI asks the admin API on a data folder.
func runAPI[T any](t *testing.T, data, path string) (v T) {
	t.Helper()
	c, err := admin.NewClient(data, "")
	require.NoError(t, err)
	require.NoError(t, c.Call(t.Context(), "GET", path, nil, &v))
	return v
}

// TestTopNeedsATerminal: what it cannot do it says, with what can be done in its place.
func TestTopNeedsATerminal(t *testing.T) {
	t.Parallel()
	data, _ := running(t)
	_, err := run(t, "top", "--data", data)
	require.ErrorContains(t, err, "`fareway gateway top --once` prints one frame as text")
	_, err = run(t, "top", "--once", "--interval", "1ms", "--data", data)
	require.ErrorContains(t, err, "--interval 1ms: write a duration from 500ms to 1m0s")
	_, err = run(t, "top", "--once", "--interval", "often", "--data", data)
	require.ErrorContains(t, err, "write a duration, as in 24h or 90s")
	_, err = run(t, "top", "--data", t.TempDir())
	require.Error(t, err)
	_, err = run(t, "top", "--once", "--data", t.TempDir())
	require.ErrorIs(t, err, admin.ErrNoGateway)
	c, err := admin.NewClient(data, "")
	require.NoError(t, err)
	require.ErrorContains(t, c.Call(t.Context(), "GET", "/fareway/requests?after=x", nil, new(admin.Recent)),
		`after "x": write the number of a request`)
}

// TestTopOfAHungGateway: one that takes connections and never answers is given up, with what to do next.
func TestTopOfAHungGateway(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	release := make(chan struct{})
	hung := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	socket := filepath.Join(data, "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	hung.Listener.Close()
	hung.Listener = l
	hung.Start()
	t.Cleanup(func() { close(release); hung.Close() })
	require.NoError(t, os.WriteFile(filepath.Join(data, "admin.token"), []byte("x"), 0o600))
	c, err := admin.NewClient(data, "unix/"+socket)
	require.NoError(t, err)
	_, err = gatewaySource{c, 50 * time.Millisecond}.Read(t.Context(), 0, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "it does not answer within 50ms; see what it does with `fareway gateway support-bundle")
	require.Equal(t, top.AnswerTimeout, gatewaySource{client: c}.patience())
}
