package conform_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/llm"
)

func said(role llm.Role, texts ...string) llm.Message {
	m := llm.Message{Role: role}
	for _, text := range texts {
		m.Parts = append(m.Parts, llm.Text(text))
	}
	return m
}

// called is a reply with calls, each "id name arguments".
func called(calls ...string) llm.Message {
	m := llm.Message{Role: llm.RoleAssistant}
	for _, c := range calls {
		id, rest, _ := strings.Cut(c, " ")
		name, arguments, _ := strings.Cut(rest, " ")
		m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{ID: id, Name: name, Arguments: llm.Plain(arguments)}})
	}
	return m
}

func result(id, text string) llm.Message {
	m := said(llm.RoleTool, text)
	m.CallID = id
	return m
}

// shown writes a conversation down, a message a line.
func shown(messages []llm.Message) string {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%s%s:", m.Role, map[bool]string{true: " " + m.CallID}[m.CallID != ""])
		for _, p := range m.Parts {
			if p.Call != nil {
				fmt.Fprintf(&b, " (%s %s %s)", p.Call.ID, p.Call.Name, p.Call.Arguments)
			} else {
				fmt.Fprintf(&b, " %q", p.Text.String())
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func conformed(t require.TestingT, req *llm.Request, refused ...string) (*llm.Request, conform.Names) {
	fit, names, err := conform.Request(req, refused)
	require.NoError(t, err)
	return fit, names
}

func TestConversation(t *testing.T) {
	t.Parallel()
	user, reply := said(llm.RoleUser, "u"), said(llm.RoleAssistant, "a")
	failed := result("c", "no")
	failed.IsError = true
	const ask = "user: \"u\"\n"
	for _, c := range []struct {
		name     string
		refused  string
		messages []llm.Message
		want     string
	}{
		{"GAP-127 the user between a call and its result", "", []llm.Message{user, called("c f {}"), user, result("c", "r")},
			ask + "assistant: (c f {})\ntool c: \"r\"\n" + ask},
		{"GAP-28 a call without a result", "", []llm.Message{user, called("c f {}", "d g {}"), result("d", "r"), user},
			ask + "assistant: (c f {}) (d g {})\ntool d: \"r\"\ntool c: \"There is no result: the call was interrupted.\"\n" +
				ask},
		{"a call without a result at the end", "", []llm.Message{user, called("c f {}")},
			ask + "assistant: (c f {})\ntool c: \"There is no result: the call was interrupted.\"\n"},
		{"two results of one call", "", []llm.Message{user, called("c f {}"), result("c", "r"), result("c", "s")},
			ask + "assistant: (c f {})\ntool c: \"r\" \"s\"\n"},
		{"two results of one call, of which one failed", "result_errors", []llm.Message{user, called("c f {}"),
			result("c", "r"), failed}, ask + "assistant: (c f {})\ntool c: \"Error: the tool failed.\" \"r\" \"no\"\n"},
		{"GAP-127 one id in two turns", "", []llm.Message{user, called("c f {}"), result("c", "1"), called("c f {}"),
			result("c", "2")}, ask + "assistant: (c f {})\ntool c: \"1\"\nassistant: (ID f {})\ntool ID: \"2\"\n"},
		{"one id for two calls", "", []llm.Message{user, called("c f {}", "c g {}"), result("c", "1"), result("c", "2")},
			ask + "assistant: (c f {}) (ID g {})\ntool c: \"1\"\ntool ID: \"2\"\n"},
		{"an id of two turns, the first of which nobody answered", "",
			[]llm.Message{user, called("c f {}"), called("c g {}"), result("c", "2")},
			ask + "assistant: (c f {})\ntool c: \"There is no result: the call was interrupted.\"\n" +
				"assistant: (ID g {})\ntool ID: \"2\"\n"},
		{"GAP-84 arguments", "", []llm.Message{user, called(`c f {"a":"x\u00e`, `d g [1]`, `e h`), result("c", "1"),
			result("d", "2"), result("e", "3")},
			ask + `assistant: (c f {"a":"x"}) (d g {}) (e h )` + "\ntool c: \"1\"\ntool d: \"2\"\ntool e: \"3\"\n"},

		{"GAP-128 an assistant who said nothing", "empty_assistant", []llm.Message{user, {Role: llm.RoleAssistant}, user},
			ask + ask},
		{"and its neighbours", "empty_assistant repeated_roles", []llm.Message{user, said(llm.RoleAssistant, ""), user},
			"user: \"u\" \"u\"\n"},
		{"an assistant who calls says something", "empty_assistant", []llm.Message{user, called("c f {}"), result("c", "r")},
			ask + "assistant: (c f {})\ntool c: \"r\"\n"},
		{"blanks", "blank_text", []llm.Message{said(llm.RoleSystem, "\n"), said(llm.RoleUser, " ", "u"),
			said(llm.RoleAssistant, "\t"), said(llm.RoleUser, "")}, ask},
		{"nothing but blanks", "blank_text", []llm.Message{said(llm.RoleUser, " ")}, "user: \".\"\n"},
		{"a result of nothing but blanks", "blank_text", []llm.Message{user, called("c f {}"), result("c", " ")},
			ask + "assistant: (c f {})\ntool c:\n"},
		{"the assistant first", "assistant_first", []llm.Message{said(llm.RoleSystem, "s"), reply, user},
			"system: \"s\"\nuser: \".\"\nassistant: \"a\"\n" + ask},
		{"the assistant last", "assistant_last", []llm.Message{user, reply}, ask + "assistant: \"a\"\nuser: \".\"\n"},
		{"the assistant first and last", "assistant_first assistant_last", []llm.Message{reply},
			"user: \".\"\nassistant: \"a\"\nuser: \".\"\n"},
		{"a result last", "assistant_last", []llm.Message{user, called("c f {}"), result("c", "r")},
			ask + "assistant: (c f {})\ntool c: \"r\"\n"},
		{"system messages later", "later_system", []llm.Message{said(llm.RoleSystem, "s"), said(llm.RoleSystem, "t"), user,
			said(llm.RoleSystem, "v")}, "system: \"s\" \"t\"\n" + ask + "user: \"v\"\n"},
		{"system messages alone", "system_alone", []llm.Message{said(llm.RoleSystem, "s")}, "user: \"s\"\n"},
		{"the user behind a result", "user_after_result", []llm.Message{user, called("c f {}"), result("c", "r"), user},
			ask + "assistant: (c f {})\ntool c: \"r\"\nassistant: \".\"\n" + ask},
		{"the assistant behind a result", "user_after_result", []llm.Message{user, called("c f {}"), result("c", "r"), reply},
			ask + "assistant: (c f {})\ntool c: \"r\"\nassistant: \"a\"\n"},
		{"roles in a row", "repeated_roles", []llm.Message{user, user, reply, called("c f {}"), result("c", "r"), user},
			"user: \"u\" \"u\"\nassistant: \"a\" (c f {})\ntool c: \"r\"\n" + ask},
		{"texts in parts", "text_parts", []llm.Message{said(llm.RoleUser, "Translate: not", "", "able")},
			"user: \"Translate: not\\nable\"\n"},
		{"a tool that failed", "result_errors", []llm.Message{user, called("c f {}"), failed},
			ask + "assistant: (c f {})\ntool c: \"Error: the tool failed.\" \"no\"\n"},
		{"a tool that failed, in one text", "result_errors text_parts", []llm.Message{user, called("c f {}"), failed},
			ask + "assistant: (c f {})\ntool c: \"Error: the tool failed.\\nno\"\n"},
		{"ids that are too long", "call_ids_over_40",
			[]llm.Message{user, called("chatcmpl-tool-0123456789abcdef0123456789abcdef f {}"),
				result("chatcmpl-tool-0123456789abcdef0123456789abcdef", "r")},
			ask + "assistant: (ID f {})\ntool ID: \"r\"\n"},
		{"ids of nine", "call_ids_unlike_9", []llm.Message{user, called("call_1 f {}", "abcDEF123 g {}"),
			result("abcDEF123", "s"), result("call_1", "r")},
			ask + "assistant: (ID f {}) (abcDEF123 g {})\ntool abcDEF123: \"s\"\ntool ID: \"r\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := shown(c.messages)
			fit, _ := conformed(t, &llm.Request{Messages: c.messages}, strings.Fields(c.refused)...)
			got := shown(fit.Messages)
			if i := strings.Index(c.want, "ID"); i >= 0 { // one id that is not the client's
				id := regexp.MustCompile(`^[A-Za-z0-9_-]+`).FindString(got[i:])
				got = strings.ReplaceAll(got, id, "ID")
			}
			require.Equal(t, c.want, got)
			require.Equal(t, before, shown(c.messages), "the client's stays as it is")
			again, _ := conformed(t, fit, strings.Fields(c.refused)...)
			require.Equal(t, shown(fit.Messages), shown(again.Messages), "what fits stays")
		})
	}
}

// TestStatesFollowTheirCalls proves GAP-117 for calls whose ids the upstream sees otherwise.
func TestStatesFollowTheirCalls(t *testing.T) {
	t.Parallel()
	req := &llm.Request{Messages: []llm.Message{said(llm.RoleUser, "u"), called("a.b f {}", "c g {}"), result("a.b", "r"),
		result("c", "s")}, States: map[string][]byte{"a.b": []byte("x"), "c": []byte("y")}}
	fit, _ := conformed(t, req, "call_id_symbols")
	id := fit.Messages[1].Parts[0].Call.ID
	require.NotEqual(t, "a.b", id)
	require.Equal(t, "x", string(fit.States[id]))
	require.Equal(t, "y", string(fit.States["c"]))
	require.Len(t, req.States, 2)
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`{"a":1}`:                              `{"a":1}`,
		` { } `:                                ` { } `,
		``:                                     ``,
		` `:                                    `{}`,
		`null`:                                 `{}`,
		`"{\"a\":1}"`:                          `{"a":1}`,
		`"no object"`:                          `{}`,
		`{'a': 1}`:                             `{}`,
		`{"a":1}{"a":1}`:                       `{}`,
		`not JSON`:                             `{}`,
		`{`:                                    `{}`,
		`{"a`:                                  `{}`,
		`{"a":`:                                `{}`,
		`{"a":12`:                              `{}`,
		`{"a":12,`:                             `{"a":12}`,
		`{"a":[1,2`:                            `{"a":[1]}`,
		`{"a":{"b":"c"},"d":{"e`:               `{"a":{"b":"c"},"d":{}}`,
		`{"path":"x","content":"line\nmore\`:   `{"path":"x","content":"line\nmore"}`,
		`{"content":"a}, {\"b\": [`:            `{"content":"a}, {\"b\": ["}`,
		`{"content":"smile \ud83d`:             `{"content":"smile "}`,
		`{"content":"smile \ud83d\ude`:         `{"content":"smile "}`,
		`{"content":"smile \ud83d\ude00 ok`:    `{"content":"smile \ud83d\ude00 ok"}`,
		`{"a":["x","y`:                         `{"a":["x","y"]}`,
		`{"a":"x\"}`:                           `{"a":"x\"}"}`,
		`{"a":tru`:                             `{}`,
		strings.Repeat(`{"a":`, 2000):          `{}`,
		`{"a":` + strings.Repeat("[", 100_000): `{}`,
	} {
		req := &llm.Request{Messages: []llm.Message{said(llm.RoleUser, "u"), called("c f " + given), result("c", "r")}}
		fit, _ := conformed(t, req)
		require.Equal(t, want, fit.Messages[1].Parts[0].Call.Arguments.String(), "%.80s", given)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65)
	names := []string{"ok", "a.b", "a_b", "a-b", "a/b", long, long + "y", "9lives", "ä", "weather tool"}
	req := &llm.Request{Messages: []llm.Message{said(llm.RoleUser, "u"), called("c1 gone.tool {}", "c2 a.b {}"),
		result("c1", "r"), result("c2", "r")}, ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "a.b"}}
	for _, name := range names {
		req.Tools = append(req.Tools, llm.Tool{Name: name, Schema: []byte(`{"type":"object","properties":{}}`)})
	}
	fit, back := conformed(t, req, "tool_name_symbols", "tool_names_over_64", "tool_name_digits")
	legal := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
	seen := map[string]bool{}
	for i, tool := range fit.Tools {
		require.Regexp(t, legal, tool.Name)
		require.False(t, seen[tool.Name], "distinct names stay distinct")
		seen[tool.Name] = true
		ev := back.Client(llm.Event{Kind: llm.EventToolCall, Name: tool.Name})
		require.Equal(t, names[i], ev.Name, "the client sees its own")
	}
	require.Equal(t, "a_b", fit.Tools[2].Name, "one that fits stays")
	require.Equal(t, fit.Tools[1].Name, fit.ToolChoice.Name)
	require.Equal(t, fit.Tools[1].Name, fit.Messages[1].Parts[1].Call.Name)
	require.Equal(t, "gone_tool", fit.Messages[1].Parts[0].Call.Name)
	require.Equal(t, "other", back.Client(llm.Event{Kind: llm.EventToolCall, Name: "other"}).Name)
	require.Equal(t, "a_b", back.Client(llm.Event{Kind: llm.EventText, Name: "a_b"}).Name)
	require.Equal(t, "a.b", req.Tools[1].Name, "the client's stay as they are")
	require.Equal(t, "a.b", req.Messages[1].Parts[1].Call.Name)
}

func TestUnfit(t *testing.T) {
	t.Parallel()
	tools := []llm.Tool{{Name: "f", Schema: []byte(`{"type":"object"}`)}, {Name: "g", Schema: []byte(`{"type":"object"}`)}}
	required, named := llm.ToolChoice{Mode: llm.ToolRequired}, llm.ToolChoice{Mode: llm.ToolNamed, Name: "g"}
	hi := []llm.Message{said(llm.RoleUser, "u")}
	for _, c := range []struct {
		refused string
		req     llm.Request
		unfit   bool
	}{
		{"forced_tool_choice", llm.Request{Tools: tools, ToolChoice: required}, true},
		{"forced_tool_choice", llm.Request{Tools: tools, ToolChoice: named}, true},
		{"forced_tool_choice", llm.Request{Tools: tools}, false},
		{"forced_tool_choice", llm.Request{Tools: tools, ToolChoice: llm.ToolChoice{Mode: llm.ToolNone}}, false},
		{"", llm.Request{Tools: tools, ToolChoice: required}, false},
		{"json_with_tools", llm.Request{Tools: tools, Format: &llm.Format{Kind: llm.FormatJSONObject}}, true},
		{"json_with_tools", llm.Request{Format: &llm.Format{Kind: llm.FormatJSONObject}}, false},
		{"json_with_tools", llm.Request{Tools: tools}, false},
	} {
		c.req.Messages = hi
		c.req.Unsupported = strings.Fields(c.refused) // the operator's word counts as well
		_, _, err := conform.Request(&c.req, nil)
		require.Equal(t, c.unfit, llm.KindOf(err) == llm.ErrUnfit, "%v", c)
	}
	fit, _ := conformed(t, &llm.Request{Messages: hi, Tools: tools, ToolChoice: named}, "named_tool_choice")
	require.Equal(t, llm.ToolChoice{Mode: llm.ToolRequired}, fit.ToolChoice)
	require.Len(t, fit.Tools, 1)
	require.Equal(t, "g", fit.Tools[0].Name)
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	const anything = `{"type":["string","number","boolean","object","array","null"]}`
	for _, c := range []struct{ refused, given, want string }{
		{"schema_without_type", `{}`, `{"type":"object"}`},
		{"schema_without_type", `{"type":null,"properties":{"type":{}}}`, `{"type":"object","properties":{"type":{}}}`},
		{"schema_without_type schema_without_properties", `{}`, `{"type":"object","properties":{}}`},
		{"schema_without_properties", `{"type":"object","additionalProperties":true}`,
			`{"type":"object","additionalProperties":true,"properties":{}}`},
		{"schema_without_items", `{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"array","items":{}}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":"array","items":{}}}}`},
		{"schema_root_unions", `{"anyOf":[{"properties":{"a":{},"b":{}},"required":["a","b"]},` +
			`{"properties":{"b":{"type":"string"},"c":{}},"required":["b","c"]}],"description":"d"}`,
			`{"description":"d","type":"object","properties":{"a":{},"b":{},"c":{}},"required":["b"]}`},
		{"schema_root_unions", `{"type":"object","properties":{"x":{}},"required":["x"],"allOf":[{"required":["y"],` +
			`"properties":{"y":{"oneOf":[{}]}}}]}`,
			`{"type":"object","properties":{"x":{},"y":{"oneOf":[{}]}},"required":["x","y"]}`},
		{"schema_root_unions", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"x":{"$ref":"#/$defs/b"}}},` +
			`"b":{}}}`, `{"$defs":{"a":{"type":"object","properties":{"x":{"$ref":"#/$defs/b"}}},"b":{}},"type":"object",` +
			`"properties":{"x":{"$ref":"#/$defs/b"}}}`},
		{"schema_root_unions", `{"oneOf":[{"$ref":"#"},{"$ref":"#"}]}`, `{"type":"object","properties":{}}`},
		{"schema_root_keywords", `{"$schema":"x","type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{` +
			`"type":"string","description":"d"}},"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"d"}}}`},
		{"schema_grammar_limits", `{"type":"object","properties":{"a":{"type":"string","maxLength":2000,"minLength":1},` +
			`"b":{"type":"string","pattern":"ab+"},"c":{"type":"string","pattern":"^\\d+$"},` +
			`"d":{"type":"string","pattern":"^[a-z]+$"},"e":{"type":"array","maxItems":5000,"items":true},` +
			`"f":true,"g":{"$ref":"#/gone","description":"why"},"h":{"$ref":"#/properties/d"},"i":{"maxLength":1999}},` +
			`"additionalProperties":true}`,
			`{"type":"object","properties":{"a":{"type":"string","minLength":1},"b":{"type":"string"},"c":{"type":"string"},` +
				`"d":{"type":"string","pattern":"^[a-z]+$"},"e":{"type":"array","items":true},` +
				`"f":` + anything + `,"g":` + strings.TrimSuffix(anything, "}") + `,"description":"why"},` +
				`"h":{"$ref":"#/properties/d"},"i":{"maxLength":1999}},"additionalProperties":true}`},
		{"", `{"anyOf":[]}`, `{"anyOf":[]}`},
	} {
		req := &llm.Request{Messages: []llm.Message{said(llm.RoleUser, "u")},
			Tools: []llm.Tool{{Name: "f", Schema: json.RawMessage(c.given)}}}
		fit, _ := conformed(t, req, strings.Fields(c.refused)...)
		require.JSONEq(t, c.want, string(fit.Tools[0].Schema), c.given)
		require.Equal(t, c.given, string(req.Tools[0].Schema))
		again, _ := conformed(t, fit, strings.Fields(c.refused)...)
		require.JSONEq(t, c.want, string(again.Tools[0].Schema))
	}
}

