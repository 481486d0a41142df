package contracttest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestConversationStays: a turn that answers tool calls goes where they were made, whatever else is better at it;
// with affinity off each turn is chosen afresh.
func TestConversationStays(t *testing.T) {
	t.Parallel()
	const routes = `
route "writer" {
  provider       = "up"
  model          = "writer"
  context_window = 200000
  max_output     = 64000
  offers         = ["tools"]
  quality {
    default = 0.5
    writing = 0.99
    tools   = 0.1
  }
  price {
    input  = 3
    output = 15
  }
}
route "caller" {
  provider       = "up"
  model          = "caller"
  context_window = 200000
  max_output     = 64000
  offers         = ["tools"]
  quality {
    default = 0.5
    tools   = 0.99
  }
  price {
    input  = 3
    output = 15
  }
}
`
	const (
		prompt  = `{"role":"user","content":"Write me a short poem about the sea. PROMPT"}`
		call    = `{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		result  = `{"role":"tool","tool_call_id":"1","content":"3 degrees"}`
		another = `{"role":"user","content":"Send Ann an e-mail that I am late, and book a table for two at eight."}`
	)
	const loop = prompt + `,{"role":"assistant","content":"Here."},` + another + "," + call + "," + result
	body := func(messages string) string {
		return `{"model":"service/auto","messages":[` + messages + `],"tools":[{"type":"function","function":{"name":"f"}}]}`
	}
	for _, tc := range []struct {
		name, extra, inLoop string
	}{
		{"on", "", "writer"},
		{"off", "affinity {\n  mode = \"off\"\n}\n", "caller"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Extra: routes + tc.extra, Routes: []route{{Name: "any", Quality: 0.1, Input: "30"}}})
			c := g.rich(t)
			turn := func(body string) string {
				a := c.Post("/v1/chat/completions", body)
				require.Equal(t, 200, a.StatusCode)
				return c.Route(t)
			}
			require.Equal(t, "writer", turn(`{"model":"service/auto","messages":[`+prompt+`]}`))
			require.Equal(t, tc.inLoop, turn(body(loop)))
			require.Equal(t, "caller", turn(body(loop+`,{"role":"assistant","content":"Done."},`+another)),
				"the gain is larger than what a cold cache costs")
			other := g.rich(t)
			a := other.Post("/v1/chat/completions", body(loop))
			require.Equal(t, 200, a.StatusCode)
			require.Equal(t, "caller", other.Route(t), "another account's conversation is another one")
		})
	}
}

// TestWhatAClientChangesCostsNothing proves GAP-134 by what ten turns cost on an upstream that keeps prefixes, for
// each of its keys: a session whose client changes a listed header, or listed lines that end its instructions, with
// every turn costs at most 1.05 times one that does not, on one key and over pools of them. Sent on, a header costs
// 5.2 to 5.7 times as much, and so does a line before an upstream's mark.
func TestWhatAClientChangesCostsNothing(t *testing.T) {
	t.Parallel()
	const turns = 10
	rules := "PROMPT " + strings.Repeat("Obey the rules of this house at all times. ", 400)
	type turn struct {
		system []string
		user   []string // the first message of the user
	}
	sessions := map[string]func(n int) turn{
		"a header": func(n int) turn {
			return turn{[]string{fmt.Sprintf("x-anthropic-billing-header: cc_version=2.1.177; cch=%05x;", n), rules},
				[]string{"Begin."}}
		},
		"a header in the text": func(n int) turn {
			return turn{[]string{fmt.Sprintf("x-anthropic-billing-header: cc_version=2.1.177; cch=%05x;\n", n) + rules},
				[]string{"Begin."}}
		},
		"a last line": func(n int) turn {
			return turn{[]string{rules + fmt.Sprintf("\n\nCurrent time: 2026-11-25T10:%02d:00Z", n)}, []string{"Begin."}}
		},
		"last lines": func(n int) turn {
			return turn{[]string{rules + fmt.Sprintf("\n<env>\n  Working directory: /%d\n  Today's date: %d\n</env>\n", n, n)},
				[]string{"Begin."}}
		},
		"a last block": func(n int) turn {
			return turn{[]string{rules, fmt.Sprintf("Current time: 10:%02d", n)}, []string{"Begin."}}
		},
	}
	text := func(s string) map[string]any { return map[string]any{"type": "text", "text": s} }
	for plugin, pools := range map[string][]int{"openai": {1, 4, 7}, "anthropic": {1, 4, 7}} {
		for _, keys := range pools {
			t.Run(fmt.Sprintf("GAP-134 %s, %d keys", plugin, keys), func(t *testing.T) {
				t.Parallel()
				var blocks strings.Builder
				dir := t.TempDir()
				for i := range keys {
					path := filepath.Join(dir, fmt.Sprint("key", i))
					require.NoError(t, os.WriteFile(path, []byte(fmt.Sprint("sk-zq11-", i)), 0o600))
					fmt.Fprintf(&blocks, "key \"k%d\" {\n  api_key = file(%q)\n}\n", i, path)
				}
				g := startScripted(t, setup{Plugin: plugin, Keys: blocks.String(), Script: upstream.Options{Cache: true},
					Routes: []route{{Name: "only", Tiers: "cache_read = 0.3\ncache_write = 3.75"}}})
				cost := func(session func(n int) turn) int64 {
					c := g.rich(t)
					c.AnswersBy(func(*upstream.Request) upstream.Reply {
						return upstream.Reply{Steps: []upstream.Step{upstream.Text("Done."), upstream.Finish("stop"),
							upstream.ReportUsage(), upstream.Done()}}
					})
					before := c.Net()
					for n := range turns {
						now := session(n)
						system, first := []any{}, []any{}
						for _, s := range now.system {
							system = append(system, text(s))
						}
						for _, s := range now.user {
							first = append(first, text(s))
						}
						messages := []any{map[string]any{"role": "user", "content": first}}
						for i := range n {
							messages = append(messages, map[string]any{"role": "assistant", "content": "Done."},
								map[string]any{"role": "user", "content": fmt.Sprint("Go on ", i)})
						}
						body, err := json.Marshal(map[string]any{"model": "service/auto", "max_tokens": 100, "system": system,
							"messages": messages})
						require.NoError(t, err)
						require.Equal(t, 200, c.Post("/v1/messages", string(body)).StatusCode)
					}
					return before - c.Net()
				}
				for name, session := range sessions {
					least := cost(func(int) turn { return session(0) })
					require.NotZero(t, least)
					require.LessOrEqual(t, cost(session)*100, least*105, name)
				}
			})
		}
	}
}
