package messages

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/internal/encode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// turn is a run of messages that are one turn of the family: of the user, with the results of tools, or of the
// assistant.
type turn struct {
	assistant bool
	blocks    [][]byte // texts and calls, in order
	results   [][]byte // which come before them
	spoken    int      // how many of the blocks stand before the reply's last text
}

// appendConversation appends the members `system` and `messages`, and returns the turns of the latter, at least one.
func appendConversation(b []byte, req *llm.Request, mark string) ([]byte, []*turn, error) {
	messages := req.Messages
	var system [][]byte
	var turns []*turn
	lastMessage, lastText := lastSaid(messages)
	silent := false // a user began it, and said nothing
	for i := range messages {
		m := &messages[i]
		switch m.Role {
		case llm.RoleSystem:
			system = appendTexts(system, m)
			continue
		case llm.RoleUser, llm.RoleTool, llm.RoleAssistant:
		default:
			return nil, nil, fmt.Errorf("encoding message %d: %w", i, encode.UnknownRole(m.Role))
		}
		assistant := m.Role == llm.RoleAssistant
		if silent && len(turns) == 0 && assistant && !blank(m) {
			turns = append(turns, silence())
		}
		if n := len(turns); n == 0 || turns[n-1].assistant != assistant {
			turns = append(turns, &turn{assistant: assistant})
		}
		t := turns[len(turns)-1]
		cut := -1
		if i == lastMessage {
			cut = lastText
		}
		t.add(m, cut, req.States)
		if len(t.results)+len(t.blocks) == 0 { // who says nothing does not part what stands around it
			turns = turns[:len(turns)-1]
			silent = silent || m.Role == llm.RoleUser
		}
	}
	if silent && len(turns) == 0 {
		turns = append(turns, silence())
	}
	if len(turns) == 0 {
		if len(system) == 0 {
			return nil, nil, errors.New("encoding messages: there is no text in them, and no call")
		}
		turns, system = []*turn{{blocks: system}}, nil // instructions without a question are the question
	}
	if len(system) > 0 {
		b = append(b, `,"system":[`...)
		b = appendBlocks(b, system)
		b = append(appendMark(b[:len(b)-1], mark), ']')
	}
	asked := 0 // turns of the user that are still to come
	for _, t := range turns {
		if !t.assistant {
			asked++
		}
	}
	b = append(b, `,"messages":[`...)
	for _, t := range turns {
		role := "user"
		if t.assistant {
			role = "assistant"
		}
		b = append(b, `{"role":"`...)
		b = append(b, role...)
		b = append(b, `","content":[`...)
		b = appendBlocks(b, t.results)
		b = appendBlocks(b, t.blocks)
		b = b[:len(b)-1]
		if !t.assistant {
			if asked <= markedTurns {
				b = appendMark(b, mark)
			}
			asked--
		}
		b = append(b, `]},`...)
	}
	b[len(b)-1] = ']'
	return b, turns, nil
}

// blank reports whether a message has nothing visible.
func blank(m *llm.Message) bool {
	return !slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return p.Call != nil || !p.Text.Blank() })
}

// silence is the turn of a user who says nothing.
func silence() *turn { return &turn{blocks: [][]byte{appendText(nil, llm.Plain(encode.Nothing))}} }

// markedTurns is how many of the user's last turns are marked. With the tools and `system` these are the four marks
// that the API takes.
const markedTurns = 2

// appendBlocks appends blocks, each with a comma after it.
func appendBlocks(b []byte, blocks [][]byte) []byte {
	for _, block := range blocks {
		b = append(append(b, block...), ',')
	}
	return b
}

// lastSaid finds the text with which the conversation ends: its message, and its part there. Where it ends in a
// call or a result, the part is -1.
func lastSaid(messages []llm.Message) (message, part int) {
	for i := len(messages) - 1; i >= 0; i-- {
		switch m := &messages[i]; m.Role {
		case llm.RoleSystem: // stands apart
		case llm.RoleTool:
			return i, -1
		default:
			for j := len(m.Parts) - 1; j >= 0; j-- {
				if m.Parts[j].Call != nil {
					return i, -1
				}
				if !m.Parts[j].Text.Blank() {
					return i, j
				}
			}
		}
	}
	return -1, -1
}

// add adds a message to the turn. cut is the part of a reply to go on with that loses the blanks at its end, -1 for
// none. What was thought before a call goes where it stood: before the text before it, or behind that.
func (t *turn) add(m *llm.Message, cut int, states map[string][]byte) {
	switch m.Role {
	case llm.RoleTool:
		t.results = append(t.results, appendResult(nil, m))
	case llm.RoleAssistant:
		for i, part := range m.Parts {
			switch {
			case part.Call != nil:
				first, then := reply.ThoughtsOf(states[part.Call.ID])
				t.blocks = append(slices.Insert(t.blocks, t.spoken, first...), then...)
				t.blocks = append(t.blocks, appendToolUse(nil, encode.CallID(part.Call.ID), part.Call))
				t.spoken = len(t.blocks)
			case part.Text.Blank():
			case i == cut:
				t.blocks = append(t.blocks, appendText(nil, llm.Plain(strings.TrimRight(part.Text.String(), " \t\r\n"))))
			default:
				t.blocks = append(t.blocks, appendText(nil, part.Text))
			}
		}
	default:
		t.blocks = appendTexts(t.blocks, m)
	}
}

// appendTexts adds a block for each text of a message.
func appendTexts(blocks [][]byte, m *llm.Message) [][]byte {
	for _, part := range m.Parts {
		if !part.Text.Blank() {
			blocks = append(blocks, appendText(nil, part.Text))
		}
	}
	return blocks
}

func appendText(b []byte, text llm.String) []byte {
	b = append(b, `{"type":"text","text":`...)
	b = encode.AppendText(b, text)
	return append(b, '}')
}

func appendResult(b []byte, m *llm.Message) []byte {
	b = append(b, `{"type":"tool_result","tool_use_id":`...)
	b = jsonview.AppendString(b, encode.CallID(m.CallID))
	if texts := appendTexts(nil, m); len(texts) > 0 {
		b = append(b, `,"content":[`...)
		b = appendBlocks(b, texts)
		b[len(b)-1] = ']'
	}
	if m.IsError {
		b = append(b, `,"is_error":true`...)
	}
	return append(b, '}')
}
