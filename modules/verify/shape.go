package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/verify/wire"
)

type shape = wire.Shape

var (
	chat, responses, messages, count = wire.Chat, wire.Responses, wire.Messages, wire.Count

	shapes, posts = wire.Shapes, wire.Posts
	// lookups stands for the endpoints without a body: their errors are the chat family's.
	lookups = shape{Name: "chat"}
)

func at(v any, path ...any) any { return wire.At(v, path...) }

func str(v any) string { return wire.Str(v) }

func list(v any) []any { return wire.List(v) }

func integer(v any) (int64, bool) { return wire.Integer(v) }

func quote(s string) string { return wire.Quote(s) }

func brief(v any) string { return wire.Brief(v) }

// prompt makes every ordinary model answer with a few words.
const prompt = "Say hello in one short sentence of at least four words."

// longPrompt makes every ordinary model run into a small allowance.
const longPrompt = "Count from one to five hundred in English words, separated by commas. one, two, three, four, " +
	"five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, " +
	"nineteen, twenty"

// body is the shape's smallest request with members set as members, an object's inside, says. A later one
// replaces an earlier one.
func (t *T) body(s shape, members ...string) string {
	list := []string{
		`"model":"service/auto"`, quote(s.Input) + ":" + s.Said(prompt),
		fmt.Sprintf("%q:%d", s.Allowance, t.limits.Allowance),
	}
	return object(append(list, members...)...)
}

// object makes one object of members; a later member replaces an earlier one, for duplicates are no part of
// what is tested.
func object(members ...string) string {
	all := make(map[string]json.RawMessage)
	for _, m := range members {
		if m == "" {
			continue
		}
		if err := json.Unmarshal([]byte("{"+m+"}"), &all); err != nil {
			panic(fmt.Sprintf("verify: the members %s are no JSON: %v", m, err))
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// without is body with one member of the smallest request left out.
func (t *T) without(s shape, name string, members ...string) string {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(t.body(s)), &all); err != nil {
		panic(err) // body made it
	}
	delete(all, name)
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return object(append([]string{strings.TrimSuffix(strings.TrimPrefix(string(b), "{"), "}")}, members...)...)
}

// modes are a member of a request's body for each way to be answered.
var modes = []string{`"stream":false`, `"stream":true`}

// ask sends the shape's smallest request with more members.
func (t *T) ask(s shape, members ...string) *answer {
	return t.do(call{Path: s.Path, Body: t.body(s, members...)})
}

// ok fails the check when the answer refuses the request. Where the deployment could not serve it, for reasons
// of its own, the check is Pending.
func (t *T) ok(s shape, a *answer) map[string]any {
	if a.Status == 200 {
		if a.Cut != nil {
			t.Pendingf("%s: the reply broke off: %v", a.call, a.Cut)
		}
		return a.JSON(t)
	}
	t.unserved(s, a)
	return nil
}

// unserved ends the check by a status that is not 200.
func (t *T) unserved(s shape, a *answer) {
	code := s.Code(a.JSON(t))
	switch a.Status {
	case 402, 403, 422, 429, 502, 504:
		t.Pendingf("the deployment could not serve it: %d %s", a.Status, code)
	case 503:
		if code == "feature_unavailable" && strings.Contains(a.call.Body, `"tools"`) {
			t.Pendingf("the deployment has no route with tools")
		}
		if code == "upstream_error" {
			t.Pendingf("the deployment could not serve it: %d %s", a.Status, code)
		}
	}
	t.Fatalf("%s got %d %s: %s", a.call, a.Status, code, brief(str(at(a.JSON(t), "error", "message"))))
}

// Codes of the contract.
const (
	invalid            = "invalid_request_error"
	unsupported        = "unsupported_field"
	unsupportedContent = "unsupported_content"
	modelNotFound      = "model_not_found"
	authentication     = "authentication_error"
	featureUnavailable = "feature_unavailable"
)

// refused checks an error reply, whole: status, code, a body of exactly the shape's form, and the headers.
func (t *T) refused(s shape, a *answer, status int, code string) {
	if a.Status == 429 || a.Status == 402 {
		t.unserved(s, a)
	}
	if a.Status != status {
		t.Fatalf("%s got %d instead of %d: %s", a.call, a.Status, status, brief(string(a.Raw)))
	}
	t.errorForm(s, a, code)
	if t.True(a.Header.Get("X-Request-Id") != "", "%s: the error has no X-Request-Id", a.call); status != 401 {
		t.Equal("false", a.Header.Get("X-Should-Retry"), fmt.Sprintf("%s: x-should-retry", a.call))
	}
}

// errorForm checks an error body (ERR-01 to ERR-08).
func (t *T) errorForm(s shape, a *answer, code string) {
	message := s.RequireError(t, a.Status, a.Status, a.Header, a.Raw, code)
	t.True(!a.Leaked, "%s: the error holds the key", a.call)
	if t.own {
		if a.Status != 401 { // a key that is revoked may be replaced (GAP-119)
			t.Equal(wire.RetryHeader(a.Status, code), a.Header.Get("X-Should-Retry"), fmt.Sprintf("%s: x-should-retry", a.call))
		}
		final := a.Header.Get("X-Should-Retry") == "false"
		err := wire.CheckAdvice(message, final)
		t.True(err == nil, "%s: the message: %v", a.call, err)
	}
}

// stopEnds are the ends of a reply at a stop sequence. On messages, who found it decides between two (STOP-24).
func stopEnds(s shape) []string { return []string{s.Ended("matched"), s.Ended("natural")} }

// weather is the function that the suite declares. No argument is required, so that any call of it is good.
var weather = wire.Function{Name: "get_weather", Description: "Tells the weather in a city.",
	Schema: `{"type":"object","properties":{"city":{"type":"string"}}}`}

var toolName = weather.Name

// weatherPrompt asks for it.
const weatherPrompt = "What is the weather in Oslo? Use the tool."

// weatherTool is the member that declares it.
func weatherTool(s shape) string { return s.Tools(weather) }

// oneOf reports whether s is in list.
func oneOf(s string, list ...string) bool { return slices.Contains(list, s) }
