package contracttest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// row is a request of a table: the smallest body of a shape with these members more, and what becomes of it.
type row struct {
	name    string // the clauses first
	members string
	code    string // "" for a reply, otherwise that of a 400
	// sent are members of the body that the upstream gets, as JSON; "" for one that must not be there.
	sent map[string]string
}

// runRows sends each row streamed and not, unless its members decide that themselves. What is refused is
// refused alike in both ways, and touches neither money nor upstream.
func (g *scripted) runRows(t *testing.T, sh shape, rows []row) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, mode := range modes {
				var members []string
				if !strings.Contains(r.members, `"stream":`) {
					members = append(members, mode.Field)
				}
				if r.members != "" {
					members = append(members, r.members)
				}
				a := c.Ask(sh, members...)
				if r.code != "" {
					requireError(t, sh, a, 400, r.code)
					continue
				}
				require.Equal(t, "Hello", outcomeOf(t, sh, a).Text)
				c.requireSent(t, r.sent)
			}
			if r.code != "" {
				c.RequireUntouched(t)
			}
		})
	}
}

// requireSent compares members of the latest request upstream with JSON texts, in which PROMPT is the mark.
func (c *caller) requireSent(t testing.TB, want map[string]string) {
	t.Helper()
	sent := c.Sent(t)
	for name, text := range want {
		if text == "" {
			require.NotContains(t, sent, name)
			continue
		}
		got, err := json.Marshal(sent[name])
		require.NoError(t, err)
		require.JSONEq(t, strings.ReplaceAll(text, "PROMPT", c.Mark), string(got), name)
	}
}

// refusedRows makes a row for each value of a member that is refused.
func refusedRows(name, member, code string, values ...string) []row {
	rows := make([]row, len(values))
	for i, v := range values {
		rows[i] = row{name: name + " " + v, members: quote(member) + ":" + v, code: code}
	}
	return rows
}

// acceptedRows makes a row for each value of a member that is accepted and changes nothing upstream: neither it
// nor a format or an instruction in its place is sent on.
func acceptedRows(name, member string, values ...string) []row {
	rows := make([]row, len(values))
	for i, v := range values {
		rows[i] = row{name: name + " " + v, members: quote(member) + ":" + v, sent: map[string]string{
			member: "", "response_format": "", "messages": `[{"role":"user","content":"PROMPT"}]`}}
	}
	return rows
}

// TestFieldsByShape is E31: what one shape refuses, another ignores.
func TestFieldsByShape(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	const ok, unsupported, invalid = "", "unsupported_field", "invalid_request_error"
	for _, tc := range []struct {
		name, members             string
		chat, responses, messages string
	}{
		{"HTTP-04 HTTP-05 CHAT-24 VER-06", `"seed":0`, unsupported, ok, ok},
		{"CHAT-24", `"seed":null`, ok, ok, ok},
		{"HTTP-04 HTTP-05 CHAT-23 VER-06", `"n":2`, unsupported, ok, ok},
		{"HTTP-05 CHAT-26 VER-06", `"frequency_penalty":0`, unsupported, ok, ok},
		{"HTTP-05 CHAT-27 VER-06", `"presence_penalty":0`, unsupported, ok, ok},
		{"HTTP-05 CHAT-25 VER-06", `"logprobs":false`, unsupported, ok, ok},
		{"HTTP-05 RESP-23 VER-07", `"store":true`, ok, unsupported, ok},
		{"HTTP-05 RESP-25 VER-07", `"background":true`, ok, unsupported, ok},
		{"HTTP-05 RESP-26 VER-07", `"previous_response_id":"x"`, ok, unsupported, ok},
		{"CHAT-28 STRUCT-02 VER-08", `"response_format":{"type":"text"}`, unsupported, unsupported, ok},
		{"RESP-27 STRUCT-04 VER-08", `"text":{"format":{"type":"json_object"}}`, ok, ok, ok},
		{"MSG-17 STRUCT-05 VER-08", `"output_format":{"type":"json_schema","schema":{}}`, ok, ok, ok},
		{"MSG-17 STRUCT-06 VER-08", `"output_config":{"format":{"type":"json_schema","schema":{}}}`, ok, ok, ok},
		{"CHAT-19 RESP-21 PROF-12 HTTP-04", `"reasoning_effort":"bogus"`, invalid, invalid, ok},
		{"CHAT-12 RESP-12 MSG-12 VER-09", `"tools":[{"type":"web_search_20250305","name":"web_search"}]`, unsupported,
			unsupported, ok},
		{"AUTH-17", `"metadata":{"session_id":"x"}`, invalid, invalid, invalid},
		{"HTTP-04", `"foo":{"a":1}`, ok, ok, ok},
		{"HTTP-04", `"logit_bias":{"1":100},"top_logprobs":3,"service_tier":"x"`, ok, ok, ok},
		{"HTTP-04", `"truncation":"auto","include":["x"],"prompt_cache_key":"k"`, ok, ok, ok},
		{"HTTP-04", `"top_k":5,"thread":{"type":"create"},"context_management":{}`, ok, ok, ok},
		{"HTTP-04 CHAT-20", `"top_p":"wrong","parallel_tool_calls":"wrong","user":7,"thinking":"wrong"`, ok, ok, ok},
	} {
		for family, code := range map[string]string{"chat": tc.chat, "responses": tc.responses, "messages": tc.messages} {
			sh := shapeOf(family)
			g.runRows(t, sh, []row{{name: tc.name + " " + tc.members + " on " + family, members: tc.members, code: code}})
		}
	}
	for _, tc := range []struct{ name, members, chat, responses, messages string }{
		{"HTTP-05 CHAT-07 RESP-09", `"stop":["l"]`, "He", "He", "Hello"},
		{"HTTP-05 MSG-09", `"stop_sequences":["l"]`, "Hello", "Hello", "He"},
	} {
		for family, text := range map[string]string{"chat": tc.chat, "responses": tc.responses, "messages": tc.messages} {
			t.Run(tc.name+" "+tc.members+" on "+family, func(t *testing.T) {
				t.Parallel()
				for _, mode := range modes {
					sh := shapeOf(family)
					require.Equal(t, text, outcomeOf(t, sh, g.rich(t).Ask(sh, tc.members, mode.Field)).Text)
				}
			})
		}
	}
}
