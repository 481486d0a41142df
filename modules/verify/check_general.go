package verify

import (
	"net/http"
	"strings"
)

// place is an endpoint at one of its paths.
type place struct {
	method, path string
	shape        shape // of its body and of its errors
}

// places are all endpoints at all their paths (CONTRACT.md, "Paths").
var places = []place{
	{"POST", "/v1/chat/completions", chat}, {"POST", "/chat/completions", chat},
	{"POST", "/v1/responses", responses},
	{"POST", "/v1/messages", messages}, {"POST", "/messages", messages},
	{"POST", "/v1/messages/count_tokens", count}, {"POST", "/messages/count_tokens", count},
	{"GET", "/v1/models", lookups}, {"GET", "/models", lookups},
	{"GET", "/v1/models/service/auto", lookups}, {"GET", "/models/service/auto", lookups},
	{"GET", "/v1/account", lookups},
}

// call is a good request to the place.
func (p place) call(t *T, header http.Header) call {
	c := call{Method: p.method, Path: p.path, Header: header}
	if p.method == http.MethodPost {
		c.Body = t.body(p.shape)
	}
	return c
}

// visit is a good request to a place, sent once a run.
func (t *T) visit(p place) (map[string]any, *answer) {
	a := memo(t, "visit "+p.method+" "+p.path, func() *answer { return t.do(p.call(t, nil)) })
	return t.ok(p.shape, a), a
}

func placeOf(path string) place {
	for _, p := range places {
		if p.path == path {
			return p
		}
	}
	panic("verify: no such place: " + path)
}

// visits makes a check that places answer.
func visits(ids string, paths ...string) *Check {
	return check(ids, "a good request to "+strings.Join(paths, ", "), func(t *T) {
		for _, path := range paths {
			_, a := t.visit(placeOf(path))
			t.True(strings.HasPrefix(a.Header.Get("Content-Type"), "application/json"), "%s: the Content-Type is %q", a.call,
				a.Header.Get("Content-Type"))
			t.True(a.Header.Get("X-Request-Id") != "", "%s: no X-Request-Id", a.call)
			t.Equal("", a.Header.Get("X-Should-Retry"), "x-should-retry of a 200")
		}
	})
}

// notFound makes a check that paths are unknown (404, GAP-02), whatever is asked of them.
func notFound(ids string, calls ...call) *Check {
	return check(ids, "paths that there are not", func(t *T) {
		for _, c := range calls {
			a := t.do(c)
			t.True(a.Status == 404, "%s got %d instead of 404", a.call, a.Status)
			t.jsonError(a)
		}
	})
}

// jsonError checks what holds for every error: JSON, an id, no secret, no usage (ERR-01, ERR-02, BILL-32).
func (t *T) jsonError(a *answer) {
	v := a.JSON(t)
	t.True(str(at(v, "error", "message")) != "", "%s: the error has no message", a.call)
	t.True(a.Header.Get("X-Request-Id") != "", "%s: the error has no X-Request-Id", a.call)
	t.True(v["usage"] == nil, "%s: the error has a usage", a.call)
}

