//go:build linux

package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestNextProcess: a gateway that is started while the one before it drains serves at once, with the ledger and what
// the old one holds; the streams of that go on to their ends, and are charged once (GAP-99). One that is killed
// meanwhile leaves holds that are released.
func TestNextProcess(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, old *gateway, up *upstream.Server, streams map[string]*live){
		"it ends": func(t *testing.T, _ *gateway, up *upstream.Server, streams map[string]*live) {
			up.Open("go")
			for _, s := range shapes {
				streams[s.name].whole(t, s)
			}
		},
		"it is killed": func(t *testing.T, old *gateway, up *upstream.Server, _ map[string]*live) {
			old.kill()
			up.Open("go")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := upstream.Start(t, upstream.Options{Script: gated})
			dir := t.TempDir()
			files{"gateway.hcl": hcl(up)}.write(t, dir)
			old := runGateway(t, dir)
			key := old.account(t, 1_000_000)
			streams := openAll(t, old, up, key)
			old.terminate(t)
			lease := filepath.Join(dir, "fareway.db.lock")
			eventually(t, func() (bool, string) {
				b, err := os.ReadFile(lease)
				require.NoError(t, err)
				return strings.HasSuffix(string(b), " offered\n"), string(b)
			})

			next := runGateway(t, dir)
			require.False(t, old.hasEnded())
			require.EqualValues(t, len(shapes), next.verify(t).Holds)
			shapes[0].send(t, http.DefaultClient, next.URL, key, "hello", true).whole(t, shapes[0])
			end(t, old, up, streams)
			if !old.hasEnded() {
				old.endedWell(t)
			}
			var r report
			eventually(t, func() (bool, string) {
				if _, err := os.Lstat(filepath.Join(dir, "admin.sock")); err != nil {
					return false, "the process before has removed the socket, and it is not put back"
				}
				r = next.verify(t)
				return r.Holds == 0, "holds of the process before"
			})
			require.True(t, r.OK)
			require.EqualValues(t, 1+len(shapes), r.Requests)
			left, err := filepath.Glob(filepath.Join(dir, "fareway.db.spool.of-*"))
			require.NoError(t, err)
			require.Empty(t, left)
			next.readiness(t, http.StatusOK)
			next.stop(t)
			require.True(t, verifyOffline(t, dir).OK)
		})
	}
}