// TestFormats: the schema of a format is read by the same part of a service as that of a tool, but for its root.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ refused, given, want string }{
		{"schema_grammar_limits", `{"type":"object","properties":{"a":{"type":"string","pattern":"\\d","maxLength":9}}}`,
			`{"type":"object","properties":{"a":{"type":"string","maxLength":9}}}`},
		{"schema_without_items", `{"type":"array"}`, `{"type":"array","items":{}}`},
		{"schema_beyond_openapi", `{"type":["string","null"],"const":"x"}`, `{"type":"string","enum":["x"],"nullable":true}`},
		{"schema_root_unions schema_without_type schema_without_properties schema_root_keywords", `{"anyOf":[{}]}`,
			`{"anyOf":[{}]}`},
		{"schema_grammar_limits", `true`, `true`},
		{"schema_beyond_openapi", ``, ``},
	} {
		req := &llm.Request{Messages: []llm.Message{said(llm.RoleUser, "u")},
			Format: &llm.Format{Kind: llm.FormatJSONSchema, Name: "n", Schema: json.RawMessage(c.given)}}
		fit, _ := conformed(t, req, strings.Fields(c.refused)...)
		require.Equal(t, c.want, string(fit.Format.Schema))
		require.Equal(t, "n", fit.Format.Name)
		require.Equal(t, c.given, string(req.Format.Schema), "the client's stays as it is")
		again, _ := conformed(t, fit, strings.Fields(c.refused)...)
		require.Same(t, fit, again, "what fits stays")
	}
}