func generalChecks() []*Check {
	checks := []*Check{
		visits("GEN-01 GEN-03 GEN-16 EP-07", "/v1/models"),
		visits("GEN-03 GEN-16 AUTH-06 ACCT-14", "/v1/account"),
		visits("GEN-03 GEN-16 CNT-01 AUTH-09", "/v1/messages/count_tokens"),
		visits("GEN-16 VER-01 HTTP-01", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
			"/v1/models", "/v1/models/service/auto", "/v1/account"),
		visits("GEN-16 VER-02", "/chat/completions", "/messages", "/messages/count_tokens", "/models",
			"/models/service/auto"),
		notFound("GEN-01", call{Path: "/v1/v1/models"}, call{Path: "/"}),
		notFound("EP-12 ACCT-14", call{Path: "/account"}),
		notFound("GEN-10 STATE-07", call{Path: "/v1/responses/resp_1"}, call{Method: "DELETE", Path: "/v1/responses/resp_1"},
			call{Path: "/v1/responses/resp_1/cancel", Body: "{}"}, call{Path: "/v1/chat/completions/chatcmpl_1"}),
		check("EP-04 VER-03", "a good responses request to /responses", func(t *T) {
			a := t.do(call{Path: "/responses", Body: t.body(responses)})
			t.Equal(404, a.Status, "the status of POST /responses")
			t.jsonError(a)
		}),
		check("GEN-02 HTTP-11", "the form of a reply in each shape", func(t *T) {
			for _, s := range shapes {
				v, _ := t.visit(placeOf(s.Path))
				t.replyForm(s, v)
			}
		}),
		check("GEN-02", "a chat body on /v1/responses", func(t *T) {
			t.refused(responses, t.do(call{Path: responses.Path, Body: t.body(chat)}), 400, invalid)
		}),
		check("GEN-07", "service/auto everywhere", func(t *T) {
			for _, s := range posts {
				t.visit(placeOf(s.Path))
			}
			v, _ := t.visit(placeOf("/v1/models"))
			t.Equal("service/auto", str(at(v, "data", 0, "id")), "the id of the model list's entry")
		}),
		check("GEN-13", "a request for audio output", func(t *T) {
			const members = `"modalities":["audio"],"audio":{"voice":"x","format":"wav"}`
			for _, s := range shapes {
				t.replyForm(s, t.ok(s, t.ask(s, members)))
			}
		}),
		check("GEN-15 SSE-01", "Content-Types", func(t *T) {
			for _, s := range shapes {
				_, a := t.visit(placeOf(s.Path))
				t.True(strings.HasPrefix(a.Header.Get("Content-Type"), "application/json"), "%s: the Content-Type is %q", a.call,
					a.Header.Get("Content-Type"))
				t.sample(s)
				t.refused(s, t.ask(s, `"stream":true,"model":"service/nope"`), 404, modelNotFound)
			}
		}),
		check("GEN-16", "the request id of a stream", func(t *T) {
			for _, s := range shapes {
				t.True(t.sample(s).Header.Get("X-Request-Id") != "", "a stream in the %s shape has no X-Request-Id", s.Name)
			}
		}),
		check("GEN-17", "the request id of errors", func(t *T) {
			nobody := http.Header{"Authorization": nil}
			for status, c := range map[int]call{
				400: {Path: chat.Path, Body: "{"}, 401: {Path: "/v1/account", Header: nobody}, 404: {Path: "/v1/nothing"},
				405: {Method: "PUT", Path: "/v1/models"},
			} {
				a := t.do(c)
				t.Equal(status, a.Status, "the status of "+c.String())
				t.jsonError(a)
			}
			t.Notef("checked on 400, 401, 404 and 405")
		}),
		check("GEN-18", "a request id that the client chose", func(t *T) {
			const sent = "req_00000000000000000000000000000000"
			seen := map[string]bool{sent: true}
			for _, key := range []string{"Bearer " + t.key, "Bearer " + t.key, "Bearer wrong"} {
				a := t.do(call{Path: "/v1/account", Header: http.Header{"X-Request-Id": {sent}, "Authorization": {key}}})
				id := a.Header.Get("X-Request-Id")
				t.True(id != "" && !seen[id], "the id %q was used before", id)
				seen[id] = true
			}
		}),
		check("GEN-20", "x-should-retry", func(t *T) {
			t.Equal("", t.sample(chat).Header.Get("X-Should-Retry"), "x-should-retry of a stream")
			for range 2 {
				t.refused(chat, t.ask(chat, `"n":2`), 400, unsupported)
				t.refused(chat, t.ask(chat, `"model":"service/nope"`), 404, modelNotFound)
				t.refused(chat, t.ask(chat, `"max_tokens":1000000000`), 503, featureUnavailable)
			}
			t.Notef("checked on 200, 400, 404 and 503")
		}),
	}
	return checks
}

// sample is the shape's smallest request, streamed, sent once a run.
func (t *T) sample(s shape) *stream {
	return memo(t, "sample "+s.Name, func() *stream { return t.stream(s, includeUsage(s)) })
}

// replyForm checks that a JSON reply has the members that the family's libraries need (GAP-12), and that its
// content is text and tool calls only.
func (t *T) replyForm(s shape, v map[string]any) {
	has := func(v any, what string, names ...string) {
		m, ok := v.(map[string]any)
		t.True(ok, "%s is %s instead of an object", what, brief(v))
		for _, name := range names {
			_, ok := m[name]
			t.True(ok, "%s has no %s", what, name)
		}
	}
	switch s.Name {
	case "chat":
		has(v, "the reply", "id", "object", "created", "model", "choices", "usage")
		t.Equal("chat.completion", str(v["object"]), "object")
		t.Equal(1, len(list(v["choices"])), "the number of choices")
		has(at(v, "choices", 0), "the choice", "index", "message", "finish_reason")
		has(at(v, "choices", 0, "message"), "the message", "role", "content")
		t.Equal("assistant", str(at(v, "choices", 0, "message", "role")), "the role")
		t.True(at(v, "choices", 0, "message", "audio") == nil, "the message has audio")
	case "responses":
		has(v, "the reply", "id", "object", "created_at", "status", "error", "incomplete_details", "model", "output",
			"parallel_tool_calls", "tool_choice", "tools", "usage")
		t.Equal("response", str(v["object"]), "object")
		for _, item := range list(v["output"]) {
			t.True(oneOf(str(at(item, "type")), "message", "function_call", "reasoning"), "the reply has an item of type %q",
				at(item, "type"))
			for _, part := range list(at(item, "content")) {
				t.True(oneOf(str(at(part, "type")), "output_text", "reasoning_text"), "the reply has a part of type %q",
					at(part, "type"))
			}
		}
	default:
		has(v, "the reply", "id", "type", "role", "content", "model", "stop_reason", "stop_sequence", "usage")
		t.Equal("message", str(v["type"]), "type")
		t.Equal("assistant", str(v["role"]), "the role")
		for _, block := range list(v["content"]) {
			t.True(oneOf(str(at(block, "type")), "text", "tool_use"), "the reply has a block of type %q", at(block, "type"))
			t.True(at(block, "type") == "text" || at(block, "caller", "type") == "direct",
				"the caller of a tool_use block is %s", brief(at(block, "caller")))
		}
	}
	has(v["usage"], "usage", s.Tokens...)
	t.True(s.Text(v) != "" || len(s.Calls(v)) > 0, "the reply has neither text nor calls")
}
