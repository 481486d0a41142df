package telemetry

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// maxContent is how many bytes of a prompt's text, and of a reply's, a span has: collectors refuse long ones.
const maxContent = 64 << 10

// message and part are the conventions' form of messages.
type message struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string `json:"type"`
	Content   string `json:"content,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	Result    string `json:"result,omitempty"`
}

// describeMessages is the end of a conversation as JSON.
func describeMessages(req *llm.Request) string {
	left := maxContent
	var list []message
	for _, m := range slices.Backward(req.Messages) {
		if left <= 0 {
			break
		}
		one := message{Role: string(m.Role)}
		for _, p := range m.Parts {
			switch text := p.Text.String(); {
			case p.Call != nil:
				one.Parts = append(one.Parts, part{Type: "tool_call", ID: p.Call.ID, Name: p.Call.Name,
					Arguments: cut(p.Call.Arguments.String(), &left)})
			case m.CallID != "":
				one.Parts = append(one.Parts, part{Type: "tool_call_response", ID: m.CallID, Result: cut(text, &left)})
			default:
				one.Parts = append(one.Parts, part{Type: "text", Content: cut(text, &left)})
			}
		}
		list = append(list, one)
	}
	slices.Reverse(list)
	return encode(list)
}

// cut is as much of a text as there is room left for.
func cut(text string, left *int) string {
	text = text[:min(len(text), max(*left, 0))]
	*left -= len(text)
	return strings.ToValidUTF8(text, "") // a character may have been cut
}

// text is what a reply says, as far as it is kept.
type text struct {
	parts []part
	size  int
}

func (t *text) add(ev llm.Event) {
	left := maxContent - t.size
	said := cut(ev.Text, &left)
	switch last := len(t.parts) - 1; {
	case ev.Kind == llm.EventText && last >= 0 && t.parts[last].Type == "text":
		t.parts[last].Content += said
	case ev.Kind == llm.EventText:
		t.parts = append(t.parts, part{Type: "text", Content: said})
	case ev.Kind == llm.EventToolCall:
		t.parts = append(t.parts, part{Type: "tool_call", ID: ev.ID, Name: ev.Name})
	case ev.Kind == llm.EventToolArguments && last >= 0:
		t.parts[last].Arguments += said
	default:
		return // reasoning is the upstream's own affair
	}
	t.size += len(said)
}

// message is the reply as JSON.
func (t *text) message(finish llm.FinishReason) string {
	return encode([]message{{Role: "assistant", Parts: t.parts, Finish: string(finish)}})
}

func encode(list []message) string {
	b, err := json.Marshal(list)
	if err != nil {
		return "[]" // texts can be encoded
	}
	return string(b)
}