// TestRestrictionsAreKnown: each name that is offered does something here, or is read by who writes requests.
func TestRestrictionsAreKnown(t *testing.T) {
	t.Parallel()
	written := []string{"stop", "temperature", "max_tokens", "stream_options", "forced_tool_choice_thinking",
		"null_content"}
	var offered []string
	for _, r := range llm.Restrictions() {
		require.NotEmpty(t, r.Doc)
		if !slices.Contains(written, r.Name) {
			offered = append(offered, r.Name)
		}
	}
	require.ElementsMatch(t, offered, conform.Known())
}

// all are the restrictions that map something.
func all() []string {
	return slices.DeleteFunc(conform.Known(), func(name string) bool {
		return name == "forced_tool_choice" || name == "json_with_tools"
	})
}

// TestPrefixes proves GAP-127's "byte-equal prefixes stay byte-equal" and that ids and names come back, over whatever
// a client sends.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		req := drawn(t)
		refused := rapid.SliceOfDistinct(rapid.SampledFrom(all()), rapid.ID[string]).Draw(t, "refused")
		// A system message alone is the question only as long as nobody asks one.
		refused = slices.DeleteFunc(refused, func(n string) bool { return n == "system_alone" })
		whole, names := conformed(t, req, refused...)
		for id, name := range names {
			require.NotEqual(t, id, name)
		}
		ids := map[string]bool{}
		for i, m := range whole.Messages {
			for _, p := range m.Parts {
				if p.Call == nil {
					continue
				}
				require.False(t, ids[p.Call.ID], "ids are distinct")
				ids[p.Call.ID] = true
				require.True(t, json.Valid([]byte(p.Call.Arguments.String())) || p.Call.Arguments.Size() == 0)
				require.True(t, slices.ContainsFunc(whole.Messages[i+1:], func(o llm.Message) bool {
					return o.CallID == p.Call.ID
				}), "every call is answered")
			}
		}
		again, _ := conformed(t, whole, refused...)
		require.Equal(t, shown(whole.Messages), shown(again.Messages), "what fits stays")
		for _, end := range ends(req.Messages) {
			part := *req
			part.Messages = req.Messages[:end]
			begun, _ := conformed(t, &part, refused...)
			before, after := shown(begun.Messages), shown(whole.Messages)
			before = strings.TrimSuffix(before, "user: \".\"\n") // nobody had said anything
			if slices.Contains(refused, "repeated_roles") || slices.Contains(refused, "later_system") {
				before = strings.TrimSuffix(before, "\n") // the last message may be part of the next
			}
			if !slices.Contains(refused, "text_parts") || !slices.Contains(refused, "repeated_roles") {
				require.True(t, strings.HasPrefix(after, before), "%s\ndoes not begin with\n%s", after, before)
			}
		}
	})
}

