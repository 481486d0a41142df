package messages

import (
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
	last := len(messages) - 1 // of those that are in a turn
	for last >= 0 && messages[last].Role == llm.RoleSystem {
		last--
	}
	begin := func(assistant bool) *turn { return &turn{assistant: assistant} }
	turns, err := encode.Turns(messages, begin, func(t *turn, m *llm.Message) error {
		t.add(m, m == &messages[last], req.States)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	b = append(appendSystem(b, messages, mark), `,"messages":[`...)
	toMark := 0 // turns of the user without a mark, which the last ones get
	for _, t := range turns {
		if !t.assistant {
			toMark++
		}
	}
	toMark -= markedTurns
	for _, t := range turns {
		role := "user"
		if t.assistant {
			role = "assistant"
		}
		b = append(b, `{"role":"`...)
		b = append(b, role...)
		b = append(b, `","content":[`...)
		b = appendBlocks(appendBlocks(b, t.results), t.blocks)
		b = b[:len(b)-1]
		if !t.assistant {
			if toMark--; toMark < 0 {
				b = appendMark(b, mark)
			}
		}
		b = append(b, `]},`...)
	}
	b[len(b)-1] = ']'
	return b, turns, nil
}

// appendSystem appends the member `system`, with a mark behind what stays in a conversation.
func appendSystem(b []byte, messages []llm.Message, mark string) []byte {
	stays, rest := encode.SystemToKeep(messages)
	if len(stays) == 0 {
		return b
	}
	if mark == marks[""] {
		stays, rest = encode.System(messages), nil
	}
	b = append(b, `,"system":[`...)
	for _, text := range stays {
		b = append(appendText(b, text), ',')
	}
	b = append(appendMark(b[:len(b)-1], mark), ',')
	for _, text := range rest {
		b = append(appendText(b, text), ',')
	}
	b[len(b)-1] = ']'
	return b
}

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

// add adds a message to the turn. The last one can be a reply to go on with, which loses the blanks at its end. What
// was thought before a call goes where it stood: before the text before it, or behind that.
func (t *turn) add(m *llm.Message, last bool, states map[string][]byte) {
	switch m.Role {
	case llm.RoleTool:
		t.results = append(t.results, appendResult(nil, m))
	case llm.RoleAssistant:
		for i, part := range m.Parts {
			switch {
			case part.Call != nil:
				first, then := reply.ThoughtsOf(states[part.Call.ID])
				t.blocks = append(slices.Insert(t.blocks, t.spoken, first...), then...)
				block := appendToolUse(nil, part.Call.ID, part.Call.Name, part.Call.Arguments.AppendTo(nil))
				t.blocks = append(t.blocks, append(block, '}'))
				t.spoken = len(t.blocks)
			case last && i == len(m.Parts)-1:
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
		blocks = append(blocks, appendText(nil, part.Text))
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
	b = jsonview.AppendString(b, m.CallID)
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
