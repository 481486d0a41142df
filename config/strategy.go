package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// StrategyKind is how the calls of a strategy make one reply.
type StrategyKind string

const (
	Single  StrategyKind = "single"  // one route, and those that it falls back on
	Cascade StrategyKind = "cascade" // one step after the other, until a reply is accepted
	Agree   StrategyKind = "agree"   // several at once; what most of them say is the reply, otherwise another route's
	Panel   StrategyKind = "panel"   // several at once, and a judge that makes the reply of what they say
)

// strategyKinds say what each kind is made of: which attributes it needs, how many routes, and what else it takes.
var strategyKinds = []strategyKind{
	{kind: Single, routes: "steps", least: 1, most: maxParts},
	{kind: Cascade, routes: "steps", least: 2, most: maxParts, takes: []string{"validator"}},
	{kind: Agree, routes: "seats", least: 2, most: maxParts, needs: []string{"escalate"}},
	{kind: Panel, routes: "seats", least: 1, most: maxParts, needs: []string{"judge"}},
}

type strategyKind struct {
	kind        StrategyKind
	routes      string // the attribute with its routes
	least, most int    // of these
	needs       []string
	takes       []string
}

// StrategyKinds are all kinds.
func StrategyKinds() []StrategyKind {
	kinds := make([]StrategyKind, len(strategyKinds))
	for i, k := range strategyKinds {
		kinds[i] = k.kind
	}
	return kinds
}

func strategyKindNames() []string {
	names := make([]string, len(strategyKinds))
	for i, k := range strategyKinds {
		names[i] = string(k.kind)
	}
	return names
}

// maxParts is how many routes one strategy may call: all of them are held for, and none is free.
const maxParts = 8

// AnswerRoom is how many tokens of each seat's reply a judge must have room for.
const AnswerRoom = 1024

// Strategy is how several calls upstream make one reply (GAP-85).
type Strategy struct {
	Name string       `json:"name"`
	Kind StrategyKind `json:"kind"`
	// When says for which requests; nil: it competes with the routes.
	When *Condition `json:"when,omitempty"`
	// Steps are routes in order, of a single or a cascade; Seats are called at the same time, of the others.
	Steps []string `json:"steps,omitempty"`
	Seats []string `json:"seats,omitempty"`
	// Validator of a cascade is one of Validators, or the name of a route that answers yes or no.
	Validator string `json:"validator,omitempty"`
	Escalate  string `json:"escalate,omitempty"` // a route, where the seats do not agree
	Judge     string `json:"judge,omitempty"`    // a route
}

// The validators that are built in.
const (
	ValidNonEmpty      = "non_empty"      // it says something, or calls a tool
	ValidNotRefusal    = "not_refusal"    // and is no refusal
	ValidJSON          = "json"           // its text is JSON
	ValidSchema        = "schema"         // its text is JSON by the schema of the request, where that has one
	ValidToolArguments = "tool_arguments" // each tool call is of a tool of the request, by that one's schema
)

// Validators are the names of those that are built in.
func Validators() []string {
	return []string{ValidNonEmpty, ValidNotRefusal, ValidJSON, ValidSchema, ValidToolArguments}
}

// strategies decodes the strategies, behind the routes, of which they are made.
func (l *loader) strategies(file *section) {
	routes := make(map[string]*Route)
	for i := range l.config.Routes {
		routes[l.config.Routes[i].Name] = &l.config.Routes[i]
	}
	taken := make(map[string]hcl.Range)
	for _, block := range file.blocks["strategy"] {
		var st Strategy
		var ok bool
		if st.Name, ok = file.label(block, taken); ok && routes[st.Name] != nil {
			l.fail(block.LabelRanges[0], fmt.Sprintf("%q is a route, too", st.Name),
				"What a reply went through is told by its name. Give the strategy another one.")
		}
		s := l.open(block, &strategyGrammar)
		p := strategyParts{section: s, strategy: &st, routes: routes}
		p.read()
		l.config.Strategies = append(l.config.Strategies, st)
	}
}

// strategyParts reads the parts of one strategy.
type strategyParts struct {
	*section
	strategy *Strategy
	routes   map[string]*Route
}

