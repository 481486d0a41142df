//go:build linux

package main_test

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTwoFirstStarts: of two starts at once on one new folder one serves, with all of its files: the other, which
// finds its port or the folder taken, takes back what it wrote itself and nothing else.
func TestTwoFirstStarts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	for range 4 {
		dir := t.TempDir()
		first := launchGateway(t, dir)
		losing := fareway(t.TempDir(), "gateway", "up", "--no-selftest", "--listen", taken.Addr().String(), "--data", dir)
		var said bytes.Buffer
		losing.Stdout, losing.Stderr = &said, &said
		require.NoError(t, losing.Start())
		require.NoError(t, first.listening(withTimeout(t)))
		require.Error(t, losing.Wait(), "it cannot start")
		require.True(t, strings.HasPrefix(said.String(), "Error: "), &said)
		for _, name := range []string{"Caddyfile", "gateway.hcl", "listen.caddy", "admin.token", "trial.key"} {
			require.FileExists(t, filepath.Join(dir, name), said.String())
		}
		first.stop(t)
		require.True(t, verifyOffline(t, dir).OK)
	}
}
