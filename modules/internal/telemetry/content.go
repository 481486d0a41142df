package telemetry

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// maxContent is how many bytes of a prompt, and of a reply, a span has: collectors refuse long ones. What JSON writes
// around each part and each message counts for overhead, for a conversation may have very many that are empty.
const (
	maxContent = 64 << 10
	overhead   = 64
)

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

// room is how many bytes there is room left for.
type room int

// take takes the room of a part or a message, if there is some left.
func (r *room) take() bool {
	if *r < overhead {
		return false
	}
	*r -= overhead
	return true
}

// cut is as much of a text as there is room left for.
func (r *room) cut(text string) string {
	text = text[:min(len(text), max(int(*r), 0))]
	*r -= room(len(text))
	return strings.ToValidUTF8(text, "") // a character may have been cut
}

// describeMessages is the end of a conversation as JSON.
func describeMessages(req *llm.Request) string {
	left := room(maxContent)
	var list []message
	for _, m := range slices.Backward(req.Messages) {
		if !left.take() {
			break
		}
		one := message{Role: string(m.Role), Parts: []part{}}
		for _, p := range m.Parts {
			if !left.take() {
				break
			}
			switch {
			case p.Call != nil:
				one.Parts = append(one.Parts, part{Type: "tool_call", ID: left.cut(p.Call.ID), Name: left.cut(p.Call.Name),
					Arguments: left.cut(p.Call.Arguments.String())})
			case m.CallID != "":
				one.Parts = append(one.Parts, part{Type: "tool_call_response", ID: left.cut(m.CallID),
					Result: left.cut(p.Text.String())})
			default:
				one.Parts = append(one.Parts, part{Type: "text", Content: left.cut(p.Text.String())})
			}
		}
		list = append(list, one)
	}
	slices.Reverse(list)
	return encode(list)
}

// text is what a reply says, as far as it is kept.
type text struct {
	parts []*growingPart
	calls map[int]*growingPart // by their index, for their arguments may be interleaved
	used  room
}

// growingPart is a part whose text, or whose arguments, come bit by bit.
type growingPart struct {
	part
	said strings.Builder
}

func (t *text) add(ev llm.Event) {
	left := maxContent - t.used
	defer func() { t.used = maxContent - left }()
	var to *growingPart
	switch ev.Kind {
	case llm.EventText:
		if last := len(t.parts) - 1; last >= 0 && t.parts[last].Type == "text" {
			to = t.parts[last]
		} else if left.take() {
			to = &growingPart{part: part{Type: "text"}}
			t.parts = append(t.parts, to)
		}
	case llm.EventToolCall:
		if left.take() {
			call := &growingPart{part: part{Type: "tool_call", ID: left.cut(ev.ID), Name: left.cut(ev.Name)}}
			t.parts = append(t.parts, call)
			if t.calls == nil {
				t.calls = make(map[int]*growingPart)
			}
			t.calls[ev.Index] = call
		}
	case llm.EventToolArguments:
		to = t.calls[ev.Index]
	default: // reasoning is the upstream's own affair
	}
	if to != nil {
		to.said.WriteString(left.cut(ev.Text))
	}
}

// message is the reply as JSON.
func (t *text) message(finish llm.FinishReason) string {
	parts := make([]part, len(t.parts))
	for i, grown := range t.parts {
		parts[i] = grown.part
		if grown.Type == "text" {
			parts[i].Content = grown.said.String()
		} else {
			parts[i].Arguments = grown.said.String()
		}
	}
	return encode([]message{{Role: "assistant", Parts: parts, Finish: string(finish)}})
}

func encode(list []message) string {
	b, err := json.Marshal(list)
	if err != nil {
		return "[]" // texts can be encoded
	}
	return string(b)
}
