//go:build clients && linux

package clients_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// What the libraries do beside their tool loops.
func TestSurface(t *testing.T) {
	t.Parallel()
	g := startGateway(t, said)
	scripts := map[bool][]string{
		false: prepare(t, library{name: "surface"}), true: prepare(t, library{name: "go/surface", compiled: true}),
	}
	for _, l := range libraries {
		for _, behaviour := range []string{"stop", "count", "models", "account", "request id", "long context", "model ids"} {
			if excluded[behaviour][l.name] != "" {
				continue
			}
			t.Run(l.name+" "+behaviour, func(t *testing.T) {
				t.Parallel()
				shows(t, l.name, behaviour)
				cmd := surface(t, g, scripts[l.compiled], l, behaviour)
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
			})
		}
	}
	for _, l := range libraries {
		t.Run(l.name+" cancellation GAP-47", func(t *testing.T) {
			t.Parallel()
			shows(t, l.name, "cancellation")
			g := startGateway(t, func(req *upstream.Request) upstream.Reply {
				if req.Messages[len(req.Messages)-1].Text == "long" {
					return slowly("go")
				}
				return upstream.Say("Hello. END more")
			})
			cmd := surface(t, g, scripts[l.compiled], l, "cancellation")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err, "%s", &stderr)
			require.Equal(t, "left\n", line)
			g.readOn(t, g.Wire, "go")
			_, err = fmt.Fprintln(in, "go on")
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, out) // until it ends
			require.NoError(t, cmd.Wait(), "%s", &stderr)
		})
	}
}

// surface is the command that tries a behaviour of a library with an account of its own.
func surface(t *testing.T, g *gateway, script []string, l library, behaviour string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	t.Cleanup(cancel)
	key := g.account(t, strings.NewReplacer(" ", "-", "/", "-").Replace(l.name+"-"+behaviour))
	args := append(script[1:len(script):len(script)], strings.TrimPrefix(l.name, "go/"), behaviour)
	cmd := exec.CommandContext(ctx, script[0], args...)
	cmd.Env = append(os.Environ(), "FAREWAY_URL="+g.URL, "FAREWAY_KEY="+key)
	if !l.compiled { // Go finds its caches by HOME
		cmd.Env = append(cmd.Env, "HOME="+t.TempDir())
	}
	return cmd
}
