// Package llm is the canonical model that everything in Fareway speaks: one Request goes down to a
// backend, a sequence of Events comes up from it. Request families translate to and from it, providers
// consume and produce it, and the gateway routes, meters and charges in its terms.
//
// It is for everyone: gateway code, codecs and authors of plugins. It imports the standard library only,
// and it knows nothing of HTTP, of money or of any upstream.
package llm

import "encoding/json"

// Role says who speaks in a Message.
type Role string

const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Request is one call to one upstream model. The whole conversation is in it: neither the gateway nor a provider
// keeps anything between requests (GEN-10).
type Request struct {
	// Attempt identifies this call; unique for ever, chosen by the gateway. Receipts refer to it.
	Attempt string
	// Model is the upstream's own name for the model (the route's, never what the client sent).
	Model string

	Messages   []Message
	Tools      []Tool
	ToolChoice ToolChoice

	// MaxTokens is the output allowance in tokens, always at least 1 when it reaches a provider.
	// Zero in a freshly decoded request means that the client gave none.
	MaxTokens int64
	// Window is the route's context window in tokens, prompt and reply together; 0 where nobody said. A provider whose
	// upstream has to be told how much room to make uses it; the gateway has chosen the route by it already.
	Window int64
	// Temperature is nil when the client gave none.
	Temperature *float64
	// Stop holds the stop sequences. A decoded client request holds all that were sent, in order; what
	// reaches a provider are the first 4 after dropping empty and repeated ones (STOP-22).
	Stop []string
	// Format asks for structured output; nil for an ordinary reply.
	Format *Format

	// States are what the upstream gave with calls of the conversation for their results, by the calls' ids: Event.State.
	// One that is not there any more was forgotten, or was another upstream's.
	States map[string][]byte

	// Unsupported names what the upstream refuses of requests, see Restrictions; a provider leaves it out of what it
	// sends, or says it otherwise.
	Unsupported []string
	// EstimateUsage tells a provider whose upstream reports no usage to count for itself and to mark
	// the usage Estimated (GAP-108). When false such a reply ends without usage.
	EstimateUsage bool
	// BillsPastAllowance: the upstream may bill more output than MaxTokens, so that a count above it is no nonsense.
	BillsPastAllowance bool
	// Whole says that nobody sees the reply before its end, so that a provider may ask its upstream for it
	// in one piece, which is much cheaper to carry than a stream. The events are the same either way.
	Whole bool
}

// Bound is the most output that the upstream can bill, in tokens; 0 where nothing bounds it.
func (r *Request) Bound() int64 {
	if r.BillsPastAllowance {
		return 0
	}
	return r.MaxTokens
}

// Message is one turn. A tool's result is a message of its own: RoleTool, CallID set, Parts text only.
// Several results of one turn are several messages.
type Message struct {
	Role  Role
	Parts []Part

	// CallID names the call that a RoleTool message answers.
	CallID string
	// IsError marks a RoleTool message whose tool failed.
	IsError bool

	// Changing is how many lines at the end of a RoleSystem message's last text are others in each turn, as far as is
	// known, such as what day it is (GAP-134). An upstream that is told what to keep of a prompt keeps what is before.
	Changing uint16
}

// Part is a piece of a message: text, or (from the assistant) a tool call. Call is nil for text.
type Part struct {
	Text String
	Call *ToolCall
}

// ToolCall is a call that the model made. Arguments is JSON text as the model wrote it; empty means {}.
type ToolCall struct {
	ID        string
	Name      string
	Arguments String
}

// Tool is a function that the client offers.
type Tool struct {
	Name        string
	Description string
	// Schema is the JSON Schema object of the arguments, never empty.
	Schema json.RawMessage
	// Strict: the client wishes that arguments are held to the schema. Not every upstream can.
	Strict bool
}

// ToolMode says whether the model may, must or must not call tools.
type ToolMode string

const (
	ToolAuto     ToolMode = "" // the model decides; also what an absent choice means
	ToolNone     ToolMode = "none"
	ToolRequired ToolMode = "required"
	ToolNamed    ToolMode = "named" // must call ToolChoice.Name
)

// ToolChoice is a ToolMode, with the function's name when the mode is ToolNamed.
type ToolChoice struct {
	Mode ToolMode
	Name string
}

// FormatKind is the kind of structured output asked for.
type FormatKind string

const (
	FormatJSONObject FormatKind = "json_object"
	FormatJSONSchema FormatKind = "json_schema"
)

// Format asks for structured output. Schema, Name, Description and Strict belong to FormatJSONSchema.
type Format struct {
	Kind        FormatKind
	Name        string
	Description string
	Schema      json.RawMessage
	Strict      *bool
}

// Text makes a text part.
func Text(s string) Part { return Part{Text: Plain(s)} }

// CutChanging takes the last text of the message apart: what stays in a conversation, and the Changing lines that end
// it, with the end of the line before them. Nothing is copied.
func (m *Message) CutChanging() (stays, changes String) {
	if len(m.Parts) == 0 {
		return String{}, String{}
	}
	text := m.Parts[len(m.Parts)-1].Text
	stays = text
	for range m.Changing {
		stays, _, _ = stays.CutLine(len(text.text))
	}
	return stays, String{text: text.text[len(stays.text):], form: text.form}
}

// Text returns the text of all parts of the message, joined without a separator.
func (m Message) Text() string {
	if len(m.Parts) == 1 {
		return m.Parts[0].Text.String()
	}
	var b []byte
	for _, p := range m.Parts {
		b = p.Text.AppendTo(b)
	}
	return string(b)
}
