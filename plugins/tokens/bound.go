package tokens

import (
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// Framing of the bound, in tokens: what chat templates and APIs add at most. The dearest published ones are
// eight tokens around a message (start, role, channel, line ends, end), about 350 for a hidden prompt that
// explains tools, and thirty for the JSON around each tool.
const (
	boundBase    = 64  // begin of text, date and default system lines, the beginning of the reply
	boundMessage = 16  // a message, with its role
	boundJoint   = 3   // where two parts of a message meet; see the package's page
	boundCall    = 48  // a tool call: its markers and the names of its fields
	boundResult  = 32  // a tool result, beside its message's
	boundTools   = 640 // the hidden prompt of a request with tools, once
	boundTool    = 48  // a tool: its markers and the names of its fields
	boundLine    = 2   // a further line of a tool's description, which some templates print as comments
	boundFormat  = 96  // the instruction to answer by a schema
)

// Bound returns a number of tokens that the prompt of the request cannot exceed; the package's page says
// what is proved and what is taken for granted.
func Bound(req *llm.Request) int64 {
	var p plainer
	defer p.free()
	return bound(req, p.text, boundText, boundJSON)
}

// Most returns a number of tokens that Bound does not exceed, by the lengths of the texts alone, in whatever form they
// are: a token has a byte at least, and an escape no fewer than what it stands for. It takes a hundredth of the time.
func Most(req *llm.Request) int64 { return bound(req, asItIs, mostText, mostJSON) }

func asItIs(s llm.String) string {
	if inside, ok := s.Quoted(); ok {
		return inside
	}
	return s.String()
}

func mostText(s string) int64 { return int64(len(s)) }

// mostJSON: a bracket or separator costs two more than its byte, see boundJSON. Those that are escaped have five more.
func mostJSON(s string) int64 {
	n := len(s)
	for _, c := range [...]string{"{", "}", "[", "]", ",", ":"} {
		n += 2 * strings.Count(s, c)
	}
	return int64(n)
}

func bound(req *llm.Request, read func(llm.String) string, boundText, boundJSON func(string) int64) int64 {
	n := int64(boundBase)
	for i := range req.Messages {
		m := &req.Messages[i]
		n += boundMessage + int64(len(m.Role))
		if m.Role == llm.RoleTool {
			n += boundResult + boundText(m.CallID)
		}
		for j := range m.Parts {
			if j > 0 {
				n += boundJoint
			}
			n += boundText(read(m.Parts[j].Text))
			if c := m.Parts[j].Call; c != nil {
				n += boundCall + boundText(c.ID) + boundText(c.Name) + boundJSON(read(c.Arguments))
			}
		}
	}
	if len(req.Tools) > 0 {
		n += boundTools + boundText(req.ToolChoice.Name)
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		schema := boundJSON(borrow(t.Schema))
		n += boundTool + boundText(t.Name) + boundText(t.Description) + schema + addedToSchema(borrow(t.Schema), schema)
		n += boundLine * int64(strings.Count(t.Description, "\n"))
	}
	if f := req.Format; f != nil {
		schema := boundJSON(borrow(f.Schema))
		n += boundFormat + boundText(f.Name) + boundText(f.Description) + schema + addedToSchema(borrow(f.Schema), schema)
	}
	return n + addedTo(req)
}

// boundJSON bounds a JSON text that may be printed anew. What stands between its brackets and separators is
// bounded by itself, because white space may come between; each of those costs its byte and the white space
// that a printer puts beside it. Bytes inside strings are treated alike, which only raises the bound.
func boundJSON(s string) int64 {
	var n int64
	for begin := 0; begin < len(s); {
		end := strings.IndexAny(s[begin:], "{}[],:")
		if end < 0 {
			return n + boundText(s[begin:])
		}
		n += boundText(s[begin:begin+end]) + 2
		begin += end + 1
		if numberMeets(s, begin-1) {
			n++
		}
	}
	return n
}

// numberMeets reports whether the bracket or comma at s[i] has a number, or true, false or null, on the side where a
// printer begins a line. That takes neither the end of the line nor the last blank before it along, as marks do.
func numberMeets(s string, i int) bool {
	switch s[i] {
	case '{', '[', ',':
		return i+1 < len(s) && kindOf[s[i+1]] == kindDigit
	case '}', ']':
		return i > 0 && kindOf[s[i-1]] >= kindDigit
	}
	return false
}
