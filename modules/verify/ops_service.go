package verify

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// opsServiceChecks are about what the service is, whatever is asked of it.
func opsServiceChecks() []opsCheck {
	return []opsCheck{
		{"MODEL-03", "the largest window of three routes", profileGate, func(o *ops) { o.requireWindow(standardWindow) }},
		{"MODEL-03", "the largest window of two others", windowGate, func(o *ops) { o.requireWindow(wideWindow) }},
		onEach("MODEL-07 MODEL-11 MODEL-13 MODEL-15 HTTP-10", "names that are accepted, and echoed", standardGate,
			requireEchoed),
		{"MODEL-11", "names that the token count accepts", standardGate, requireCounted},
		{"MODEL-19 MODEL-20", "an unknown model with a balance of 0", standardGate, requireUnknownFirst},
		{"EP-09 EP-10 EP-11", "only service/auto is looked up (GAP-06)", standardGate, requireLookups},
		onEach("GEN-10 RESP-04 STATE-07", "a second request knows nothing of the first", standardGate, requireNoState),
		onEach("GEN-11 CHAT-03 RESP-04 RESP-06", "a conversation of ten turns arrives whole", standardGate,
			requireWholeHistory),
		onEach("GEN-18", "the service assigns ids", standardGate, requireOwnIDs),
		onEach("GEN-19", "the id finds the record", standardGate, requireRecords),
		onEach("HTTP-06 HTTP-07", "headers change nothing, and are not forwarded", profileGate, requireHeadersKept),
	}
}

func (o *ops) requireWindow(tokens int64) {
	for _, path := range []string{"/v1/models/service/auto", "/models/service/auto", "/models/service%2Fauto"} {
		n, _ := integer(o.ok(lookups, o.do(call{Path: path}))["context_length"])
		o.Equal(tokens, n, "context_length at "+path)
	}
}

// acceptedNames (E30, GAP-10) are the names of the service, and what coding agents and client libraries send on their
// own.
var acceptedNames = append([]string{"service/auto", "auto", "service/budget", "service/balanced", "service/max",
	"claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2", "claude-opus-4-7", "claude-sonnet-4-5",
	"gpt-6-astra", "gpt-6.1-terra", "gpt-6-sol", "gpt-6-luna", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.5", "gpt-5.4-nano",
	"gpt-5.1-codex-max", "codex-mini-latest", "codex-auto-review", "gpt-daybreak-blue-latest", "gpt-daybreak-red-latest"},
	agentNames...)

func requireEchoed(o *ops, s shape) {
	for i, name := range acceptedNames {
		a := o.do(call{Path: s.Path, Body: o.body(s, `"model":`+quote(name), modes[i%2]), Header: asProfile("budget")})
		o.Equal(name, s.OutcomeOf(o, a.Status, a.Header, a.Raw).Model, "the model of the reply")
		o.True(!strings.Contains(string(a.Raw), "standard"), "the reply names the upstream's model: %s",
			brief(string(a.Raw)))
	}
}

func requireCounted(o *ops) {
	for _, name := range acceptedNames {
		o.count(`"model":` + quote(name))
	}
}

func requireUnknownFirst(o *ops) {
	broke := o.customer(0)
	for _, s := range posts {
		for _, name := range []string{"service/turbo", "Service/Auto", " service/auto", "service/auto ", "service/atuo",
			"openrouter/auto", "anthropic/claude-x", "standard", "gpt-4o-typo", "claude", "AUTO", "service/", "service"} {
			for _, c := range []*ops{o, broke} {
				c.refusedFree(s, 404, modelNotFound, `"model":`+quote(name))
			}
		}
	}
}

func requireLookups(o *ops) {
	names := append([]string{"gpt-4o", "nope", "Service/Auto", "service/atuo", "openrouter/auto", "7", "service"},
		acceptedNames[1:]...)
	for _, root := range []string{"/v1/models/", "/models/"} {
		for _, name := range names {
			o.refused(lookups, o.do(call{Path: root + strings.ReplaceAll(name, "/", "%2F")}), 404, modelNotFound)
		}
		for _, name := range []string{"service/auto", "service%2Fauto"} {
			o.ok(lookups, o.do(call{Path: root + name}))
		}
		o.refused(lookups, o.do(call{Path: root}), 404, invalid)
	}
}

// requireNoState: what the route gets of a second request has nothing of the first.
func requireNoState(o *ops, s shape) {
	first := o.ok(s, o.ask(s, quote(s.Input)+":"+s.Said("My name is Ada.")))
	o.ok(s, o.ask(s, quote(s.Input)+":"+s.Said("What is my name?")))
	o.Equal(any([]any{map[string]any{"role": "user", "content": "What is my name?"}}), o.sentBody()["messages"],
		"what the route got")
	path := s.Path + "/" + str(first["id"])
	for _, c := range []call{{Path: path}, {Method: "DELETE", Path: path}, {Method: "POST", Path: path + "/cancel"}} {
		o.refused(s, o.do(c), 404, s.UnknownPath())
	}
}

