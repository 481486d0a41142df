// Package decisions remembers for some time how requests were routed: numbers that stand for each request, never its
// text, and what became of it. With them its choice can be explained, and made again by another configuration
// (Replay). It is for the engine.
//
// It is no ledger, and in a file of its own beside it: records are written behind the requests, some hundred in one
// row, the last seconds of them may be lost in a crash, and what cannot be written is dropped. No request and no
// settlement ever waits for it.
package decisions

import (
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/llm"
)

// ConfigDigits is how many hex digits of a configuration's hash are kept.
const ConfigDigits = 12

// Record is what is kept of a request.
type Record struct {
	ID                      string
	Account, Plan           string // the account's id, and the plan that it was on
	Endpoint, Profile       string
	Config                  string // the beginning of the configuration's hash
	Begun, Ended            time.Time
	InputTokens, InputBound int64 // as it was routed by, and as it was held for
	Allowance               int64 // given by the client, 0 for none
	Needs                   routing.Needs
	Graphics                bool
	Requires                config.Requires // of its account and plan then
	Traits                  routing.Traits

	// Conversation is the zero Key where none is known. Past is what was remembered of it, nil for nothing.
	Conversation affinity.Key
	Past         *routing.Past

	// Choice is the route that was planned first, "" where none could be, and Stay why for the conversation's sake.
	Choice string
	Stay   routing.Stay
	// Stood is how routes stood at that moment that were not to be called, or only where no other was left; Full are
	// those that took no more when they were asked, and LeftOut those that the account or its key did not cover
	// (GAP-137).
	Stood   []Stood
	Full    []string
	LeftOut []string
	// Waited is how long it waited for a route that said when it is back (GAP-139), to the millisecond.
	Waited time.Duration

	// Refused is the code of the refusal of a request that was not admitted.
	Refused  string
	Status   int
	Reason   string
	Attempts []Attempt
	// Charge and Cost are what it was charged and what it cost the operator, in microcents, as far as that was proven
	// when it was settled; a receipt may have added to it (Pending).
	Charge, Cost int64
	Free         bool
	Pending      bool
	// Shadow is the call that was compared with it, nil for none.
	Shadow *Shadow
}

// Shadow is a call for comparison, beside what it is compared with.
type Shadow struct {
	Route  string
	Result string // "answered", the kind of the failure, or why it was not made
	Finish string // llm.FinishReason, "" where it did not answer
	Usage  Usage
	Cost   int64 // to the operator, in microcents
	Took   time.Duration
	First  time.Duration // to the first token, 0 where there was none
	// ReplyFinish, ReplyTook and ReplyFirst are those of the reply.
	ReplyFinish           string
	ReplyTook, ReplyFirst time.Duration
}

// Stood is how a route stood: see routing.Standing.
type Stood struct {
	Route  string
	Why    string
	Busy   bool // it wraps routing.ErrBusy, otherwise routing.ErrNotReady
	Behind bool
}

func (s *Stood) Error() string { return s.Why }

// Unwrap is of which kind it is.
func (s *Stood) Unwrap() error {
	if s.Busy {
		return routing.ErrBusy
	}
	return routing.ErrNotReady
}

// Standing says how routes stood then.
func (r *Record) Standing(route *config.Route, _ bool) routing.Standing {
	for i := range r.Stood {
		if s := &r.Stood[i]; s.Route == route.Name {
			return routing.Standing{Why: s, Behind: s.Behind}
		}
	}
	return routing.Standing{}
}

// Attempt is a call to a route.
type Attempt struct {
	Route   string
	Outcome string // ledger.Outcome, or Outrun
	Usage   Usage
}

// Usage is what an attempt is proven to have used, in tokens; Known is false where nothing is.
type Usage struct {
	Known                                bool
	Input, CacheRead, CacheWrite, Output int64
}

// UsageOf is the usage that a provider reported.
func UsageOf(u *llm.Usage) Usage {
	if !u.Known() {
		return Usage{}
	}
	return Usage{Known: true, Input: llm.Tokens(u.Input), CacheRead: llm.Tokens(u.CacheRead),
		CacheWrite: llm.Tokens(u.CacheWrite), Output: llm.Tokens(u.Output)}
}

// Prompt is the sum of the three input classes.
func (u *Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// LLM is the usage as it is charged.
func (u *Usage) LLM() llm.Usage {
	if !u.Known {
		return llm.Usage{}
	}
	return llm.Usage{Input: &u.Input, CacheRead: &u.CacheRead, CacheWrite: &u.CacheWrite, Output: &u.Output}
}

// Outrun is the outcome of an attempt that lost to one made beside it.
const Outrun = "outrun"

// Answer is the attempt that answered, the last one that is proven to have done something; nil where none is.
func (r *Record) Answer() *Attempt {
	for i := len(r.Attempts) - 1; i >= 0; i-- {
		if a := &r.Attempts[i]; a.Usage.Known && a.Outcome != Outrun {
			return a
		}
	}
	return nil
}

// On is what the request is proven to have used on a route, of several attempts the one with the smallest prompt: a
// route of a strategy may have read the replies of others beside it. nil: nothing.
func (r *Record) On(route string) (found *Usage) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Usage.Known && a.Outcome != Outrun && a.Route == route && (found == nil || a.Usage.Prompt() < found.Prompt()) {
			found = &a.Usage
		}
	}
	return found
}

// Prompt is the smallest prompt that it is proven to have had; ok is false where none is.
func (r *Record) Prompt() (tokens int64, ok bool) {
	for i := range r.Attempts {
		if u := &r.Attempts[i].Usage; u.Known && (!ok || u.Prompt() < tokens) {
			tokens, ok = u.Prompt(), true
		}
	}
	return tokens, ok
}

// Served is the route of the last attempt that did not lose to another one, "" for none.
func (r *Record) Served() string {
	for _, a := range slices.Backward(r.Attempts) {
		if a.Outcome != Outrun {
			return a.Route
		}
	}
	return ""
}

// By reports whether a configuration served then.
func (r *Record) By(cfg *config.Config) bool {
	return r.Config == cfg.Hash[:min(len(cfg.Hash), ConfigDigits)]
}

// Input is what the request asks of the routes of a configuration (see routing.Input), as they stood then. What was
// remembered of its conversation is not in it, nor the name of its account.
func (r *Record) Input(cfg *config.Config, routes []config.Route) routing.Input {
	in := routing.Input{Routes: routes, Needs: r.Needs, InputTokens: r.InputTokens, Allowance: r.Allowance,
		Graphics: r.Graphics, LongAbove: cfg.Special.LongContextAbove, Requires: r.Requires, Traits: &r.Traits,
		Standing: r.Standing, Strategies: cfg.Strategies,
		Account: config.AccountFacts{ID: r.Account, Plan: r.Plan}}
	if p := cfg.Profile(r.Profile); p != nil {
		in.Profile = *p
	}
	return in
}
