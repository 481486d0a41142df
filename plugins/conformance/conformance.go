// Package conformance states what the gateway relies on in a provider, rule by rule, and checks it on a provider in
// any language, over the protocol that the gateway speaks. `fareway gateway plugin test` runs it on a program, and
// package providertest in a Go test.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// Options say how to use the provider under test.
type Options struct {
	// Command starts the provider's program. Without it Dial is needed, and the rules about processes do not apply.
	Command []string
	// Env is what its environment has beside what the gateway gives to every provider.
	Env []string
	// Dial connects to a new provider that is served in this process; stop ends it.
	Dial func(ctx context.Context) (conn grpc.ClientConnInterface, stop func() error, err error)
	// Settings are valid settings, with which the provider can answer Request. nil: none.
	Settings settings.Values
	// Request is answered by some text. nil: a short greeting to the model "test-model".
	Request *llm.Request
	// NoUsage is for an upstream that never reports usage.
	NoUsage bool
	// Limit is how long the provider may take for what it should do at once. 0: DefaultLimit.
	Limit time.Duration
	// Only are the ids of the rules to check, with those that they build on. None: all.
	Only []string

	ending time.Duration // how long an end may take; 0: Limit
	alone  bool          // without the rules that Only's build on
}

// DefaultLimit is also the gateway's default for the start of a provider.
const DefaultLimit = 10 * time.Second

// Outcome is how a check ended.
type Outcome string

const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip" // the rule does not apply, or what it builds on is broken
)

// Result is one rule, checked.
type Result struct {
	Rule    string  `json:"rule"`    // its id, which stays
	Text    string  `json:"text"`    // what it says
	Outcome Outcome `json:"outcome"` // pass, fail or skip
	// Problem is what was seen, or why the rule was skipped.
	Problem string `json:"problem,omitempty"`
	// Advice is what to do about a problem.
	Advice string `json:"advice,omitempty"`
}

// rule is one thing that the gateway relies on.
type rule struct {
	id, text, advice string
	process          bool   // only a program can break it
	after            string // the rule that must hold for this one to be checked
	check            func(ctx context.Context, s *suite) error
}

// inapplicable is the error of a check that has nothing to look at.
type inapplicable string

func (e inapplicable) Error() string { return string(e) }

// Document is the protocol that the rules are about: provider.proto, the specification.
func Document() string { return proto.Document }

// RuleIDs lists the rules, in the order of their checks.
func RuleIDs() []string {
	var ids []string
	for _, r := range rules() {
		ids = append(ids, r.id)
	}
	return ids
}

// Check checks a provider by every rule and tells each result as it comes; false ends it. The error says that it could
// not begin.
func Check(ctx context.Context, o Options, each func(Result) bool) error {
	s, wanted, err := prepare(o)
	if err != nil {
		return err
	}
	defer s.close()
	broken, skipped := make(map[string]bool), make(map[string]string)
	for _, r := range rules() {
		if !wanted[r.id] || r.process && len(s.o.Command) == 0 {
			continue
		}
		result := Result{Rule: r.id, Text: strings.ReplaceAll(r.text, "LIMIT", s.o.Limit.String()), Outcome: Pass}
		if broken[r.after] {
			result.Outcome, result.Problem = Skip, fmt.Sprintf("it builds on the rule %s", r.after)
		} else if why := skipped[r.after]; why != "" {
			result.Outcome, result.Problem = Skip, why
		} else if err := r.check(ctx, s); err != nil {
			result.Outcome, result.Problem, result.Advice = Fail, err.Error(), r.advice
			if _, ok := errors.AsType[inapplicable](err); ok {
				result.Outcome, result.Advice = Skip, ""
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if result.Outcome == Skip {
			skipped[r.id] = result.Problem
		}
		broken[r.id] = result.Outcome == Fail || broken[r.after]
		if !each(result) {
			return nil
		}
	}
	return nil
}

func prepare(o Options) (*suite, map[string]bool, error) {
	if len(o.Command) == 0 && o.Dial == nil {
		return nil, nil, errors.New("checking a provider: name its program")
	}
	wanted := make(map[string]bool)
	all := rules()
	ids := o.Only
	if len(ids) == 0 {
		ids = RuleIDs()
	}
	for _, id := range ids {
		i := slices.IndexFunc(all, func(r rule) bool { return r.id == id })
		if i < 0 {
			return nil, nil, fmt.Errorf("there is no rule %q: there are %s", id, strings.Join(RuleIDs(), ", "))
		}
		if o.alone {
			wanted[id] = true
			continue
		}
		for ; i >= 0; i = slices.IndexFunc(all, func(r rule) bool { return r.id == all[i].after }) {
			wanted[all[i].id] = true
		}
	}
	o.Limit = cmp.Or(o.Limit, DefaultLimit)
	o.ending = cmp.Or(o.ending, o.Limit)
	if o.Settings == nil {
		o.Settings = settings.Values("{}")
	}
	if o.Request == nil {
		o.Request = &llm.Request{
			Model: "test-model", MaxTokens: 100,
			Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Hello, how are you?")}}},
		}
	}
	return &suite{o: o}, wanted, nil
}
