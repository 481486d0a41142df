package conform_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// TestNamesThatFit: GAP-127. An id or a name that an upstream takes stays, and no other does, to the last character.
func TestNamesThatFit(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	for refused, c := range map[string]struct {
		tool       bool
		fits, lack []string
	}{
		"call_ids_over_40": {false, []string{"a.b", x(40)}, []string{x(41)}},
		"call_ids_over_64": {false, []string{"a.b", x(64)}, []string{x(65)}},
		"call_ids_unlike_9": {false, []string{"abcDEF123", x(9)}, []string{x(8),
			x(10), "abcDEF12_", "abcDEF12-", "abcDEFäa"}},
		"call_id_symbols": {false, []string{"azAZ09_-", x(99)}, []string{"a.b", "a:", "a/", "a@", "a[", "a`", "a{", "a b",
			"ä", "a\x00", "a^", "a,"}},
		"tool_names_over_64": {true, []string{"a.b", "9", x(64)}, []string{x(65)}},
		"tool_name_symbols":  {true, []string{"azAZ09_-", "9", "-", x(99)}, []string{"a.b", "a/", "a b", "ä"}},
		"tool_name_digits": {true, []string{"_", "a9", "Z.", "z", "A"}, []string{
			"9", "-a", ".a", "@", "[", "`", "{", "ä"}},
	} {
		request := func(name string) *llm.Request {
			call := called("c f {}")
			id := "c"
			if c.tool {
				call.Parts[0].Call.Name = name
			} else {
				id, call.Parts[0].Call.ID = name, name
			}
			return &llm.Request{Messages: []llm.Message{said(llm.RoleUser, "u"), call, result(id, "r")}}
		}
		for _, name := range c.fits {
			req := request(name)
			fit, _ := conformed(t, req, refused)
			require.Same(t, req, fit, "%s takes %q", refused, name)
		}
		for _, name := range append(c.lack, "") {
			fit, _ := conformed(t, request(name), refused)
			call := fit.Messages[1].Parts[0].Call
			require.NotEqual(t, name, map[bool]string{true: call.Name, false: call.ID}[c.tool], refused)
			require.Equal(t, call.ID, fit.Messages[2].CallID)
			again, _ := conformed(t, fit, refused)
			require.Same(t, fit, again, "%s takes what becomes of %q", refused, name)
		}
	}
}

// TestWhatFitsIsNotCopied: GAP-127. A conversation that an upstream takes is not copied, whatever else it refuses.
func TestWhatFitsIsNotCopied(t *testing.T) {
	t.Parallel()
	user, reply, system := said(llm.RoleUser, "u"), said(llm.RoleAssistant, "a"), said(llm.RoleSystem, "s")
	failed := result("c", "no")
	failed.IsError = true
	many := []llm.Message{user, {Role: llm.RoleAssistant}}
	for i := range 64 {
		id := string(rune('A'+i/8)) + string(rune('a'+i%8))
		many[1].Parts = append(many[1].Parts, called(id+" f {}").Parts...)
		many = append(many, result(id, "r"))
	}
	for _, c := range []struct {
		refused  string
		messages []llm.Message
		fits     bool
	}{
		{"", nil, true}, {"system_alone assistant_last", nil, false},
		{"", many, true},
		{"", []llm.Message{user, called("c f {}", "d g"), result("d", "s"), result("c", "r"), reply, user}, true},
		{"", []llm.Message{user, called("c f {}"), result("c", "r"), result("c", "s")}, false},
		{"", []llm.Message{user, called("c f {}"), result("d", "r")}, false},
		{"", []llm.Message{user, called("c f {}", "d f {}"), result("c", "r"), result("c", "r")}, false},
		{"", []llm.Message{user, called("c f {}"), result("c", "r"), called("c f {}"), result("c", "r")}, false},
		{"", []llm.Message{user, called("c f [1]"), result("c", "r")}, false},
		{"", []llm.Message{user, result("c", "r")}, false},
		{"", []llm.Message{reply, {Role: llm.RoleAssistant}, user, user, system, said(llm.RoleUser, " ", "")}, true},
		{"later_system", []llm.Message{system, user}, true}, {"later_system", []llm.Message{system, system}, false},
		{"later_system", []llm.Message{user, system}, false},
		{"system_alone", []llm.Message{system, user}, true}, {"system_alone", []llm.Message{system}, false},
		{"assistant_first", []llm.Message{system, user, reply}, true},
		{"assistant_first", []llm.Message{system, reply, user}, false},
		{"assistant_last", []llm.Message{user, reply, user}, true}, {"assistant_last", []llm.Message{user, reply}, false},
		{"assistant_last", []llm.Message{user, called("c f {}"), result("c", "r")}, true},
		{"user_after_result", []llm.Message{user, called("c f {}"), result("c", "r"), reply, user}, true},
		{"user_after_result", []llm.Message{user, called("c f {}"), result("c", "r"), user}, false},
		{"repeated_roles", []llm.Message{user, reply, user}, true},
		{"repeated_roles", []llm.Message{user, called("c f {}"), result("c", "r"), called("d f {}"),
			result("d", "r")}, true},
		{"repeated_roles", []llm.Message{user, user}, false}, {"repeated_roles", []llm.Message{reply, reply}, false},
		{"empty_assistant", []llm.Message{user, called("c f {}"), result("c", ""), said(llm.RoleUser, "")}, true},
		{"empty_assistant", []llm.Message{user, said(llm.RoleAssistant, "", "")}, false},
		{"blank_text", []llm.Message{user, called("c f {}"), result("c", "r"), {Role: llm.RoleTool}}, false},
		{"blank_text", []llm.Message{user, called("c f {}"), {Role: llm.RoleTool, CallID: "c"}}, true},
		{"blank_text", []llm.Message{user, {Role: llm.RoleUser}}, false},
		{"blank_text", []llm.Message{user, {Role: llm.RoleAssistant}}, false},
		{"blank_text", []llm.Message{said(llm.RoleUser, "u", " ")}, false},
		{"text_parts", []llm.Message{user, called("c f {}", "d f {}"), result("c", "r"), result("d", "r")}, true},
		{"text_parts", []llm.Message{said(llm.RoleUser, "u", "v")}, false},
		{"result_errors", []llm.Message{user, called("c f {}"), result("c", "r")}, true},
		{"result_errors", []llm.Message{user, called("c f {}"), failed}, false},
		{"blank_text empty_assistant assistant_last", []llm.Message{user, called("c f {}"), failed}, true},
	} {
		req := &llm.Request{Messages: c.messages}
		fit, _ := conformed(t, req, strings.Fields(c.refused)...)
		require.Equal(t, c.fits, fit == req, "%q: %s", c.refused, shown(c.messages))
	}
}
