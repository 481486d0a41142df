package chat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
)

// hostile are requests that a reader of its own JSON could get wrong.
func hostile() []string {
	call := `{"role":"assistant","tool_calls":[{"id":"c\u0031","type":"function",` +
		`"function":{"name":"f","arguments":"%"}}]}`
	result := `{"role":"tool","tool_call_id":"c1","content":"r"}`
	long := strings.Repeat("long ", 600)
	list := []string{
		with(`"temperature":1e0,"n":1.0,"max_tokens":1e2,"max_completion_tokens":0.5e1`),
		with(`"temperature":1e400`), with(`"temperature":-0`), with(`"temperature":2.0000000000000001`),
		with(`"max_tokens":1e999999999999`), with(`"max_tokens":1e-1`), with(`"max_tokens":9223372036854775808`),
		with(`"max_tokens":-1e999`), with(`"max_tokens":100e-2`), with(`"n":2e0`), with(`"n":1e-99999`), with(`"n":0e9`),
		with(`"stop":"a","stop":["b","b","","\u0062"]`), with(`"stop":null,"stop":5`), with(`"stop":["a",null]`),
		with(`"stop":[` + strings.Repeat(`"",`, 16) + `""]`), with(`"stop":"` + strings.Repeat("😀", 129) + `"`),
		with(`"stop":"` + strings.Repeat(`\ud83d`, 256) + `"`), with(`"messages":[],"messages":null`),
		with(`"messages":[{"role":"user","role":"system","content":"a","content":"b"}]`),
		with(`"me\u0073sages":[{"r\u006fle":"user","c\u006fntent":"x"}]`),
		with(`"seed":1,"stream":5`), with(`"stream":5,"temperature":"x"`), with(`"stream_options":{"include_usage":1}`),
		with(`"stream_options":{"include_usage":true,"include_usage":null}`), with(`"reasoning_effort":"l\u006fw"`),
		with(`"tool_choice":"none"`), with(`"tool_choice":"required"`), with(`"tool_choice":{"type":"function","name":"f"}`),
		with(toolF + `,"tool_choice":{"type":"function","function":{"name":"\u0066"}}`),
		with(toolF + `,"tool_choice":{"type":"custom"}`), with(toolF + `,"tool_choice":{"type":"function","function":5}`),
		with(`"tools":[{"type":"function","function":{"name":"a b"}},{"type":"web_search"}]`),
		with(`"tools":[{"type":"function","function":{"name":"f","name":"g","parameters":{ "a" : [ 1e0 , "\u2028 ` +
			"\u2028" + `" ] }}}]`),
		with(strings.TrimSuffix(toolF, "]") + `,{"type":"function","function":{"name":"\u0066"}}]`),
		with(`"tools":[5,{"type":5},{"type":"function"},{"type":"function","function":{}}]`),
		messages(`{"role":"user","content":"\ud83d\ude00 \ud83d \ude00 \u0000 \"\\\/"}`),
		messages(`{"role":"user","content":"\ud83d\ud83d\ude00` + long + `"}`),
		messages(`{"role":"user","content":"` + long + `\\ud83d"},{"role":"user","content":"` + long + `\\\udfff"}`),
		messages(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"b"},` +
			`{"type":"thinking"}]}`),
		messages(`{"role":"user","content":[{"type":"text","text":"a","type":"file"}]}`),
		messages(`{"role":"user","content":[{"type":"text","text":5,"text":null},"x",{"type":null},{"type":"odd"}]}`),
		messages(`{"role":"assistant","content":null,"refusal":"no"},{"role":"assistant"},{"role":"assistant","refusal":5}`),
		messages(call + "," + result), messages(result + "," + call), messages(strings.ReplaceAll(call, "%", ` \n\t`)),
		messages(strings.ReplaceAll(call, "%", `{\"a\":\"\ud83d\"}`)), messages(strings.Replace(call, "%", `\u00a0`, 1)),
		messages(strings.Replace(call, `"id"`, `"id":"","id"`, 1)), messages(strings.Replace(call, `function",`, `x",`, 1)),
		messages(`{"role":"assistant","tool_calls":[5,{"id":""},{"id":"c","function":5},{"id":"c","type":5}]}`),
		messages(`{"role":"assistant","tool_calls":{}},{"role":"tool","tool_call_id":5,"content":5}`),
		messages(`5`), messages(`{"role":5}`), messages(`{"role":"robot"}`), `{"messages":{}}`, `{}`, `[]`, `"x"`, ``, ` `,
		"\ufeff" + with(""), with("") + "x", with("") + "{}", with("") + "\x00", with(`"x":` + strings.Repeat("[", 999) +
			strings.Repeat("]", 999)), with(`"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000)),
		with("\"x\":\"\xff\""), with("\"x\":\"\xed\xa0\x80\""), with("\"x\":\"\n\""), with(`"x":01`), with(`"x":+1`),
		with(`"x":.5`), with(`"x":NaN`), with(`"x":"\x41"`), with(`"x":"\u00g0"`), with(`x:1`), with(`"x":1,`),
		"\t\r\n" + strings.ReplaceAll(with(toolF), ",", " ,\n\t") + " ",
	}
	for _, body := range list { // the same, where what is long is known beforehand
		list = append(list, strings.Repeat(" ", 3000)+body)
	}
	return list
}

// FuzzOracle puts Decode to the oracle: the same requests are accepted, with the same values, and what is wrong with
// the others is the same (GAP-01, E28).
func FuzzOracle(f *testing.F) {
	for _, body := range hostile() {
		f.Add([]byte(body))
	}
	files, err := filepath.Glob("testdata/requests/*.json")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		body, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		root, ok := readTree(body, 1000)
		_, isObject := root.value.([]member)
		doc, refusal := families.Parse(body)
		if refusal != nil {
			credential := strings.Contains(refusal.Message, "named like a credential")
			require.Equal(t, credential, ok && isObject, refusal.Message)
			return
		}
		require.True(t, ok && isObject, "it is not JSON, or no object")
		got, refusal := chat.Server{}.Decode(doc, families.Rules{})
		if refusal != nil && refusal.Code == families.UnsupportedContent {
			return // media, which comes first (step 12)
		}
		var o oracle
		want := o.request(root)
		require.Equal(t, o.err(), refusal)
		if refusal != nil {
			return
		}
		for i := range got.LLM.Tools {
			schema, ok := readTree(got.LLM.Tools[i].Schema, 1000)
			require.True(t, ok)
			require.NotContains(t, string(got.LLM.Tools[i].Schema), "\u2028")
			got.LLM.Tools[i].Schema = appendNode(nil, schema)
		}
		got.LLM.Messages = familytest.Plain(got.LLM.Messages)
		require.Equal(t, want, got)
	})
}
