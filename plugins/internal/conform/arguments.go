package conform

import (
	"regexp"
	"slices"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// maxDepth is how deep arguments and schemas may be nested (GAP-33).
const maxDepth = 1100

// fitArguments reports whether arguments are a JSON object.
func (s *scratch) fitArguments(text llm.String) bool {
	if text.Size() == 0 { // which is {}
		return true
	}
	s.text = text.AppendTo(s.text[:0])
	return isObject(s.text)
}

func isObject(text []byte) bool {
	kind, err := jsonview.Check(text, maxDepth)
	return err == nil && kind == jsonview.Object
}

// arguments are arguments of a call as a JSON object. Agents send back what came of a reply that was cut at its limit:
// what it had said of them stays. An object that is written as a JSON string is that object, and of whatever else
// nothing can be known.
func arguments(text llm.String) llm.String {
	if text.Size() == 0 {
		return text
	}
	raw := text.AppendTo(nil)
	switch kind, err := jsonview.Check(raw, maxDepth); {
	case err == nil && kind == jsonview.Object:
		return text
	case err == nil && kind == jsonview.String:
		v, _ := jsonview.Parse(raw, maxDepth)
		inner, _ := v.Str()
		if isObject([]byte(inner)) {
			return llm.Plain(inner)
		}
	case err != nil:
		if whole := completeJSON(raw); isObject(whole) {
			return llm.Plain(string(whole))
		}
	}
	return llm.Plain("{}")
}

// completeJSON puts behind the beginning of a JSON object what is missing of it: the ends of a string and of the
// containers that are open. What comes after the last value that is whole, such as half a number, is left out. What
// it returns is no object where the text was not the beginning of one.
func completeJSON(text []byte) []byte {
	var open []byte // by their closing brackets
	keep := 0
	inString, isName := false, false
	before := byte(0) // the last byte that is no blank and in no string
	for i := 0; i < len(text) && len(open) <= maxDepth; i++ {
		c := text[i]
		switch {
		case inString && c == '\\':
			i++
			continue
		case inString && c != '"':
			continue
		case inString:
			if inString = false; !isName {
				keep = i + 1
			}
		case c == '"':
			inString = true
			isName = len(open) > 0 && open[len(open)-1] == '}' && (before == '{' || before == ',')
		case c == '{' || c == '[':
			open = append(open, c+2) // in ASCII the closing bracket is two after the opening one
			keep = i + 1
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
			keep = i + 1
		case c == ',':
			keep = i
		}
		if c > ' ' {
			before = c
		}
	}
	ends := func(b []byte) []byte {
		b = slices.Clip(b)
		for _, closing := range slices.Backward(open) {
			b = append(b, closing)
		}
		return b
	}
	if inString && !isName {
		const longest = 12 // of what stands for a character: two escapes
		for n := 0; n <= longest && n < len(text); n++ {
			cut := text[:len(text)-n]
			if whole := ends(append(slices.Clip(cut), '"')); !half.Match(cut) && isObject(whole) {
				return whole
			}
		}
	}
	return ends(text[:keep])
}

// half is the end of a text of which the last character's second escape is missing.
var half = regexp.MustCompile(`(?i)\\ud[89ab][0-9a-f]{2}$`)
