package messages

import (
	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// conversation gathers the canonical messages of a request.
type conversation struct {
	messages []llm.Message
	calls    decode.Calls
	parts    decode.Parts
}

// system reads the system prompt: a string or text blocks (MSG-03).
func (c *conversation) system(v decode.Value) {
	if v.Set() {
		c.add(llm.RoleSystem, c.textOf(v))
	}
}

// read reads the turns.
func (c *conversation) read(v decode.Value) {
	if !v.Is(jsonview.Array) {
		return
	}
	turns := 0
	for i, e := range v.Elems() {
		turn := v.Elem(i, e)
		turns++
		if turn.Is(jsonview.Object) {
			c.turn(&turn)
		}
	}
	if turns == 0 {
		v.Invalid("must not be empty")
	}
}

func (c *conversation) turn(v *decode.Value) {
	role, content := v.Get("role"), v.Get("content")
	switch role.Required() {
	case "user":
		c.user(content)
	case "assistant":
		c.assistant(content)
	case "system": // sent by agents in mid-conversation (GAP-26)
		c.add(llm.RoleSystem, c.textOf(content))
	default:
		role.Invalid(`must be "user", "assistant" or "system"`)
	}
}

func (c *conversation) add(role llm.Role, parts []llm.Part) {
	c.messages = append(c.messages, llm.Message{Role: role, Parts: parts})
}

// user reads a user's turn. The results in it come first, for an upstream wants them right after the calls;
// what the user says besides follows as a message of its own.
func (c *conversation) user(content decode.Value) {
	if content.Kind() != jsonview.Array {
		c.add(llm.RoleUser, c.parts.Of(content.Text()))
		return
	}
	var parts []llm.Part
	results, said := 0, 0
	for i, e := range content.Elems() {
		block := content.Elem(i, e)
		switch kind := blockType(&block); kind {
		case "tool_result":
			c.result(&block)
			results++
			continue
		case "text":
			parts = append(parts, block.Get("text").Text())
		default:
			refuse(&block, kind)
		}
		said++
	}
	if said > 0 || results == 0 {
		c.add(llm.RoleUser, parts)
	}
}

// assistant reads an assistant's turn: text and calls, in order. Thinking belongs to the model that thought it,
// and is left out (GAP-27); a turn of nothing else is no turn.
func (c *conversation) assistant(content decode.Value) {
	switch {
	case !content.Set(): // it said nothing (GAP-128)
		c.add(llm.RoleAssistant, nil)
		return
	case content.Kind() != jsonview.Array:
		c.add(llm.RoleAssistant, c.parts.Of(content.Text()))
		return
	}
	var parts []llm.Part
	thoughts := 0
	for i, e := range content.Elems() {
		block := content.Elem(i, e)
		switch kind := blockType(&block); kind {
		case "text":
			parts = append(parts, block.Get("text").Text())
		case "tool_use":
			parts = append(parts, llm.Part{Call: c.call(&block)})
		case "thinking", "redacted_thinking":
			thoughts++
		default:
			refuse(&block, kind)
		}
	}
	if len(parts) > 0 || thoughts == 0 {
		c.add(llm.RoleAssistant, parts)
	}
}

// call reads a tool_use block: {id, name, input}; an absent input means {}.
func (c *conversation) call(block *decode.Value) *llm.ToolCall {
	id, name, input := block.Get("id"), block.Get("name"), block.Get("input")
	call := &llm.ToolCall{ID: c.calls.Call(id), Name: name.Required()}
	if input.Set() && input.Is(jsonview.Object) {
		call.Arguments = llm.Plain(string(jsonview.AppendCompact(nil, input.Raw())))
	}
	return call
}

// wholeWay is for users of Anthropic's library, whose tool runner sends a result alone, as the rest of a thread.
const wholeWay = " (the Anthropic library's toolRunner does with `thread: false`)"

// result reads a tool_result block: {tool_use_id, content, is_error}. Its content is a string, blocks of text
// and references to tools, or nothing.
func (c *conversation) result(block *decode.Value) {
	id, content, failed := block.Get("tool_use_id"), block.Get("content"), block.Get("is_error")
	m := llm.Message{Role: llm.RoleTool, CallID: c.calls.Result(id, wholeWay), IsError: failed.Flag()}
	switch content.Kind() {
	case jsonview.Absent, jsonview.Null:
	case jsonview.Array:
		for i, e := range content.Elems() {
			inner := content.Elem(i, e)
			switch kind := blockType(&inner); kind {
			case "text":
				m.Parts = append(m.Parts, inner.Get("text").Text())
			case "tool_reference": // what a search among deferred tools has found (GAP-101)
				m.Parts = append(m.Parts, llm.Text("Tool: "+inner.Get("tool_name").Required()+"\n"))
			default:
				refuse(&inner, kind)
			}
		}
	default:
		m.Parts = c.parts.Of(content.Text())
	}
	c.messages = append(c.messages, m)
}

// textOf reads a string or an array of text blocks.
func (c *conversation) textOf(v decode.Value) []llm.Part {
	if v.Kind() != jsonview.Array {
		return c.parts.Of(v.Text())
	}
	var parts []llm.Part
	for i, e := range v.Elems() {
		block := v.Elem(i, e)
		if kind := blockType(&block); kind != "text" {
			refuse(&block, kind)
			continue
		}
		parts = append(parts, block.Get("text").Text())
	}
	return parts
}

// blockType returns the type of a content block, "" for something that is none, which it reports.
func blockType(block *decode.Value) string {
	if !block.Is(jsonview.Object) {
		return ""
	}
	return block.Get("type").Required()
}

// refuse reports a block that cannot stand where it does.
func refuse(block *decode.Value, kind string) {
	switch kind {
	case "": // reported by blockType, or an empty type
		block.Invalid("must be a content block with a type")
	case "document", "file", "input_file", "video_url", "input_video":
		block.Unsupported("is a file, document or video, which are not supported: send its text")
	default:
		block.Invalid("has a content type that is not accepted there: send text")
	}
}