func requireWholeHistory(o *ops, s shape) {
	turns := [][2]string{{"system", "Be brief."}}
	if s.Name != "messages" {
		turns = append(turns, [2]string{"developer", "And kind."})
	}
	for i := range 10 {
		turns = append(turns, [2]string{[]string{"user", "assistant"}[i%2], fmt.Sprintf("turn %d \"é\" 日本 \n", i)})
	}
	turns = append(turns, [2]string{"user", "Last."})
	var sent, want []string
	for _, turn := range turns {
		role := strings.Replace(turn[0], "developer", "system", 1)
		sent = append(sent, fmt.Sprintf(`{"role":%q,"content":%s}`, turn[0], quote(turn[1])))
		want = append(want, role+": "+turn[1])
	}
	for _, mode := range modes {
		o.Equal(200, o.ask(s, quote(s.Input)+":["+strings.Join(sent, ",")+"]", mode).Status, "the status")
		var got []string
		for _, m := range o.sent().Messages {
			got = append(got, m.Role+": "+m.Text)
		}
		o.Equal(want, got, "what the route got")
	}
}

func requireOwnIDs(o *ops, s shape) {
	const chosen = "req_00000000000000000000000000000000"
	seen := map[string]bool{chosen: true}
	for _, key := range []string{o.key, o.key, "wrong"} {
		a := o.do(call{Path: s.Path, Body: o.body(s), Header: http.Header{"X-Request-Id": {chosen},
			"Authorization": {"Bearer " + key}}})
		ids := a.Header.Values("X-Request-Id")
		o.True(len(ids) == 1 && !seen[ids[0]], "the ids are %q", ids)
		seen[ids[0]] = true
		if s.Name == "messages" {
			o.Equal(ids[0], a.Header.Get("Request-Id"), "Request-Id")
		}
	}
	o.Equal(0, len(o.logged(chosen)), "the number of lines of log with the client's id")
	for _, r := range o.calls() {
		o.Equal("", r.Header.Get("X-Request-Id"), "the route's X-Request-Id")
	}
}

// requireRecords looks at the records of a reply, of a refusal and of a stream that fails.
func requireRecords(o *ops, s shape) {
	for _, tc := range []struct {
		reply          upstream.Reply
		mode           string
		status         int
		reason         string
		microcents     float64
		recordedStatus float64
	}{
		{hello, modes[0], 200, "ok", helloCost, 200},
		{upstream.Refuse(upstream.ServerError()), modes[0], 502, "upstream", 0, 502},
		{upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Fail(upstream.ServerError())}}, modes[1], 200,
			"upstream", 0, 200},
	} {
		o.answers(tc.reply)
		a := o.ask(s, tc.mode)
		o.Equal(tc.status, a.Status, "the status")
		r := o.record(a)
		o.Equal(s.Name, str(r["endpoint"]), "the endpoint of the record")
		o.Equal(o.account.Name, str(r["account"]), "the account of the record")
		o.Equal(tc.reason, str(r["reason"]), "the reason of the record")
		o.Equal(any(tc.microcents), r["microcents"], "the charge of the record")
		o.Equal(any(tc.recordedStatus), r["status"], "the status of the record")
	}
}

// requireHeadersKept sends every header that clients of the families are known to send (VER-12, GAP-20).
func requireHeadersKept(o *ops, s shape) {
	plain := o.ask(s)
	want, route := s.OutcomeOf(o, plain.Status, plain.Header, plain.Raw), o.sent()
	heads := http.Header{}
	for _, name := range []string{"X-Source", "Http-Referer", "X-Title", "Anthropic-Version", "Anthropic-Beta",
		"Openai-Organization", "Openai-Beta", "Openai-Project", "X-Session-Id", "Idempotency-Key", "User-Agent",
		"X-Stainless-Lang"} {
		heads.Set(name, "tell-"+strings.ToLower(name))
	}
	for range 2 { // nothing is replayed by key: every POST is its own charged request (GAP-86)
		before := o.balance().net()
		a := o.do(call{Path: s.Path, Body: o.body(s), Header: heads})
		o.Equal(want, s.OutcomeOf(o, a.Status, a.Header, a.Raw), "the reply")
		o.True(o.balance().net() < before, "the request was not charged")
	}
	got := o.sent()
	o.Equal(route.Model, got.Model, "the route")
	o.Equal(route.Header["Content-Type"], got.Header["Content-Type"], "the route's Content-Type")
	for name, values := range got.Header {
		o.True(!strings.Contains(strings.Join(values, " "), "tell-"), "the route got %s: %q", name, values)
	}
	for name := range heads {
		o.True(name == "User-Agent" || got.Header[name] == nil, "the route got %s", name)
	}
	o.True(!strings.Contains(string(got.Body), "tell-"), "the route got a header's value in the body")
}
