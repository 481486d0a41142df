package exchange

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

// Structured output (STRUCT-08 to STRUCT-34; off unless the configuration says
// structured_output = true). What is asked for in JSON goes to a route in one of two forms: to a route that
// enforces schemas the schema as it was sent, to any other a wish for JSON, with the schema in the system
// instructions. The service itself enforces nothing.

const (
	// objectInstruction is added where a JSON object is asked for and nobody says JSON (STRUCT-19, GAP-77): many
	// upstreams refuse their JSON mode then.
	objectInstruction = "Respond only with a JSON object."
	// schemaInstruction comes before a schema in the instructions (STRUCT-22).
	schemaInstruction = "Respond only with JSON that matches this JSON Schema, and with nothing around it:"
)

// instruct prepares a request that asks for structured output, for all routes alike; others it leaves as they are.
func (r *request) instruct() {
	f := r.LLM.Format
	switch {
	case f == nil:
	case f.Kind == llm.FormatJSONObject:
		if !slices.ContainsFunc(r.LLM.Messages, mentionsJSON) {
			r.LLM.Messages = withInstruction(r.LLM.Messages, objectInstruction)
		}
	case f.Kind == llm.FormatJSONSchema:
		text := schemaInstruction + "\n" + string(f.Schema)
		if f.Description != "" {
			text = f.Description + "\n" + text
		}
		described := *r.LLM
		described.Messages = withInstruction(described.Messages, text)
		described.Format = &llm.Format{Kind: llm.FormatJSONObject}
		r.described = &described
	}
}

// formFor is the request in the form that a route gets it.
func (r *request) formFor(route *config.Route) *llm.Request {
	if r.described != nil && !route.JSONSchema {
		return r.described
	}
	return r.LLM
}

// How many tokens the input has, in the longer of its forms: for clients and for the fit, where it is one number,
// whichever route it will be (GAP-80); at most; and a number that this does not exceed, and that takes next to no
// time.
func (r *request) estimate() int64   { return r.longerForm(tokens.Estimate) }
func (r *request) bound() int64      { return r.longerForm(tokens.Bound) }
func (r *request) roughBound() int64 { return r.longerForm(tokens.Most) }

func (r *request) longerForm(count func(*llm.Request) int64) int64 {
	n := count(r.LLM)
	if r.described != nil {
		n = max(n, count(r.described))
	}
	return n
}

// withInstruction adds a line to the system instructions: to the last message of those that the conversation begins
// with, or as a message of its own. It leaves the messages that were given as they are.
func withInstruction(messages []llm.Message, line string) []llm.Message {
	first := slices.IndexFunc(messages, func(m llm.Message) bool { return m.Role != llm.RoleSystem })
	if first < 0 {
		first = len(messages)
	}
	if first == 0 {
		return slices.Insert(slices.Clip(messages), 0, llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text(line)}})
	}
	messages = slices.Clone(messages)
	last := &messages[first-1]
	if last.Parts = slices.Clone(last.Parts); len(last.Parts) == 0 {
		last.Parts = []llm.Part{llm.Text(line)}
		return messages
	}
	end := &last.Parts[len(last.Parts)-1] // another part would be a turn to another form where there was one text
	*end = llm.Text(end.Text.String() + "\n" + line)
	if last.Changing > 0 {
		last.Changing += 1 + uint16(strings.Count(line, "\n"))
	}
	return messages
}

// mentionsJSON reports whether a message has the word in its text, in any case (GAP-77).
func mentionsJSON(m llm.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return hasJSON(p.Text.String()) })
}

func hasJSON(text string) bool {
	const word = "json"
	for i := range max(0, len(text)-len(word)+1) {
		if text[i]|0x20 == word[0] && strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// request is a client request that passed every rule of form.
type request struct {
	*families.Request
	// described is the form for routes that do not enforce schemas, nil where all get the same (see below).
	described *llm.Request
	model     string // as sent, echoed
	profile   string // resolved
	// requires is what the account demands of routes.
	requires config.Requires
}

// wantsWhole reports whether upstreams are asked for a reply in one piece. It may lose the order of its texts and tool
// calls, and so the place of a stop sequence between them: it would end elsewhere than the same reply as a stream
// (STOP-10 to STOP-12). Where nothing is looked for, and the client sees no order, nothing is lost.
func (r *request) wantsWhole() bool {
	return !r.Stream && (len(r.LLM.Tools) == 0 || r.OneText && len(r.LLM.Stop) == 0)
}

// decode takes steps 8 to 14 of the order (see the package's doc).
func decode(r *http.Request, call *gateway.Call) (*request, *families.Error) {
	settings := &call.Work.Generation().Config.Gateway
	doc := call.Document
	if doc == nil {
		return nil, call.Misformed
	}
	model, refusal := doc.Model()
	if refusal != nil {
		return nil, refusal
	}
	modelProfile, ok := routing.Accept(settings.Namespace, settings.ClientModels, model)
	if !ok {
		return nil, modelNotFound(settings.Namespace + "/auto")
	}
	ask := routing.Ask{
		Header: r.Header[textproto.CanonicalMIMEHeaderKey("x-"+settings.Namespace+"-profile")],
		Model:  modelProfile,
	}
	// The header is judged before the fields are, though effort may still outrank the default.
	plan := engine.PlanOf(call.Work.Generation().Config, call.Principal.Account)
	fallback := plan.DefaultProfile
	if _, err := routing.Profile(ask, fallback); err != nil {
		return nil, families.Invalid(err.Error())
	}
	decoded, refusal := call.Family.Decode(doc, families.Rules{StructuredOutput: settings.StructuredOutput})
	if refusal != nil {
		return nil, refusal
	}
	affinity.Prepare(decoded.LLM)
	ask.Effort = decoded.Effort
	profile, err := routing.Profile(ask, fallback)
	if err != nil {
		return nil, families.Invalid(err.Error())
	}
	req := &request{Request: decoded, model: model, profile: profile, requires: plan.Requires}
	req.instruct()
	return req, nil
}