// ends are where a conversation may have ended before: not between a call and its results.
func ends(messages []llm.Message) (at []int) {
	open := map[string]int{}
	for i, m := range messages {
		if m.Role == llm.RoleTool && open[m.CallID] > 0 {
			open[m.CallID]--
		}
		for _, p := range m.Parts {
			if p.Call != nil {
				open[p.Call.ID]++
			}
		}
		waiting := 0
		for _, n := range open {
			waiting += n
		}
		if waiting == 0 {
			at = append(at, i+1)
		}
	}
	return at
}

func drawn(t *rapid.T) *llm.Request {
	text := rapid.SampledFrom([]string{"", " ", "hi", "a b", "\n"})
	name := rapid.SampledFrom([]string{"f", "mcp.server.tool", "mcp_server_tool", "x y", strings.Repeat("n", 128), "9"})
	req := &llm.Request{}
	taken := map[string]bool{}
	for range rapid.IntRange(0, 3).Draw(t, "tools") {
		tool := llm.Tool{Name: name.Draw(t, "tool"), Schema: []byte(`{"type":"object"}`)}
		if !taken[tool.Name] {
			taken[tool.Name] = true
			req.Tools = append(req.Tools, tool)
		}
	}
	id := rapid.SampledFrom(
		[]string{"call_1", "abcDEF123", "chatcmpl-tool-0123456789abcdef0123456789abcdef", "toolu_01", "a.b"},
	)
	for range rapid.IntRange(1, 8).Draw(t, "messages") {
		role := rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleUser, llm.RoleAssistant, llm.RoleAssistant,
			llm.RoleSystem}).Draw(t, "role")
		m := said(role, rapid.SliceOfN(text, 0, 2).Draw(t, "texts")...)
		var results []llm.Message
		if role == llm.RoleAssistant {
			for range rapid.IntRange(0, 2).Draw(t, "calls") {
				c := &llm.ToolCall{ID: id.Draw(t, "id"), Name: name.Draw(t, "name"),
					Arguments: llm.Plain(rapid.SampledFrom([]string{"", "{}", `{"a":1}`, `{"a":"b`, "x"}).Draw(t, "arguments"))}
				m.Parts = append(m.Parts, llm.Part{Call: c})
				r := result(c.ID, text.Draw(t, "result"))
				r.IsError = rapid.Bool().Draw(t, "failed")
				results = append(results, r)
			}
		}
		req.Messages = append(req.Messages, m)
		if len(results) > 1 && rapid.Bool().Draw(t, "between") {
			results = slices.Insert(results, 1, said(llm.RoleUser, "between"))
		}
		req.Messages = append(req.Messages, results...)
	}
	return req
}

