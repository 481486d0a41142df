package gateway

import (
	"context"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/stretchr/testify/require"
)

// Rolled logs are not compressed on the hot machine, unless the operator says so.
func TestRolledLogsAreNotCompressed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ option, want string }{
		"by default":            {"", "none"},
		"what is asked for":     {"roll_compression zstd", "zstd"},
		"gzip too":              {"roll_compression gzip", "gzip"},
		"what forbids it stays": {"roll_uncompressed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := new(FileWriter)
			require.NoError(t, w.UnmarshalCaddyfile(caddyfile.NewTestDispenser("file access.log {\n"+tc.option+"\n}")))
			ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
			defer cancel()
			require.NoError(t, w.Provision(ctx))
			require.Equal(t, tc.want, w.RollCompression)
			require.Equal(t, tc.option != "roll_uncompressed", w.RollCompress == nil)
		})
	}
}
