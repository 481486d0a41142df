package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAssistantWhoSaidNothing proves GAP-128 from a client to a route: conversations with such turns go on.
func TestAssistantWhoSaidNothing(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	silences := []string{`"content":null`, `"content":""`, `"content":[]`, `"id":"x"`}
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("GAP-128 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				turns := []string{`{"role":"user","content":"PROMPT"}`}
				for _, silence := range silences {
					turns = append(turns, `{"role":"assistant",`+silence+`}`, `{"role":"assistant",`+silence+`}`,
						`{"role":"user","content":"go on"}`)
				}
				a := c.Post(sh.Path, sh.Body("", `"max_tokens":99`, mode.Field, quote(sh.Input)+":["+strings.Join(turns, ",")+"]"))
				require.Equal(t, "Hello", outcomeOf(t, sh, a).Text)
				var asked, said int
				for _, m := range c.Seen()[0].Messages {
					if m.Role == "user" {
						asked++
					} else {
						require.Equal(t, "assistant", m.Role)
						said += len(m.Text)
					}
				}
				require.Equal(t, 1+len(silences), asked)
				require.Zero(t, said)
			})
		}
	}
}
