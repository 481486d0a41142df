//go:build clients && linux

package clients_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// A key of another service in the environment is told of, also where the home folder is another one; it is what Claude
// Code sends beside the gateway's own.
func TestConnectTellsOfForeignKey(t *testing.T) {
	t.Parallel()
	g := startGateway(t, said)
	for _, more := range [][]string{nil, {"--write"}, {"--write", "--probe"}} {
		args := append([]string{"gateway", "connect", "claude", "--data", g.Data, "--home", folder(t)}, more...)
		cmd := exec.CommandContext(t.Context(), filepath.Join(root(t), "bin/fareway"), args...)
		cmd.Env = append(os.Environ(), "ANTHROPIC_API_KEY=sk-foreign")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "Warning: ANTHROPIC_API_KEY is set in your environment", "%q", more)
	}
	defer agentSlot()()
	a, home := agentNamed(t, "claude"), folder(t)
	g.connect(t, home, a.name, "messages", nil)
	a.env = append(a.env, "ANTHROPIC_API_KEY=sk-foreign")
	out, err := a.run(t, home, folder(t), a.command("messages")...)
	require.NoError(t, err, out)
	for _, s := range g.Wire.Seen() {
		if s.family() != "" {
			require.Equal(t, "sk-foreign", s.APIKey)
			require.Equal(t, 200, s.Status)
		}
	}
}

// The command tries what it has written in the shape that the client will use.
func TestConnectProbe(t *testing.T) {
	t.Parallel()
	g := startGateway(t, func(*upstream.Request) upstream.Reply { return upstream.Say("Good day.") })
	for _, family := range []string{"chat", "responses", "messages"} {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			w := startWire(t, g.URL)
			home := folder(t)
			file := filepath.Join(home, ".config/opencode/opencode.json")
			client := []string{"connect", "opencode", "--home", home, "--json"}
			out := g.fareway(t, append(client, "--family", family, "--url", w.URL, "--write", "--probe")...)
			var v struct {
				Probe struct {
					Text             string
					BilledMicrocents int64 `json:"billed_microcents"`
				}
			}
			require.NoError(t, json.Unmarshal([]byte(out), &v), "%s", out)
			require.Equal(t, "Good day.", v.Probe.Text)
			require.Positive(t, v.Probe.BilledMicrocents)
			require.Len(t, w.Seen(), 2, "it asks for the context window, and tries the settings")
			require.Equal(t, "/v1/models", w.Seen()[0].Path)
			require.Equal(t, family, w.Seen()[1].family())
			require.FileExists(t, file)
			g.fareway(t, append(client, "--undo")...)
			_, err := os.Stat(file)
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}