func (p *strategyParts) read() {
	st := p.strategy
	var kind string
	p.oneOf("kind", &kind)
	st.Kind = StrategyKind(kind)
	st.When = p.condition("when")
	at := slices.IndexFunc(strategyKinds, func(k strategyKind) bool { return k.kind == st.Kind })
	if at < 0 {
		return // what is missing or wrong is reported
	}
	k := strategyKinds[at]
	routes := &st.Steps
	if k.routes == "seats" {
		routes = &st.Seats
	}
	p.list(k.routes, func(element value) {
		if name, ok := p.route(element); ok {
			*routes = append(*routes, name)
		}
	})
	switch attr := p.attributes[k.routes]; {
	case attr == nil:
		p.fail(p.header, "Missing "+k.routes, fmt.Sprintf("The kind %q needs them, for example: %s = %s", kind, k.routes,
			p.grammar.rule(k.routes).example))
	case len(*routes) < k.least || len(*routes) > k.most:
		if !p.diags.HasErrors() {
			p.fail(attr.Expr.Range(), "Invalid "+k.routes,
				fmt.Sprintf("The kind %q has %d to %d of them.", kind, k.least, k.most))
		}
	}
	for _, name := range k.needs {
		if p.attributes[name] == nil {
			p.fail(p.header, "Missing "+name, fmt.Sprintf("The kind %q needs it, for example: %s = %s", kind, name,
				p.grammar.rule(name).example))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.attributes)) {
		if name != "kind" && name != "when" && name != k.routes && !slices.Contains(k.needs, name) &&
			!slices.Contains(k.takes, name) {
			p.fail(p.attributes[name].NameRange, fmt.Sprintf("%s with kind %q", name, kind), fmt.Sprintf("It has %s. "+
				"Remove the line, or choose another kind.", enumerate(append(append([]string{k.routes}, k.needs...), k.takes...))))
		}
	}
	p.single("escalate", &st.Escalate)
	p.single("judge", &st.Judge)
	p.validator()
	p.fits("judge", st.Judge, len(st.Seats))
}

// single reads an attribute with the name of one route.
func (p *strategyParts) single(name string, target *string) {
	if v, ok := p.section.read(name); ok {
		*target, _ = p.route(v)
	}
}

// route reads the name of a route.
func (p *strategyParts) route(v value) (string, bool) {
	var name string
	if !p.asText(v, p.grammar.rule("judge").kind.bytes, &name) {
		return "", false
	}
	if p.routes[name] != nil {
		return name, true
	}
	detail := "No route block has this name. "
	switch {
	case v.outside:
		detail += "The value came from env or file and is not shown."
	case name == p.strategy.Name:
		p.fail(v.at, fmt.Sprintf("Strategy %q names itself", name), "It is made of routes. Name the route that is meant.")
		return "", false
	default:
		detail += suggestion(name, slices.Sorted(maps.Keys(p.routes)), "route")
	}
	p.fail(v.at, "Unknown route", detail)
	return "", false
}

// validator reads what accepts the replies of a cascade.
func (p *strategyParts) validator() {
	st := p.strategy
	if st.Kind != Cascade {
		return
	}
	st.Validator = ValidNonEmpty
	v, ok := p.section.read("validator")
	if !ok {
		return
	}
	if v.Type() == cty.String && slices.Contains(Validators(), v.AsString()) {
		st.Validator = v.AsString()
		return
	}
	var name string
	if !p.asText(v, p.grammar.rule("validator").kind.bytes, &name) {
		return
	}
	if p.routes[name] == nil {
		detail := "It is one of " + enumerate(Validators()) + ", or the name of a route that answers yes or no."
		if near := Nearest(name, append(Validators(), slices.Sorted(maps.Keys(p.routes))...)); near != "" && !v.outside {
			detail += fmt.Sprintf(" Did you mean %q?", near)
		}
		p.fail(v.at, "Unknown validator", detail)
		return
	}
	st.Validator = name
	p.fits("validator", name, 1)
}

// fits checks that a route which reads replies of others has room for them.
func (p *strategyParts) fits(name, route string, replies int) {
	r := p.routes[route]
	if r == nil || p.attributes[name] == nil || r.ContextWindow == 0 {
		return
	}
	at := p.attributes[name].Expr.Range()
	if need := int64(replies+2) * AnswerRoom; r.ContextWindow < need {
		p.fail(at, fmt.Sprintf("Route %q cannot fit", route), fmt.Sprintf("It reads %s beside the request, and its "+
			"context_window of %d tokens is under %d. Name a route with a larger one.", counted(replies), r.ContextWindow, need))
		return
	}
	for _, other := range p.strategy.Routes() {
		if o := p.routes[other]; o != nil && r.ContextWindow < o.ContextWindow {
			p.warn(at, fmt.Sprintf("Route %q has a smaller window than route %q", route, other), "Requests that fit the one "+
				"and, with replies to read, not the other are answered without the strategy.")
			return
		}
	}
}

func counted(replies int) string {
	if replies == 1 {
		return "one reply"
	}
	return fmt.Sprintf("%d replies", replies)
}

// Routes are the steps or the seats.
func (s *Strategy) Routes() []string {
	if len(s.Seats) > 0 {
		return s.Seats
	}
	return s.Steps
}

// IsRoute reports whether the validator is a route.
func (s *Strategy) IsRoute() bool {
	return s.Validator != "" && !slices.Contains(Validators(), s.Validator)
}

// Parts are the routes that the strategy can call, each once.
func (s *Strategy) Parts() []string {
	all := slices.Clone(s.Routes())
	for _, name := range []string{s.Escalate, s.Judge} {
		if name != "" {
			all = append(all, name)
		}
	}
	if s.IsRoute() {
		all = append(all, s.Validator)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// String is the strategy in a line, for people.
func (s *Strategy) String() string {
	text := string(s.Kind) + " of " + strings.Join(s.Routes(), ", ")
	switch {
	case s.Validator != "":
		text += "; accepted by " + s.Validator
	case s.Escalate != "":
		text += "; otherwise " + s.Escalate
	case s.Judge != "":
		text += "; judged by " + s.Judge
	}
	return text
}
