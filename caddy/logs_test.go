//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// ask sends a request and returns its id.
func (g *gateway) ask(t *testing.T, key string) string {
	t.Helper()
	resp, err := http.DefaultClient.Do(shapes[0].request(t, g.URL, key, "hello", false))
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return resp.Header.Get("X-Request-Id")
}

// hangUp renames the log as logrotate does and sends SIGHUP to the gateway and to providers, as a whole service is
// sent it.
func (g *gateway) hangUp(t *testing.T, providers []child, renamed string) {
	t.Helper()
	path := filepath.Join(g.Dir, "fareway.log")
	require.NoError(t, os.Rename(path, path+renamed))
	for _, c := range providers {
		require.NoError(t, syscall.Kill(c.pid, syscall.SIGHUP))
	}
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGHUP))
	eventually(t, func() (bool, string) {
		_, err := os.Stat(path)
		return err == nil, "no new file"
	})
}

// TestLogsAreRenamedUnderLoad: each request has its access line once, in one of the files, and none is written to a
// file that was renamed before an earlier signal.
func TestLogsAreRenamedUnderLoad(t *testing.T) {
	t.Parallel()
	const clients, renames = 3, 8
	up := upstream.Start(t, upstream.Options{})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	key := g.account(t, 100_000_000)
	providers := g.children(t)
	var ids sync.Map
	var sent atomic.Int64
	var ended atomic.Bool
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for !ended.Load() {
				ids.Store(g.ask(t, key), nil)
				sent.Add(1)
			}
		})
	}
	for i := range renames {
		before := sent.Load()
		eventually(t, func() (bool, string) { return sent.Load() > before+5, "no requests" })
		g.hangUp(t, providers, fmt.Sprint(".", i))
	}
	ended.Store(true)
	all.Wait()
	last := g.ask(t, key)
	ids.Store(last, nil)
	for _, c := range providers {
		require.False(t, c.hasEnded(0), "a provider has no log, and lives on")
	}
	g.stop(t)

	paths, err := filepath.Glob(filepath.Join(g.Dir, "fareway.log*"))
	require.NoError(t, err)
	require.Len(t, paths, renames+1)
	lines := make(map[string]string) // the file of a request
	for _, path := range paths {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), path)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			var l struct {
				Msg      string
				ID       string `json:"request_id"`
				ClientIP string `json:"client_ip"`
				Last4    string `json:"key_last4"`
			}
			require.NoError(t, json.Unmarshal([]byte(line), &l), "%s: %s", path, line)
			if l.Msg != "request" {
				continue
			}
			require.NotContains(t, lines, l.ID)
			require.Equal(t, "127.0.0.1", l.ClientIP)
			require.Equal(t, key[len(key)-4:], l.Last4)
			lines[l.ID] = filepath.Base(path)
		}
	}
	ids.Range(func(id, _ any) bool {
		require.Contains(t, lines, id)
		delete(lines, id.(string))
		return true
	})
	require.Empty(t, lines)
	text, err := os.ReadFile(filepath.Join(g.Dir, "fareway.log"))
	require.NoError(t, err)
	require.Contains(t, string(text), last)
}
