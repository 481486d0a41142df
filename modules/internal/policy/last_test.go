package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/policy"
	"github.com/fareway/fareway/plugins/llm"
)

// What a predictor of one's own gets of a conversation is bounded, and the end of it.
func TestLast(t *testing.T) {
	t.Parallel()
	say := func(role llm.Role, text string) llm.Message {
		return llm.Message{Role: role, Parts: []llm.Part{llm.Text(text)}}
	}
	req := &llm.Request{Messages: []llm.Message{say(llm.RoleSystem, "Be kind."), say(llm.RoleUser, "Größe?"),
		{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{Name: "measure"}}}}, say(llm.RoleTool, "12")}}
	for most, want := range map[int][]llm.ScreenText{
		0:   nil,
		1:   {{Role: "tool", Text: "2"}},
		2:   {{Role: "tool", Text: "12"}},
		6:   {{Role: "user", Text: "ße?"}, {Role: "tool", Text: "12"}},
		5:   {{Role: "user", Text: "e?"}, {Role: "tool", Text: "12"}}, // not half a character
		10:  {{Role: "user", Text: "Größe?"}, {Role: "tool", Text: "12"}},
		12:  {{Role: "system", Text: "d."}, {Role: "user", Text: "Größe?"}, {Role: "tool", Text: "12"}},
		100: {{Role: "system", Text: "Be kind."}, {Role: "user", Text: "Größe?"}, {Role: "tool", Text: "12"}},
	} {
		require.Equal(t, want, policy.Last(req, most), most)
	}
}
