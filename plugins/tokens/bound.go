package tokens

import "github.com/fareway/fareway/plugins/llm"

// Framing of the bound, in tokens: what chat templates and APIs add at most. The dearest published ones are
// eight tokens around a message (start, role, channel, line ends, end), about 350 for a hidden prompt that
// explains tools, and thirty for the JSON around each tool.
const (
	boundBase    = 64  // begin of text, date and default system lines, the beginning of the reply
	boundMessage = 16  // a message, with its role
	boundCall    = 48  // a tool call: its markers and the names of its fields
	boundResult  = 32  // a tool result, beside its message's
	boundTools   = 640 // the hidden prompt of a request with tools, once
	boundTool    = 48  // a tool: its markers and the names of its fields
	boundFormat  = 96  // the instruction to answer by a schema
)

// Bound returns a number of tokens that the prompt of the request cannot exceed; the package's page says
// what is proved and what is taken for granted.
func Bound(req *llm.Request) int64 {
	n := int64(boundBase)
	for i := range req.Messages {
		m := &req.Messages[i]
		n += boundMessage + int64(len(m.Role))
		if m.Role == llm.RoleTool {
			n += boundResult + int64(len(m.CallID))
		}
		for j := range m.Parts {
			n += int64(len(m.Parts[j].Text))
			if c := m.Parts[j].Call; c != nil {
				n += boundCall + int64(len(c.ID)+len(c.Name)) + boundJSON(c.Arguments)
			}
		}
	}
	if len(req.Tools) > 0 {
		n += boundTools + int64(len(req.ToolChoice.Name))
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		n += boundTool + int64(len(t.Name)+len(t.Description)) + boundJSON(t.Schema)
	}
	if f := req.Format; f != nil {
		n += boundFormat + int64(len(f.Name)+len(f.Description)) + boundJSON(f.Schema)
	}
	return n
}

// boundJSON bounds a JSON text that may be printed anew: its bytes, and one for each place where a printer
// puts white space. Bytes inside strings are counted as well, which only raises it.
func boundJSON[T ~string | ~[]byte](s T) int64 {
	n := int64(len(s))
	for i := range len(s) {
		switch s[i] {
		case '{', '}', '[', ']', ',', ':':
			n++
		}
	}
	return n
}
