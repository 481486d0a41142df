//go:build clients && linux

package clients_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// What a person sees of a refusal is the gateway's own text, which says what to do. README.md has what else the
// agents make of one; those that an agent repeats for minutes before it shows anything are not here.
func TestAgentsShowRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		says   string
		// change makes the agent's settings, and its command, those that are refused.
		change func(t *testing.T, g *gateway) func(string) string
		window int
		except []string // agents that repeat it for minutes, or show words of their own
	}{
		"wrong key": {401, "Trying again helps only with a valid key", func(t *testing.T, g *gateway) func(string) string {
			return func(s string) string { return strings.ReplaceAll(s, g.Key, mistyped(g.Key)) }
		}, 1_000_000, nil},
		"no credit": {402, "The account has no credits left. Trying again helps once credits are added.",
			func(t *testing.T, g *gateway) func(string) string {
				key := g.brokeAccount(t, "broke")
				return func(s string) string { return strings.ReplaceAll(s, g.Key, key) }
			}, 1_000_000, nil},
		"unknown model": {404, `Trying again does not help: set the model to "service/auto"`,
			func(*testing.T, *gateway) func(string) string {
				return func(s string) string { return strings.ReplaceAll(s, "service/auto", "service/best") }
			}, 1_000_000, []string{"claude"}}, // it says in its own words that there is an issue with the model
		"too long": {503, "Trying again does not help: send less, begin a new conversation",
			func(*testing.T, *gateway) func(string) string {
				return func(s string) string { return s }
			}, 2048, []string{"claude", "codex", "opencode", "qwen"}}, // Claude Code knows the window, and does not ask
	} {
		for _, a := range agents(t) {
			if slices.Contains(tt.except, a.name) {
				continue
			}
			t.Run(a.name+" "+name, func(t *testing.T) {
				t.Parallel()
				defer agentSlot()()
				g := startGatewayWith(t, func(*upstream.Request) upstream.Reply { return upstream.Say("Hello.") }, tt.window)
				change := tt.change(t, g)
				home, family := folder(t), a.families[0]
				g.connect(t, home, a.name, family, change)
				command := a.command(family)
				for i := range command {
					if strings.HasPrefix(command[i], "fareway/") {
						command[i] = change(command[i])
					}
				}
				out, err := a.run(t, home, folder(t), command...)
				require.Error(t, err, "%s", out)
				require.Contains(t, strings.Join(strings.Fields(out), " "), tt.says)
				ids := 0
				everywhere := out + written(home)
				for _, s := range g.Wire.Seen() {
					if s.family() != "" {
						require.Equal(t, tt.status, s.Status, "%+v", s)
						if strings.Contains(everywhere, s.ID) {
							ids++
						}
					}
				}
				if tt.status == 402 { // an agent keeps the request id in its output or in its own files, for support
					shows(t, a.name, "request id")
					require.Positive(t, ids)
				}
			})
		}
	}
}

// mistyped is a key with another last character.
func mistyped(key string) string {
	last := "a"
	if strings.HasSuffix(key, last) {
		last = "b"
	}
	return key[:len(key)-1] + last
}
