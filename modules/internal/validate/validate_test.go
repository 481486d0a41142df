package validate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

func text(s string) *Reply { return &Reply{Text: s} }

func call(name, arguments string) *Reply {
	return &Reply{Calls: []*llm.ToolCall{{ID: "c", Name: name, Arguments: llm.Plain(arguments)}}}
}

const schema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`

// TestCheck is of the validators that are built in.
func TestCheck(t *testing.T) {
	t.Parallel()
	req := &llm.Request{Tools: []llm.Tool{{Name: "f", Schema: []byte(schema)},
		{Name: "odd", Schema: []byte(`{"$ref":"#/none"}`)},
		{Name: "away", Schema: []byte(`{"$ref":"file:///etc/passwd"}`)}},
		Format: &llm.Format{Kind: llm.FormatJSONSchema, Schema: []byte(schema)}}
	for _, tc := range []struct {
		validator string
		reply     *Reply
		why       string // "" for accepted
	}{
		{config.ValidNonEmpty, text("x"), ""},
		{config.ValidNonEmpty, text(" \n"), "empty"},
		{config.ValidNonEmpty, call("f", ""), ""},
		{config.ValidNonEmpty, &Reply{Text: "x", Cut: true}, "allowance"},
		{config.ValidNotRefusal, text("I'm sorry, but I can't help with that."), "refuses"},
		{config.ValidNotRefusal, text("I’m sorry, but I can’t help with that."), "refuses"},
		{config.ValidNotRefusal, text("I cannot help with that" + strings.Repeat(" but here is more", 100)), ""},
		{config.ValidNotRefusal, text("I can't help but smile."), ""},
		{config.ValidNotRefusal, text("Sure."), ""},
		{config.ValidNotRefusal, &Reply{Text: "x", Declined: true}, "declined"},
		{config.ValidNotRefusal, call("f", "{"), ""},
		{config.ValidJSON, text(`{"a":1}`), ""},
		{config.ValidJSON, text("```json\n{\"a\":1}\n```"), ""},
		{config.ValidJSON, text(`{"a":1} and`), "not JSON"},
		{config.ValidJSON, text("a"), "not JSON"},
		{config.ValidJSON, call("f", "{"), ""},
		{config.ValidSchema, text(`{"n":1}`), ""},
		{config.ValidSchema, text(`{"n":1.5}`), "does not match"},
		{config.ValidSchema, text(`{}`), "does not match"},
		{config.ValidSchema, text(`n`), "not JSON"},
		{config.ValidSchema, call("f", `{"n":"1"}`), "do not match"},
		{config.ValidToolArguments, text("x"), ""},
		{config.ValidToolArguments, call("f", `{"n":1}`), ""},
		{config.ValidToolArguments, call("f", `{"n":1,"m":2}`), "do not match"},
		{config.ValidToolArguments, call("f", ``), "do not match"},
		{config.ValidToolArguments, call("f", `{"n":`), "not JSON"},
		{config.ValidToolArguments, call("g", `{}`), "does not have"},
		{config.ValidToolArguments, call("odd", `{}`), ""},
		{config.ValidToolArguments, call("away", `{}`), ""},
		{"nonsense", text("x"), "no validator"},
	} {
		err := Check(tc.validator, req, tc.reply)
		if tc.why == "" {
			require.NoError(t, err, "%s of %+v", tc.validator, tc.reply)
			continue
		}
		require.ErrorContains(t, err, tc.why, "%s of %+v", tc.validator, tc.reply)
	}
	require.NoError(t, Check(config.ValidSchema, &llm.Request{}, text("{}")), "there is no schema")
	require.ErrorContains(t, Check(config.ValidSchema, nil, text("{}")), "crashed",
		"a validator that crashes does not accept")
}

// same compares what two replies say.
func same(a, b *Reply) bool { return MeaningOf(a).Same(MeaningOf(b)) }

// TestSame is of equality: of canonical tool calls, of JSON, of short texts and final answers.
func TestSame(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("All work and no play. ", 30)
	for _, tc := range []struct {
		a, b *Reply
		want bool
	}{
		{text("42"), text(" 42. "), true},
		{text("Paris"), text("**paris**"), true},
		{text("The answer is 42"), text("42"), true},
		{text("42"), text("-42"), false},
		{text("5%"), text("5"), false},
		{text("yes"), text("no"), false},
		{text(""), text(""), false},
		{text(`{"a":1,"b":[2]}`), text("```json\n{ \"b\": [2], \"a\": 1 }\n```"), true},
		{text(`{"a":1}`), text(`{"a":2}`), false},
		{text(`{"a":1}`), text(`a`), false},
		{text(`[1,2]`), text(`[2,1]`), false},
		{text("1.0"), text("1"), false},
		{text(long), text(long), false},
		{text(long + "\nFinal answer: 7"), text("I think. The final answer is 7."), true},
		{text(long + "\nFinal answer: 7"), text(long + "\nFinal answer: 8"), false},
		{text(`so \boxed{x+1}`), text(`hence \boxed{y} and then \boxed{x+1}`), true},
		{text("first\n#### 12"), text("second\n#### 12"), true},
		{text("Answer: (B)"), text("**Answer:** B"), true},
		{call("f", `{"a":1,"b":2}`), call("f", `{"b":2, "a":1}`), true},
		{call("f", ``), call("f", `{}`), true},
		{call("f", `{"a":1}`), call("f", `{"a":2}`), false},
		{call("f", `{}`), call("g", `{}`), false},
		{call("f", `{`), call("f", `{`), false},
		{call("f", `{}`), text("f"), false},
		{&Reply{Text: "42", Cut: true}, text("42"), false},
		{&Reply{Text: "42", Declined: true}, text("42"), false},
	} {
		require.Equal(t, tc.want, same(tc.a, tc.b), "%+v and %+v", tc.a, tc.b)
		require.Equal(t, tc.want, same(tc.b, tc.a), "the other way round")
	}
}

func FuzzSame(f *testing.F) {
	f.Add("The answer is 42", "42")
	f.Add(`{"a":1}`, "```\n{\"a\":1}\n```")
	f.Fuzz(func(t *testing.T, a, b string) {
		require.Equal(t, same(text(a), text(b)), same(text(b), text(a)))
		if same(text(a), text(b)) {
			require.NotEmpty(t, strings.TrimSpace(a))
		}
	})
}
