// Package decode is what the request decoders of the families share: the rules that hold on every shape are
// written here once, and so are their messages. It is for the packages chat, responses and messages only.
package decode

import (
	"strconv"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// Check gathers what is wrong with one request. A decoder reads everything and reports as it goes; Err then
// picks by GAP-01: what is not offered (step 13) before any other rule (14), and of each the first found.
// The zero value is ready to use.
type Check struct {
	unsupported *families.Error
	invalid     *families.Error
}

// Err returns the error that the client gets, nil if the request is good.
func (c *Check) Err() *families.Error {
	if c.unsupported != nil {
		return c.unsupported
	}
	return c.invalid
}

// Field makes the Value of a top-level member.
func (c *Check) Field(name string, v jsonview.View) Value {
	return Value{View: v, check: c, name: name}
}

// Value is a piece of the request that knows where it stands, so that a fault can be reported with its path,
// such as `messages[2].content[0].text`. The path is only spelt out for a fault. A Value refers to the one
// that it was taken from, so take them from variables that stay as they are.
type Value struct {
	jsonview.View
	check *Check
	up    *Value
	name  string // of a member; "" for an element
	index int    // of an element
}

// Get returns the member of that name; it is Absent when there is none.
func (v *Value) Get(name string) Value { return v.Field(name, v.View.Get(name)) }

// Field makes the Value of a member found while ranging over Members.
func (v *Value) Field(name string, member jsonview.View) Value {
	return Value{View: member, check: v.check, up: v, name: name}
}

// Elem makes the Value of an element found while ranging over Elems.
func (v *Value) Elem(i int, element jsonview.View) Value {
	return Value{View: element, check: v.check, up: v, index: i}
}

// Path spells out where the value stands.
func (v Value) Path() string { return string(v.appendPath(nil)) }

func (v *Value) appendPath(b []byte) []byte {
	if v.up != nil {
		b = v.up.appendPath(b)
	}
	if v.name == "" {
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(v.index), 10)
		return append(b, ']')
	}
	if len(b) > 0 {
		b = append(b, '.')
	}
	return append(b, v.name...)
}

// Invalid reports a 400 invalid_request_error: the path, then reason, such as "must be a string". A reason
// never repeats what the client sent.
func (v Value) Invalid(reason string) {
	if v.check.invalid == nil {
		v.check.invalid = families.Invalid(v.Path() + " " + reason + ".")
	}
}

// Unsupported reports a 400 unsupported_field.
func (v Value) Unsupported(reason string) {
	if v.check.unsupported == nil {
		v.check.unsupported = families.Unsupported(v.Path() + " " + reason + ".")
	}
}

// NotOffered reports a field that is refused with any value but null.
func (v Value) NotOffered() {
	if v.Set() {
		v.Unsupported("is not supported: leave it out")
	}
}

// Is reports a value that is missing or not of that kind, and whether it is.
func (v Value) Is(kind jsonview.Kind) bool {
	switch {
	case v.Kind() == kind:
		return true
	case !v.Set():
		v.Invalid("is required")
	case kind == jsonview.Array || kind == jsonview.Object:
		v.Invalid("must be an " + kind.String())
	default:
		v.Invalid("must be a " + kind.String())
	}
	return false
}

// Required reads a string that has to be there; it may be empty. Where it has no escapes it aliases the body: clone
// what is kept for longer than the request.
func (v Value) Required() string { return v.Text().Text.String() }

// Text reads a string that has to be there, as Required does, in the form in which it is there.
func (v Value) Text() llm.Part {
	v.Is(jsonview.String)
	s, _ := v.View.Text()
	return llm.Part{Text: s}
}

// Filled reads a string that has to be there and not empty.
func (v Value) Filled() string {
	s := v.Required()
	if s == "" && v.Kind() == jsonview.String {
		v.Invalid("must not be empty")
	}
	return s
}

// Optional reads a string that may be absent.
func (v Value) Optional() string {
	if !v.Set() {
		return ""
	}
	return v.Required()
}

// NotText reports a content part that is neither text nor media, kind being its type (GAP-27): files are
// not offered, and reasoning in the history is no content and passed over. Everything else is a mistake.
func (v Value) NotText(kind string) {
	switch kind {
	case "file", "input_file", "document", "video_url", "input_video":
		v.Unsupported("is a file, document or video, which is not supported: send text only")
	case "reasoning", "thinking", "redacted_thinking":
	default:
		v.Invalid("is content of an unknown type: send text")
	}
}