func ordinary() *llm.Request {
	req := &llm.Request{Messages: []llm.Message{said(llm.RoleSystem, "s"), said(llm.RoleUser, "u"),
		called(`c1 f {"a":[1,{"b":"c"}]}`, "c2 g {}"), result("c2", "r"), result("c1", "r"), said(llm.RoleAssistant, "a"),
		said(llm.RoleUser, "u")},
		Tools: []llm.Tool{{Name: "f", Schema: []byte(`{"type":"object","properties":{"a":{"type":"array",` +
			`"items":{"type":"string"}}}}`)},
			{Name: "g", Schema: []byte(`{"type":"object","properties":{}}`)}}}
	for i := range req.Messages {
		for j := range req.Messages[i].Parts {
			if call := req.Messages[i].Parts[j].Call; call != nil {
				inside, _ := json.Marshal(call.Arguments.String())
				call.Arguments = llm.Quoted(string(inside[1 : len(inside)-1]))
			}
		}
	}
	return req
}

func BenchmarkRequest(b *testing.B) {
	req := ordinary()
	for range 6 { // an agent's conversation, with files in its arguments
		for range 3 {
			n := len(req.Messages)
			file := strings.Repeat(`func f() {\\n\\treturn \\\"x\\\"\\n}\\n`, 100)
			req.Messages = append(req.Messages, called(fmt.Sprintf("c%d write ", n)), result(fmt.Sprintf("c%d", n), file))
			req.Messages[n].Parts[0].Call.Arguments = llm.Quoted(`{\"path\":\"a.go\",\"content\":\"` + file + `\"}`)
		}
	}
	refused := []string{"call_ids_over_40", "tool_names_over_64", "schema_without_type", "schema_root_unions",
		"schema_without_items", "result_errors"}
	b.ReportAllocs()
	for b.Loop() {
		fit, _, err := conform.Request(req, refused)
		if err != nil || fit != req {
			b.Fatal("it does not fit")
		}
	}
}
