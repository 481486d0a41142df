package contracttest

import (
	"encoding/json"
	"strings"
	"testing"
)

// shape is one of the three families on the wire, so that a test can say the same thing in each.
type shape struct {
	Name, Path string
	// Body makes a request that says text; fields are more members, each `"name": value`.
	Body func(text string, fields ...string) string
	// Text and Finish read a whole reply.
	Text   func(a answer, t testing.TB) string
	Finish func(a answer, t testing.TB) string
	// Code reads the code of an error body.
	Code func(a answer, t testing.TB) string
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

var shapes = []shape{{
	Name: "chat", Path: "/v1/chat/completions",
	Body: func(text string, fields ...string) string {
		return object(append([]string{`"model":"service/auto"`, `"messages":[{"role":"user","content":` + quote(text) + `}]`},
			fields...))
	},
	Text:   func(a answer, t testing.TB) string { return str(a.At(t, "choices", 0, "message", "content")) },
	Finish: func(a answer, t testing.TB) string { return str(a.At(t, "choices", 0, "finish_reason")) },
	Code:   func(a answer, t testing.TB) string { return str(a.At(t, "error", "code")) },
}, {
	Name: "responses", Path: "/v1/responses",
	Body: func(text string, fields ...string) string {
		return object(append([]string{`"model":"service/auto"`, `"input":` + quote(text)}, fields...))
	},
	Text: func(a answer, t testing.TB) string {
		var b strings.Builder
		output, _ := a.At(t, "output").([]any)
		for i := range output {
			b.WriteString(str(a.At(t, "output", i, "content", 0, "text")))
		}
		return b.String()
	},
	Finish: func(a answer, t testing.TB) string {
		if reason := str(a.At(t, "incomplete_details", "reason")); reason != "" {
			return str(a.At(t, "status")) + "/" + reason
		}
		return str(a.At(t, "status"))
	},
	Code: func(a answer, t testing.TB) string { return str(a.At(t, "error", "code")) },
}, {
	Name: "messages", Path: "/v1/messages",
	Body: func(text string, fields ...string) string {
		return object(append([]string{`"model":"service/auto"`, `"messages":[{"role":"user","content":` + quote(text) + `}]`},
			fields...))
	},
	Text: func(a answer, t testing.TB) string {
		var b strings.Builder
		content, _ := a.At(t, "content").([]any)
		for i := range content {
			b.WriteString(str(a.At(t, "content", i, "text")))
		}
		return b.String()
	},
	Finish: func(a answer, t testing.TB) string { return str(a.At(t, "stop_reason")) },
	Code:   func(a answer, t testing.TB) string { return str(a.At(t, "error", "type")) },
}}

// object joins members; a later member replaces an earlier one of its name, as duplicate keys do.
func object(members []string) string { return "{" + strings.Join(members, ",") + "}" }

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
