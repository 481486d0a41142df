package encode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/encode"
	"github.com/fareway/fareway/plugins/llm"
)

// TestSystemToKeep proves GAP-134: what stays in a conversation is told apart from the lines that change.
func TestSystemToKeep(t *testing.T) {
	t.Parallel()
	said := func(changing int, texts ...string) llm.Message {
		m := llm.Message{Role: llm.RoleSystem, Changing: uint16(changing)}
		for _, text := range texts {
			m.Parts = append(m.Parts, llm.Text(text))
		}
		return m
	}
	user := llm.Message{Role: llm.RoleUser, Changing: 1, Parts: []llm.Part{llm.Text("u")}}
	list := func(texts ...string) (list []llm.String) {
		for _, text := range texts {
			list = append(list, llm.Plain(text))
		}
		return list
	}
	for name, c := range map[string]struct {
		messages    []llm.Message
		stays, rest []llm.String
	}{
		"nothing":         {nil, nil, nil},
		"all of it stays": {[]llm.Message{said(0, "a", "b"), user, said(0, "c")}, list("a", "b", "c"), nil},
		"its last line":   {[]llm.Message{said(1, "a", "b\nc"), user}, list("a", "b"), list("\nc")},
		"its last block":  {[]llm.Message{said(1, "a", "b"), user}, list("a"), list("b")},
		"behind a blank":  {[]llm.Message{said(1, "a", " \nb")}, list("a"), list(" \nb")},
		"what is said later": {[]llm.Message{said(0, "a"), user, said(1, "b\nc"), said(1, "d\ne")},
			list("a", "b"), list("\nc", "d\ne")},
		"nothing but its lines": {[]llm.Message{user, said(2, "a\nb"), said(0, "c")}, list("a\nb", "c"), nil},
		"no text":               {[]llm.Message{said(1), said(1, "a\nb")}, list("a"), list("\nb")},
	} {
		t.Run("GAP-134 "+name, func(t *testing.T) {
			t.Parallel()
			stays, rest := encode.SystemToKeep(c.messages)
			require.Equal(t, c.stays, stays)
			require.Equal(t, c.rest, rest)
		})
	}
}
