// Package encode is what those who write requests of upstreams share, whatever the dialect. It is for the families'
// packages and for providers with a wire format of their own.
package encode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// Refused reports whether the route's upstream refuses that (llm.Restrictions): a setting, which is then left out.
func Refused(req *llm.Request, setting string) bool { return slices.Contains(req.Unsupported, setting) }

// AppendTemperature appends the member `temperature` with a comma before it.
func AppendTemperature(b []byte, t float64) ([]byte, error) {
	if math.IsNaN(t) || math.IsInf(t, 0) {
		return nil, fmt.Errorf("encoding temperature: %v is not a number in JSON", t)
	}
	b = append(b, `,"temperature":`...)
	return strconv.AppendFloat(b, t, 'g', -1, 64), nil
}

// AppendStrings appends an array of strings, of which there is at least one.
func AppendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for _, s := range list {
		b = append(jsonview.AppendString(b, s), ',')
	}
	b[len(b)-1] = ']'
	return b
}

// AppendSampling appends the temperature and the stop sequences of a request, as members behind others, as far as its
// upstream takes them.
func AppendSampling(b []byte, req *llm.Request) (_ []byte, err error) {
	if t := req.Temperature; t != nil && !Refused(req, "temperature") {
		if b, err = AppendTemperature(b, *t); err != nil {
			return nil, err
		}
	}
	if len(req.Stop) > 0 && !Refused(req, "stop") {
		b = AppendStrings(append(b, `,"stop":`...), req.Stop)
	}
	return b, nil
}

// AppendFunction appends what says of a tool how it is called: its name, its description if it has one, and its
// schema, which is the member of that name.
func AppendFunction(b []byte, tool *llm.Tool, schema string) []byte {
	b = jsonview.AppendString(append(b, `"name":`...), tool.Name)
	if tool.Description != "" {
		b = jsonview.AppendString(append(b, `,"description":`...), tool.Description)
	}
	b = append(append(append(b, `,"`...), schema...), `":`...)
	return append(b, tool.Schema...)
}

// Grow makes room for the body of a request, nearly always enough: it is large, and grown on the way it is copied.
func Grow(b []byte, req *llm.Request) []byte {
	const base, turn, part, each = 512, 56, 28, 96 // what stands around a request, a message, a text, and a call or tool
	size := base
	text := func(s llm.String) {
		size += s.Size()
		if _, ok := s.Quoted(); !ok {
			size += s.Size() / 16 // for escapes
		}
	}
	for i := range req.Messages {
		m := &req.Messages[i]
		size += turn + len(m.CallID)
		for j := range m.Parts {
			size += part
			text(m.Parts[j].Text)
			if call := m.Parts[j].Call; call != nil {
				size += each + len(call.ID) + len(call.Name)
				text(call.Arguments)
			}
		}
	}
	for i := range req.Tools {
		tool := &req.Tools[i]
		size += each + len(tool.Name) + len(tool.Description)*17/16 + len(tool.Schema)
	}
	if req.Format != nil {
		size += each + len(req.Format.Description) + len(req.Format.Schema)
	}
	return slices.Grow(b, size)
}

// AppendText appends a text as a JSON string: as it was sent, where nobody has had to look into it.
func AppendText(b []byte, s llm.String) []byte {
	b = append(b, '"')
	b = appendInside(b, s)
	return append(b, '"')
}

// AppendTexts appends the texts of a message as one JSON string, a line each.
func AppendTexts(b []byte, m *llm.Message) []byte {
	b = append(b, '"')
	begun := false
	for i := range m.Parts {
		if text := m.Parts[i].Text; text.Size() > 0 {
			if begun {
				b = append(b, `\n`...)
			}
			b, begun = appendInside(b, text), true
		}
	}
	return append(b, '"')
}

// System are the texts of the system's messages, wherever they stand, for dialects that have one place for them.
func System(messages []llm.Message) (texts []llm.String) {
	for i := range messages {
		if m := &messages[i]; m.Role == llm.RoleSystem {
			for _, part := range m.Parts {
				texts = append(texts, part.Text)
			}
		}
	}
	return texts
}

