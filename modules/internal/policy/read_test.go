package policy

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config/rules"
	"github.com/fareway/fareway/plugins/llm"
)

// TestTexts: what is sent to a provider that screens.
func TestTexts(t *testing.T) {
	t.Parallel()
	req := llm.Request{
		Messages: []llm.Message{
			{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("be "), {Text: llm.Quoted(`k\u0069nd`)}}},
			{Role: llm.RoleUser},
			{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("one "), {Call: &llm.ToolCall{Name: "f",
				Arguments: llm.Plain(`{"q":"\u0062omb\n"}`)}}, llm.Text("two")}},
			{Role: llm.RoleTool, CallID: "1", Parts: []llm.Part{llm.Text("four")}},
		},
		Tools:  []llm.Tool{{Name: "f", Description: "does", Schema: json.RawMessage(`{"a":"\u00e9"}`)}},
		Format: &llm.Format{Name: "n", Description: "d", Schema: json.RawMessage(`{}`)},
	}
	want := []llm.ScreenText{{Role: "system", Text: "be kind"}, {Role: "assistant", Text: "one two"},
		{Role: "assistant", Text: "f"}, {Role: "assistant", Text: `{"q":"bomb "}`}, {Role: "tool", Text: "four"},
		{Role: "request", Text: "f"}, {Role: "request", Text: "does"}, {Role: "request", Text: `{"a":"é"}`},
		{Role: "request", Text: "n"}, {Role: "request", Text: "d"}, {Role: "request", Text: "{}"}}
	size := int64(0)
	for _, text := range want {
		size += int64(len(text.Text))
	}
	got, ok := Texts(&req, size)
	require.True(t, ok)
	require.Equal(t, want, got)
	_, ok = Texts(&req, size-1)
	require.False(t, ok, "one byte more than it may have")
	got, ok = Texts(&llm.Request{}, 0)
	require.True(t, ok)
	require.Empty(t, got)
}

func find(set *rules.Set, req *llm.Request) []rules.Hit {
	var t rules.Search
	t.Begin(set)
	Read(&t, req)
	hits, _ := t.Hits()
	return hits
}

// TestRead: whatever the model would read is screened, wherever it stands.
func TestRead(t *testing.T) {
	t.Parallel()
	const word = "nitroglycerin"
	set, problems := rules.Compile([]rules.Rule{{Name: "r", Action: rules.Block, Terms: []string{word}}})
	require.Empty(t, problems)
	for name, req := range map[string]llm.Request{
		"a message":  {Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("some " + word)}}}},
		"escapes":    {Messages: []llm.Message{{Parts: []llm.Part{{Text: llm.Quoted(`nitro\u0067lycerin`)}}}}},
		"two parts":  {Messages: []llm.Message{{Parts: []llm.Part{llm.Text("nitro"), llm.Text("glycerin")}}}},
		"the system": {Messages: []llm.Message{{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text(word)}}}},
		"around a call": {Messages: []llm.Message{{Parts: []llm.Part{llm.Text("nitro"), {Call: &llm.ToolCall{Name: "f"}},
			llm.Text("glycerin")}}}},
		"two messages": {Messages: []llm.Message{{Parts: []llm.Part{llm.Text("nitro")}},
			{Parts: []llm.Part{llm.Text("glycerin")}}}},
		"two values": {Tools: []llm.Tool{{Name: "f", Schema: json.RawMessage(
			`{"a":{"type":"string","const":"nitro"},"b":{"type":"string","const":"gly\u0063erin"}}`)}}},
		"the id of a call":    {Messages: []llm.Message{{Parts: []llm.Part{{Call: &llm.ToolCall{ID: "call_" + word}}}}}},
		"the id of an answer": {Messages: []llm.Message{{Role: llm.RoleTool, CallID: word + "-1"}}},
		"a result": {Messages: []llm.Message{{Role: llm.RoleTool, CallID: "1",
			Parts: []llm.Part{llm.Text(word)}}}},
		"a call": {Messages: []llm.Message{{Parts: []llm.Part{{Call: &llm.ToolCall{Name: word}}}}}},
		"arguments": {Messages: []llm.Message{{Parts: []llm.Part{{
			Call: &llm.ToolCall{Arguments: llm.Plain(`{"q":"\n` + word + `"}`)}}}}}},
		"a tool":           {Tools: []llm.Tool{{Name: word}}},
		"what a tool does": {Tools: []llm.Tool{{Name: "f", Description: "makes " + word}}},
		"a schema":         {Tools: []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"description":"nitro\u0067lycerin"}`)}}},
		"a format":         {Format: &llm.Format{Name: word}},
		"its description":  {Format: &llm.Format{Description: word}},
		"its schema":       {Format: &llm.Format{Schema: json.RawMessage(`{"const":"` + word + `"}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, rules.Blocks(find(set, &req)))
		})
	}
	for name, req := range map[string]llm.Request{
		"two tools": {Tools: []llm.Tool{{Name: "nitro", Description: "glycerin"}}},
		"nothing":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, find(set, &req))
		})
	}
}
