package exchange

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

func say(role llm.Role, texts ...string) llm.Message {
	m := llm.Message{Role: role}
	for _, s := range texts {
		m.Parts = append(m.Parts, llm.Text(s))
	}
	return m
}

func asking(f *llm.Format, messages ...llm.Message) *request {
	return &request{Request: &families.Request{LLM: &llm.Request{Messages: messages, Format: f}}}
}

// system is the text of the system messages that a conversation begins with.
func system(messages []llm.Message) string {
	text := ""
	for _, m := range messages {
		if m.Role != llm.RoleSystem {
			break
		}
		text += m.Text()
	}
	return text
}

func TestInstructObject(t *testing.T) {
	t.Parallel()
	const line = "Respond only with a JSON object."
	for _, tt := range []struct {
		name     string
		messages []llm.Message
		system   string
		count    int
	}{
		{"STRUCT-19 no system message", []llm.Message{say(llm.RoleUser, "hi")}, line, 2},
		{"STRUCT-19 one system message", []llm.Message{say(llm.RoleSystem, "Be brief."), say(llm.RoleUser, "hi")},
			"Be brief.\n" + line, 2},
		{"STRUCT-19 two system messages", []llm.Message{say(llm.RoleSystem, "a"), say(llm.RoleSystem, "b"),
			say(llm.RoleUser, "hi")}, "ab\n" + line, 3},
		{"STRUCT-19 system messages only", []llm.Message{say(llm.RoleSystem, "a")}, "a\n" + line, 1},
		{"STRUCT-19 a system message in between", []llm.Message{say(llm.RoleUser, "hi"), say(llm.RoleSystem, "a"),
			say(llm.RoleUser, "ho")}, line, 4},
		{"GAP-77 the user says it", []llm.Message{say(llm.RoleUser, "as Json, please")}, "", 1},
		{"GAP-77 the system says it", []llm.Message{say(llm.RoleSystem, "JSON!"), say(llm.RoleUser, "hi")}, "JSON!", 2},
		{"GAP-77 a tool says it", []llm.Message{say(llm.RoleUser, "hi"), say(llm.RoleTool, "x", "jjson")}, "", 2},
		{"GAP-77 two parts do not say it together", []llm.Message{say(llm.RoleUser, "js", "on")}, line, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := asking(&llm.Format{Kind: llm.FormatJSONObject}, tt.messages...)
			r.instruct()
			require.Equal(t, tt.system, system(r.LLM.Messages))
			require.Len(t, r.LLM.Messages, tt.count)
			for _, route := range []*config.Route{{JSONObject: true}, {JSONObject: true, JSONSchema: true}} {
				require.Same(t, r.LLM, r.formFor(route), "the same for every route")
			}
		})
	}
}

func TestInstructSchema(t *testing.T) {
	t.Parallel()
	format := &llm.Format{Kind: llm.FormatJSONSchema, Name: "n", Description: "A day.",
		Schema: []byte(`{"type":"object"}`)}
	first := say(llm.RoleSystem, "Be brief.")
	r := asking(format, first, say(llm.RoleUser, "hi"))
	r.instruct()

	native := r.formFor(&config.Route{JSONSchema: true})
	require.Same(t, format, native.Format)
	require.Equal(t, "Be brief.", system(native.Messages))

	other := r.formFor(&config.Route{JSONObject: true})
	require.Equal(t, &llm.Format{Kind: llm.FormatJSONObject}, other.Format)
	require.Equal(t, "Be brief.\nA day.\nRespond only with JSON that matches this JSON Schema, and with nothing around "+
		"it:\n{\"type\":\"object\"}", system(other.Messages))
	require.Len(t, other.Messages, 2)

	t.Run("STRUCT-34 GAP-80 both forms are counted", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, max(tokens.Estimate(native), tokens.Estimate(other)), r.estimate())
		require.GreaterOrEqual(t, r.bound(), tokens.Bound(native))
		require.GreaterOrEqual(t, r.bound(), tokens.Bound(other))
	})
	t.Run("an ordinary request is left alone", func(t *testing.T) {
		t.Parallel()
		plain := asking(nil, first, say(llm.RoleUser, "hi"))
		plain.instruct()
		require.Equal(t, []llm.Message{say(llm.RoleSystem, "Be brief."), say(llm.RoleUser, "hi")}, plain.LLM.Messages)
		require.Same(t, plain.LLM, plain.formFor(&config.Route{}))
		require.Equal(t, tokens.Estimate(plain.LLM), plain.estimate())
	})
}

var regexpJSON = regexp.MustCompile(`(?i)json`)

func TestHasJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"json": true, "a JSON": true, "jjson": true, "jsjson": true, "jsojSoN": true, "nojson.": true,
		"": false, "jso": false, "j son": false, "js on": false, "JSÖN": false,
	} {
		require.Equal(t, want, hasJSON(text), "%q", text)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[jJsSoOnN ]{0,12}`).Draw(t, "text")
		require.Equal(t, regexpJSON.MatchString(text), hasJSON(text), "%q", text)
	})
}
