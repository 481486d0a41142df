package reply

import (
	"encoding/json"
	"strconv"
	"strings"
)

// innerJSON is the object or array that a text begins with, as JSON: whatever stands behind it, and also where it is
// as Python prints one, which is how proxies written in it (LiteLLM, the official libraries' exceptions) put another
// service's error into a message of their own. There, quotes are single ones unless the text has some, and constants
// have capitals. nil for what is none.
func innerJSON(text string) []byte {
	out := make([]byte, 0, len(text)+16)
	depth := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\'' || c == '"':
			value, end, ok := quoted(text, i)
			if !ok {
				return nil
			}
			literal, _ := json.Marshal(value) // a string always has one
			out, i = append(out, literal...), end
			continue
		case 'A' <= c && c <= 'Z':
			end := i + 1
			for end < len(text) && 'a' <= text[end] && text[end] <= 'z' {
				end++
			}
			constant, ok := pythonConstants[text[i:end]]
			if !ok {
				return nil
			}
			out, i = append(out, constant...), end
			continue
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			depth--
		}
		out = append(out, text[i])
		if i++; depth == 0 {
			return out
		}
	}
	return nil
}

var pythonConstants = map[string]string{"None": "null", "True": "true", "False": "false"}

// quoted reads the string literal that begins at i, and says where it ends.
func quoted(text string, i int) (value string, end int, ok bool) {
	quote := text[i]
	var b strings.Builder
	for rest := text[i+1:]; rest != ""; {
		if rest[0] == quote {
			return b.String(), len(text) - len(rest) + 1, true
		}
		r, _, tail, err := strconv.UnquoteChar(rest, quote)
		if err == nil {
			b.WriteRune(r)
			rest = tail
			continue
		}
		if rest[0] == '\\' && len(rest) > 1 { // what Go has no escape for, such as the other quote
			rest = rest[1:]
		}
		b.WriteByte(rest[0])
		rest = rest[1:]
	}
	return "", 0, false
}
