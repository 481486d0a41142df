//go:build linux && soak

package main_test

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestSoakUpgrade replaces a gateway that runs 1,000 streams, twice.
func TestSoakUpgrade(t *testing.T) { //nolint:paralleltest // what else runs would compete for the cores
	testUpgrade(t, 1000, 4)
}

// TestSoakTerminate ends a gateway that runs 1,000 streams: with all of them whole where they end in time, and when
// drain_timeout is over where they do not. Either way each is settled, and the status is 0.
func TestSoakTerminate(t *testing.T) { //nolint:paralleltest // what else runs would compete for the cores
	const n, drain = 1000, 3 * time.Second
	for name, inTime := range map[string]bool{"in time": true, "drain_timeout": false} {
		t.Run(name, func(t *testing.T) {
			up := upstream.Start(t, upstream.Options{Script: gated})
			dir, config := t.TempDir(), hcl(up)
			if !inTime {
				config = "gateway {\n  drain_timeout = \"" + drain.String() + "\"\n}\n" + config
			}
			g := runServiceOf(t, dir, config)
			streams := g.openStreams(t, up, g.account(t, 100_000_000), n, shapes...)
			require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
			g.readiness(t, http.StatusServiceUnavailable)
			began := time.Now()
			if inTime {
				up.Open("go")
			}
			for i, s := range streams {
				if inTime {
					s.whole(t, shapes[i%len(shapes)])
					continue
				}
				require.Contains(t, s.all(t), "error", "it says that the reply is not whole")
			}
			g.endedWell(t)
			t.Logf("ended %s after SIGTERM", time.Since(began).Round(time.Millisecond))
			r := verifyOffline(t, dir)
			require.True(t, r.OK)
			require.Zero(t, r.Holds)
			require.EqualValues(t, n, r.Requests)
		})
	}
}
