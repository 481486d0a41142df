package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// offered are tools in the three families.
var offered = map[string]string{
	"chat": `"tools":[{"type":"function","function":{"name":"find"}},` +
		`{"type":"function","function":{"name":"get_weather"}}]`,
	"responses": `"tools":[{"type":"function","name":"find","parameters":{"type":"object"}},` +
		`{"type":"function","name":"get_weather","parameters":{"type":"object"}}]`,
	"messages": `"tools":[{"name":"find","input_schema":{"type":"object"}},` +
		`{"name":"get_weather","input_schema":{"type":"object"}}]`,
}

// TestCallsComeWhole, through the gateway: however an upstream sends its calls, the client has all of
// them, by their names, with their arguments, in each family, whole and streamed; or an error, and never fewer.
func TestCallsComeWhole(t *testing.T) {
	t.Parallel()
	sse := func(lines ...string) string { return "data: " + strings.Join(lines, "\n\ndata: ") + "\n\n" }
	chat := func(pieces ...string) string {
		var lines []string
		for _, p := range pieces {
			lines = append(lines, `{"choices":[{"index":0,"delta":{"tool_calls":[`+p+`]}}]}`)
		}
		lines = append(lines, `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":`+
			`{"prompt_tokens":10,"completion_tokens":2}}`, "[DONE]")
		return sse(lines...)
	}
	responses := func(output string, lines ...string) string {
		return sse(append(lines, `{"type":"response.completed","response":{"id":"r","status":"completed","output":`+output+
			`,"usage":{"input_tokens":10,"output_tokens":2}}}`)...)
	}
	const opened = `{"type":"response.output_item.added","item":{"type":"function_call","id":"i","call_id":"a",` +
		`"name":"find","arguments":""}`
	const called = `{"type":"function_call","id":"i","call_id":"a","name":"find","arguments":"{\"q\":1}"}`
	messages := func(lines ...string) string {
		lines = append([]string{`{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":` +
			`{"input_tokens":10,"output_tokens":0}}}`}, lines...)
		return sse(append(lines, `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`,
			`{"type":"message_stop"}`)...)
	}
	const begun = `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"find",` +
		`"input":{}}}`
	input := func(index, piece string) string {
		return `{"type":"content_block_delta","index":` + index + `,"delta":{"type":"input_json_delta","partial_json":"` +
			piece + `"}}`
	}
	const one, weather = `find {"q":1}`, `get_weather {"q":1}`
	for plugin, rows := range map[string]map[string]struct {
		sent string
		want []string // none: validator_failed, or upstream_error
	}{
		"openai": {
			"by index": {chat(`{"index":0,"id":"a","function":{"name":"find","arguments":""}}`,
				`{"index":0,"function":{"arguments":"{\"q\""}}`, `{"index":0,"function":{"arguments":":1}"}}`), []string{one}},
			"a name in two pieces": {chat(`{"index":0,"id":"a","function":{"name":"get_"}}`,
				`{"index":0,"function":{"name":"weather"}}`, `{"index":0,"function":{"arguments":"{\"q\":1}"}}`),
				[]string{weather}},
			"by id alone": {chat(`{"id":"a","function":{"name":"find","arguments":"{\"q\""}}`,
				`{"id":"a","function":{"arguments":":1}"}}`), []string{one}},
			"one id for two": {chat(`{"index":0,"id":"a","function":{"name":"find","arguments":"{\"q\":1}"}}`,
				`{"index":1,"id":"a","function":{"name":"get_weather","arguments":"{\"q\":1}"}}`), []string{one, weather}},
			"one index for two": {chat(`{"index":0,"function":{"name":"find","arguments":"{\"q\":1}"}}`,
				`{"index":0,"function":{"name":"get_weather","arguments":"{\"q\":1}"}}`), []string{one, weather}},
			"an empty object first": {chat(`{"index":0,"id":"a","function":{"name":"find","arguments":"{}"}}`,
				`{"index":0,"function":{"arguments":"{\"q\":1}"}}`), []string{one}},
			"doubly encoded": {chat(`{"index":0,"id":"a","function":{"name":"find","arguments":"\"{\\\"q\\\":1}\""}}`),
				[]string{one}},
			"restated": {chat(`{"index":0,"id":"a","function":{"name":"find","arguments":"{\"q\":1}"}}`,
				`{"index":0,"id":"a","function":{"name":"find","arguments":"{\"q\":1}"}}`), []string{one}},
			"in another choice": {strings.Replace(chat(
				`{"index":0,"id":"a","function":{"name":"find","arguments":"{\"q\":1}"}}`),
				`{"index":0,"delta":{"tool`, `{"index":1,"delta":{"tool`, 1), []string{one}},
			"alike, without index or id": {chat(`{"function":{"name":"find","arguments":"{\"q\":1}"}},` +
				`{"function":{"name":"find","arguments":"{\"q\":1}"}}`), []string{one, one}},
			"an array":     {chat(`{"index":0,"id":"a","function":{"name":"find","arguments":"[]"}}`), nil},
			"null":         {chat(`{"index":0,"id":"a","function":{"name":"find","arguments":"null"}}`), nil},
			"a half":       {chat(`{"index":0,"id":"a","function":{"name":"find","arguments":"{\"q\":"}}`), nil},
			"without name": {chat(`{"index":0,"id":"a","function":{"arguments":"{}"}}`), nil},
		},
		"responses": {
			"only at the end": {responses("[" + called + "]"), []string{one}},
			"only in the item's end": {responses("[]", opened+`,"output_index":0}`,
				`{"type":"response.output_item.done","output_index":0,"item":`+called+`}`), []string{one}},
			"only in the arguments' end": {responses("[]", opened+`,"output_index":0}`,
				`{"type":"response.function_call_arguments.done","output_index":0,"item_id":"i","arguments":"{\"q\":1}"}`),
				[]string{one}},
			"another item's end at its index": {responses("[]", opened+`,"output_index":0}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[]}}`,
				`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"i","delta":"{\"q\":1}"}`),
				[]string{one}},
			"by item": {responses("["+called+"]", opened+`}`,
				`{"type":"response.function_call_arguments.delta","item_id":"i","delta":"{\"q\""}`,
				`{"type":"response.function_call_arguments.delta","item_id":"i","delta":":1}"}`), []string{one}},
			"one more at the end": {responses("["+called+","+strings.NewReplacer(`"i"`, `"j"`, `"a"`, `"b"`, "find",
				"get_weather").Replace(called)+"]", opened+`,"output_index":0}`,
				`{"type":"response.output_item.done","output_index":0,"item":`+called+`}`), []string{one, weather}},
			"arguments of nothing": {responses("[]",
				`{"type":"response.function_call_arguments.delta","item_id":"x","delta":"{\"q\":1}"}`), nil},
		},
		"anthropic": {
			"in pieces":        {messages(begun, input("1", `{\"q\"`), input("1", `:1}`)), []string{one}},
			"a wrong index":    {messages(begun, input("0", `{\"q\"`), input("0", `:1}`)), []string{one}},
			"in its beginning": {messages(strings.Replace(begun, `"input":{}`, `"input":{"q":1}`, 1)), []string{one}},
			"doubly encoded":   {messages(begun, input("1", `\"{\\\"q\\\":1}\"`)), []string{one}},
			"no beginning":     {messages(input("1", `{}`)), nil},
		},
	} {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Plugin: plugin})
			for name, row := range rows {
				for _, sh := range shapes {
					for _, mode := range modes {
						t.Run("GAP-84 "+name+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
							t.Parallel()
							c := g.rich(t)
							c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Raw(row.sent)}})
							a := c.Ask(sh, mode.Field, offered[sh.Name])
							if row.want == nil {
								if a.StatusCode == 200 {
									require.Contains(t, []string{"validator_failed", "upstream_error"}, c.Stream(t, sh).Error.Code)
									return
								}
								require.Equal(t, 502, a.StatusCode, "%s", a.Raw)
								return
							}
							o := outcomeOf(t, sh, a)
							var got []string
							ids := map[string]bool{}
							for _, call := range o.Calls {
								got = append(got, call.Name+" "+call.Arguments)
								require.False(t, ids[call.ID], "one id for two calls")
								ids[call.ID] = true
							}
							require.Equal(t, row.want, got)
							require.EqualValues(t, helloCost, o.Billed(t))
						})
					}
				}
			}
		})
	}
}
