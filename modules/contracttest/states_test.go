package contracttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestStatesOfCalls proves GAP-117: what a service wants back with the result of its call comes back to it, whichever
// process makes the calls; to another route, for another account, and behind another beginning nothing comes; and no
// client sees it.
func TestStatesOfCalls(t *testing.T) {
	t.Parallel()
	const secret = "let me think"
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("k"), 0o600))
	for name, c := range map[string]struct {
		setup setup
		model string
		state string // in a request that has it back
		gone  string // in one that has not
	}{
		"deepseek": {setup{Settings: `preset = "deepseek"`, Script: upstream.Options{Service: "deepseek"}}, "r",
			`"reasoning_content":"` + secret + `"`, `"reasoning_content":""`},
		"anthropic": {setup{Plugin: "anthropic"}, "r",
			`{"type":"thinking","thinking":"` + secret + `","signature":"`, `"content":[{"type":"tool_use"`},
		"gemini": {setup{Plugin: "gemini", Settings: fmt.Sprintf("api_key = file(%q)", key)}, "gemini-3-pro",
			`"thoughtSignature":"`, `"thoughtSignature":"skip_thought_signature_validator"`},
	} {
		for _, carry := range []string{"host", "process"} {
			t.Run(name+" "+carry, func(t *testing.T) {
				t.Parallel()
				first, second := c.model+"-1", c.model+"-2"
				c.setup.Carry = carry
				c.setup.Extra = "affinity {\n  mode = \"off\"\n}\n" // the test says which route fails, and so which serves
				c.setup.Routes = []route{{Name: first, Quality: 0.9}, {Name: second, Quality: 0.1}}
				s := start(t, c.setup)
				_, other := s.NewAccount("other", s.plan, 1000)
				const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
				const question = `{"role":"user","content":"hi"}`
				n := int64(0)
				ask := func(key, messages string, replies ...upstream.Reply) (a answer, sent string) {
					for _, reply := range replies {
						s.Upstream.Enqueue(reply)
					}
					a = s.Do("POST", "/v1/chat/completions", `{"model":"service/auto","messages":[`+messages+`],`+tools+`}`,
						"Authorization", "Bearer "+key)
					require.Equal(t, 200, a.StatusCode, "%s", a.Raw)
					require.NotContains(t, a.Raw, secret)
					n += int64(len(replies))
					got, err := s.Upstream.Request(within(t), n)
					require.NoError(t, err)
					return a, string(got.Body)
				}
				call := upstream.Reply{Steps: []upstream.Step{upstream.Reasoning(secret), upstream.ToolCall(0, "call_0", "f"),
					upstream.Arguments(0, "{}"), upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}}
				asked, _ := ask(s.Key, question, call)
				said, err := json.Marshal(asked.At(t, "choices", 0, "message"))
				require.NoError(t, err)
				const result = `{"role":"tool","tool_call_id":"call_0","content":"x"}`
				loop := question + "," + string(said) + "," + result
				elsewhere := `{"role":"user","content":"another question"}` + loop[len(question):]
				has := func(sent string) bool {
					returned := strings.Contains(strings.ReplaceAll(sent, c.gone, ""), c.state)
					require.NotEqual(t, strings.Contains(sent, c.gone), returned, "%s", sent)
					return returned
				}
				done := upstream.Say("done")
				_, sent := ask(s.Key, loop, done)
				require.True(t, has(sent))
				_, sent = ask(other, loop, done)
				require.False(t, has(sent), "another account")
				_, sent = ask(s.Key, elsewhere, done)
				require.False(t, has(sent), "another conversation")
				_, sent = ask(s.Key, loop, upstream.Refuse(upstream.Error{Status: http.StatusServiceUnavailable}), done)
				require.False(t, has(sent), "another route")

				// A call of the other route comes back to that route, and to no other.
				again, _ := ask(s.Key, loop, upstream.Refuse(upstream.Error{Status: http.StatusServiceUnavailable}),
					upstream.Reply{Steps: []upstream.Step{upstream.Reasoning(secret), upstream.ToolCall(0, "call_1", "f"),
						upstream.Arguments(0, "{}"), upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}})
				said, err = json.Marshal(again.At(t, "choices", 0, "message"))
				require.NoError(t, err)
				longer := loop + "," + string(said) + strings.ReplaceAll(","+result, "call_0", "call_1")
				_, sent = ask(s.Key, longer, done)
				require.Equal(t, 1, strings.Count(strings.ReplaceAll(sent, c.gone, ""), c.state), "the first call's: %s", sent)
				_, sent = ask(s.Key, longer, upstream.Refuse(upstream.Error{Status: http.StatusServiceUnavailable}), done)
				require.Equal(t, 1, strings.Count(strings.ReplaceAll(sent, c.gone, ""), c.state), "the second call's: %s", sent)
			})
		}
	}
}
