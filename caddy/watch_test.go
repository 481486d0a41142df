//go:build linux

package main_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// applied is `gateway apply` at work.
type applied struct {
	cmd   *exec.Cmd
	out   lockedBuffer
	ended chan struct{} // closed when it has ended
}

// applyWatched begins to apply a configuration, and to watch it for longer than any test takes.
func (g *gateway) applyWatched(t *testing.T, hcl string) *applied {
	t.Helper()
	files{"new.hcl": hcl}.write(t, g.Dir)
	a := &applied{ended: make(chan struct{})}
	a.cmd = fareway(g.Dir, "gateway", "apply", filepath.Join(g.Dir, "new.hcl"), "--yes", "--watch", "10h", "--data", g.Dir)
	a.cmd.Stdout, a.cmd.Stderr = &a.out, &a.out
	require.NoError(t, a.cmd.Start())
	go func() {
		defer close(a.ended)
		_ = a.cmd.Wait() // its status is looked at
	}()
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill() // it has ended, as a rule
		<-a.ended
	})
	return a
}

// status is that of a request.
func (g *gateway) status(t *testing.T, key string) int {
	t.Helper()
	resp, err := http.DefaultClient.Do(shapes[0].request(t, g.URL, key, "hello", false))
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}

// sendUntil sends requests until the apply has ended, which must be because they fail.
func (g *gateway) sendUntil(t *testing.T, a *applied, key string) {
	t.Helper()
	for ctx := withTimeout(t); ; {
		select {
		case <-a.ended:
			require.Equal(t, 1, a.cmd.ProcessState.ExitCode(), "%s", &a.out)
			require.Contains(t, a.out.String(), "before it were 0%. What served before is put back, and serves.")
			return
		default:
			require.NoError(t, ctx.Err(), "it has not noticed")
			g.status(t, key)
		}
	}
}

// deaf is an address of this machine at which nobody listens, nor can anybody before the test ends.
func deaf(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
}

// TestApplyRollsItselfBack: an apply after which requests fail is undone by itself, also where the gateway is started
// again meanwhile.
func TestApplyRollsItselfBack(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"as it runs": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := upstream.Start(t, upstream.Options{})
			good := hcl(up)
			g := startGateway(t, files{"gateway.hcl": good})
			key := g.account(t, 100_000_000)
			for range 20 {
				require.Equal(t, http.StatusOK, g.status(t, key))
			}
			bad := strings.Replace(good, up.BaseURL(), "http://"+deaf(t)+"/v1", 1)

			a := g.applyWatched(t, bad)
			eventually(t, func() (bool, string) {
				return strings.Contains(a.out.String(), "Watching the requests that fail"), a.out.String()
			})
			if restart {
				g.kill()
				g = runGateway(t, g.Dir)
				defer func() { g.stop(t) }()
			}
			g.sendUntil(t, a, key)
			installed, err := os.ReadFile(filepath.Join(g.Dir, "gateway.hcl"))
			require.NoError(t, err)
			require.Equal(t, good, string(installed))
			require.Equal(t, http.StatusOK, g.status(t, key))
		})
	}
}
