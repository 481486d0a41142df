//go:build clients && linux

package clients_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

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
