package tokens

import (
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// What is added to a request so that an upstream takes it (package conform), in tokens: a hold covers what is sent,
// whichever route it is. Ids that are written otherwise grow by 17 letters, for which the framing of calls and results
// has room, as that of a message has for the full stop of a user who says nothing.
const (
	boundNothing    = boundMessage + 12 // a message of a full stop: of the user before the first, or behind the last
	boundUnanswered = boundMessage + boundResult + boundFailed + 24
	boundFailed     = 12 // the words that a tool failed
	boundRenamed    = 18 // a name that is not as most upstreams take them

	boundType = 16 // of a schema that does not say of what it is, or what its properties are, each
	boundAny  = 40 // what stands for any value, for several types, and for a reference that leads nowhere
	boundItem = 10 // of an array
)

// addedTo is what is added to the conversation and to names.
func addedTo(req *llm.Request) (n int64) {
	spoken, answered := false, false // somebody other than the system, and the assistant
	for i := range req.Messages {
		m := &req.Messages[i]
		switch m.Role {
		case llm.RoleTool:
			if m.IsError {
				n += boundFailed
			}
		case llm.RoleUser:
			if i > 0 && req.Messages[i-1].Role == llm.RoleTool {
				n += boundNothing
			}
		case llm.RoleAssistant:
			if !spoken {
				n += boundNothing
			}
			n += addedToCalls(req.Messages[i:])
		}
		spoken, answered = spoken || m.Role != llm.RoleSystem, answered || m.Role == llm.RoleAssistant
	}
	if answered { // it may be the last; a longer request never counts less
		n += boundNothing
	}
	for i := range req.Tools {
		n += addedToName(req.Tools[i].Name)
	}
	return n
}

// mostAnswered is of how many calls of a message results are looked for: each is compared with all others.
const mostAnswered = 64

// addedToCalls is what is added to the calls of a message: a result for each, unless theirs stand behind it.
func addedToCalls(messages []llm.Message) (n int64) {
	calls, results := messages[0].Parts, messages[1:]
	i := 0
	for j := range calls {
		call := calls[j].Call
		if call == nil {
			continue
		}
		n += addedToName(call.Name)
		if i >= min(len(results), mostAnswered) || results[i].Role != llm.RoleTool ||
			!answers(&results[i], calls[:min(len(calls), 2*mostAnswered)], results[:i]) {
			n += boundUnanswered + int64(len(call.ID))
		}
		i++
	}
	return n
}

// answers reports whether a result is of one of these calls, and none before it is.
func answers(result *llm.Message, calls []llm.Part, before []llm.Message) bool {
	for i := range before {
		if before[i].CallID == result.CallID {
			return false
		}
	}
	for j := range calls {
		if c := calls[j].Call; c != nil && c.ID == result.CallID {
			return true
		}
	}
	return false
}

func addedToName(name string) int64 {
	const most = 64
	fits := name == "" || len(name) <= most && kindOf[name[0]] != kindDigit
	for i := 0; i < len(name) && fits; i++ {
		c := name[i] | 0x20
		fits = 'a' <= c && c <= 'z' || '0' <= name[i] && name[i] <= '9' || name[i] == '_' || name[i] == '-'
	}
	if fits {
		return 0
	}
	return boundRenamed
}

// addedToSchema is what is added to the schema of a tool. References are replaced by what they lead to up to twice its
// size; what has no type, or several, is said to have one of several.
func addedToSchema(schema string, bound int64) (n int64) {
	if schema == "" {
		return 0
	}
	for _, said := range [...]string{`"type"`, `"properties"`} {
		if !strings.Contains(schema, said) {
			n += boundType
		}
	}
	if refs := strings.Count(schema, "$ref"); refs > 0 {
		n += 2*bound + int64(refs)*boundAny
	}
	typed, several := typedIn(schema)
	if untyped := strings.Count(schema, "{") - 1 - strings.Count(schema, `"properties"`) - max(typed-1, 0); untyped > 0 {
		n += boundAny * int64(untyped)
	}
	return n + boundAny*int64(strings.Count(schema, "true")+several) + boundItem*int64(strings.Count(schema, `"array"`))
}

// typedIn counts the schemas within a text that have a type, and those of them that have several.
func typedIn(schema string) (typed, several int) {
	const name = `"type"`
	for {
		i := strings.Index(schema, name)
		if i < 0 {
			return typed, several
		}
		schema = strings.TrimLeft(schema[i+len(name):], " \t\r\n:")
		switch {
		case strings.HasPrefix(schema, `"`):
			typed++
		case strings.HasPrefix(schema, "["):
			typed++
			several++
		}
	}
}