// SystemToKeep is System for an upstream that is told what to keep of a prompt: stays is what is the same in each turn
// of a conversation, and rest what begins with lines that change (GAP-134). There is a rest only behind something.
func SystemToKeep(messages []llm.Message) (stays, rest []llm.String) {
	for i := range messages {
		m := &messages[i]
		if m.Role != llm.RoleSystem || m.Changing == 0 || len(m.Parts) == 0 {
			continue
		}
		before, changing := m.CutChanging()
		stays = append(System(messages[:i]), System([]llm.Message{{Role: m.Role, Parts: m.Parts[:len(m.Parts)-1]}})...)
		if before.Size() > 0 && !before.Blank() {
			stays = append(stays, before)
		} else {
			changing = m.Parts[len(m.Parts)-1].Text
		}
		if len(stays) == 0 {
			break
		}
		return stays, append([]llm.String{changing}, System(messages[i+1:])...)
	}
	return System(messages), nil
}

// AppendArguments appends the arguments of a call as a JSON text; none are {} (GAP-84).
func AppendArguments(b []byte, call *llm.ToolCall) []byte {
	if call.Arguments.Size() == 0 {
		return append(b, "{}"...)
	}
	begin := len(b)
	b = call.Arguments.AppendTo(b)
	return append(b[:begin], bytes.TrimSpace(b[begin:])...)
}

// AppendQuotedArguments appends them as a JSON string.
func AppendQuotedArguments(b []byte, call *llm.ToolCall) []byte {
	if call.Arguments.Size() == 0 {
		return append(b, `"{}"`...)
	}
	return AppendText(b, call.Arguments)
}

func appendInside(b []byte, s llm.String) []byte {
	if inside, ok := s.Quoted(); ok {
		return append(b, inside...)
	}
	return jsonview.AppendEscaped(b, s.String())
}

// AppendSchemaFormat appends the members that describe a format of kind llm.FormatJSONSchema: name, description,
// schema and strict.
func AppendSchemaFormat(b []byte, f *llm.Format) []byte {
	b = append(b, `"name":`...)
	b = jsonview.AppendString(b, f.Name)
	if f.Description != "" {
		b = append(b, `,"description":`...)
		b = jsonview.AppendString(b, f.Description)
	}
	b = append(b, `,"schema":`...)
	b = append(b, f.Schema...)
	if f.Strict != nil {
		b = append(b, `,"strict":`...)
		b = strconv.AppendBool(b, *f.Strict)
	}
	return b
}

// Turns gathers the messages that are not the system's into turns, for dialects in which two sides speak in turn: of
// the assistant, or of the user with the results of tools. begin makes a turn, and add adds a message to one. There
// is one at least, or an error.
func Turns[T any](messages []llm.Message, begin func(assistant bool) *T, add func(*T, *llm.Message) error) (
	turns []*T, err error) {
	side := false
	for i := range messages {
		m := &messages[i]
		switch m.Role {
		case llm.RoleSystem:
			continue
		case llm.RoleUser, llm.RoleTool, llm.RoleAssistant:
		default:
			return nil, fmt.Errorf("encoding message %d: %w", i, UnknownRole(m.Role))
		}
		if assistant := m.Role == llm.RoleAssistant; len(turns) == 0 || side != assistant {
			turns, side = append(turns, begin(assistant)), assistant
		}
		if err := add(turns[len(turns)-1], m); err != nil {
			return nil, fmt.Errorf("encoding message %d: %w", i, err)
		}
	}
	if len(turns) == 0 {
		return nil, ErrNothingSaid
	}
	return turns, nil
}

// ErrNothingSaid: a request has no turn, or none that says something.
var ErrNothingSaid = errors.New("encoding messages: there is no text in them, and no call")

// UnknownRole is the error for a message whose role the canonical model does not have.
func UnknownRole(role llm.Role) error { return fmt.Errorf("unknown role %q", role) }

// UnknownChoice is the error for a tool choice whose mode the canonical model does not have.
func UnknownChoice(mode llm.ToolMode) error {
	return fmt.Errorf("encoding tool choice: unknown mode %q", mode)
}
