//go:build clients && linux

package clients_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// What the official libraries do beside their tool loops.
func TestSurface(t *testing.T) {
	t.Parallel()
	long := upstream.Say("Hello.")
	long.Steps = append(slices.Repeat(long.Steps[:1], 5000), long.Steps...)
	g := startGateway(t, func(req *upstream.Request) upstream.Reply {
		if req.Messages[len(req.Messages)-1].Text == "long" {
			return long
		}
		return upstream.Say("Hello. END more")
	})
	for _, client := range []string{"openai", "anthropic"} {
		script := prepare(t, library{name: "surface"})
		for _, behaviour := range []string{"stop", "count", "models", "account", "request id", "long context", "model ids", "cancellation"} {
			if excluded[behaviour][client] != "" {
				continue
			}
			t.Run(client+" "+behaviour, func(t *testing.T) {
				t.Parallel()
				shows(t, client, behaviour)
				ctx, cancel := context.WithTimeout(t.Context(), clientTime)
				defer cancel()
				key := g.account(t, strings.ReplaceAll(client+"-"+behaviour, " ", "-"))
				cmd := exec.CommandContext(ctx, script[0], append(script[1:len(script):len(script)], client, behaviour)...)
				cmd.Env = append(os.Environ(), "FAREWAY_URL="+g.URL, "FAREWAY_KEY="+key, "HOME="+t.TempDir())
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				require.NoError(t, cmd.Run(), "%s", &out)
			})
		}
	}
}
