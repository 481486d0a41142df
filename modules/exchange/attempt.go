package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/telemetry"
	"github.com/fareway/fareway/modules/internal/validate"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

// maxStops is how many stop sequences are also sent to the route (STOP-22).
const maxStops = 4

// attempt is one call to one route, and what came of it.
type attempt struct {
	id        string
	route     *config.Route
	allowance int64 // tokens sent as the output limit
	extra     int64 // tokens of replies of others that it may be sent, at most
	template  int64 // tokens that its upstream adds to the prompt
	worst     int64 // the most that it can cost, in microcents

	permit         engine.RoutePermit
	running        bool // it was begun and has not ended
	made           time.Time
	firstAfter     time.Duration // how long its first token took, 0 where there was none
	took           time.Duration // how long all of it did
	live           bool          // its reply is the client's as it comes; otherwise it is kept whole
	accept         func()        // is called when it was accepted
	reply          *reply
	reader         *reader
	extraMessage   *llm.Message // is sent behind the conversation; nil for nothing
	isQuestion     bool         // it is asked for the gateway's own sake, not for a reply
	ended          *ending      // of a reply that was kept back and is whole
	states         []llm.Event  // tool calls of a reply that is kept back, with what its upstream wants back
	accepted       bool
	lost           bool            // its provider died, and can say later what became of it
	produced       bool            // something came that costs output
	pace           pace            // at which it came
	reportedModel  string          // what its upstream said that it is, "" for nothing
	span           *telemetry.Span // nil where nobody is told of it
	reported       *llm.Usage      // what the provider said of the usage
	usage          *llm.Usage      // as far as it is usage, see countedUsage
	outcome        ledger.Outcome
	refusedForTime bool          // it was refused for a time that its upstream named
	failure        failureKind   // why it did not become a reply, "" where it did or nobody knows
	unaccepted     bool          // the validator of its strategy said that its reply is not good
	upstreamID     string        // what the upstream calls the request, "" if it has no name for it
	reference      string        // what the upstream is asked by for a receipt, "" while it has not said
	key            string        // the name of the provider's key that it was made with, "" where the provider has none
	output         tokens.Output // of a stream: what the client got, and after it left what would have come
	racer          *racer        // of an attempt that another one is, or can be, made beside; nil for most
	operator       bool          // what it used is the operator's: it lost to another one
}

// candidate is what the attempt was planned as.
func (a *attempt) candidate() *routing.Candidate {
	return &routing.Candidate{Route: a.route, Allowance: a.allowance, Extra: a.extra, Template: a.template}
}

// ledgerAttempt is the attempt as the ledger records it.
func (a *attempt) ledgerAttempt(tariff *engine.Tariff) ledger.Attempt {
	return ledger.Attempt{ID: a.id, Route: a.route.Name, Provider: a.route.Provider, Model: a.route.Model,
		PriceVersion: tariff.PriceVersion(a.route.Name), Worst: a.worst}
}

// upstreamRequest is the request as the route gets it. What the contract does not say is forwarded is not in it.
func (a *attempt) upstreamRequest(req *request) *llm.Request {
	up := *req.formFor(a.route)
	up.Attempt = a.id
	up.Model = a.route.Model
	up.Unsupported = a.route.Unsupported
	up.MaxTokens, up.Window = a.allowance, a.route.ContextWindow
	up.Stop = up.Stop[:min(len(up.Stop), maxStops)]
	up.EstimateUsage = a.route.Metering == config.MeteringEstimate
	up.BillsPastAllowance = a.route.BillsPastAllowance
	up.Whole = req.wantsWhole()
	return &up
}

// noteEvent keeps what an event says of the attempt itself.
func (a *attempt) noteEvent(ev llm.Event) {
	a.span.Note(ev)
	a.reportedModel = cmp.Or(ev.Model, a.reportedModel)
	switch ev.Kind {
	case llm.EventAccepted:
		a.accepted, a.upstreamID = true, ev.ID
	case llm.EventText, llm.EventReasoning, llm.EventToolCall, llm.EventToolArguments:
		if ev.Text != "" || ev.Kind == llm.EventToolCall {
			a.produced = true
			a.pace.note(ev.Kind == llm.EventReasoning)
		}
	case llm.EventUsage:
		a.reported = a.reported.Merge(ev.Usage)
	case llm.EventFinish:
		a.upstreamID = cmp.Or(a.upstreamID, ev.ID)
	default:
		return
	}
	a.usage = a.countedUsage(a.reported)
}

// countedUsage is usage as far as it counts: once something was produced, half of it is none (GAP-111), and so are
// zeros where it has a price (GAP-108).
func (a *attempt) countedUsage(u *llm.Usage) *llm.Usage {
	if !u.Known() || a.produced && (!u.Complete() || u.Blank() && !a.route.Price.Equal(config.Price{})) {
		return nil
	}
	if u.Estimated {
		// Counted in other tokens than its upstream's, a reply can seem longer than it was allowed to be; and whoever
		// counts does not see what the upstream adds to the prompt.
		judged, most := *u, maxReply(a.route, a.allowance)
		judged.Input = addCount(u.Input, a.template)
		judged.Output, judged.Reasoning = capCount(u.Output, most), capCount(u.Reasoning, most)
		return &judged
	}
	return u
}

// flaw is what is wrong with the usage that the provider reported, "" if nothing is.
func (a *attempt) flaw() string {
	switch {
	case a.reported == nil || a.usage != nil:
		return ""
	case a.reported.Flaw != "":
		return a.reported.Flaw
	case a.reported.Complete():
		return "all its counts are 0 for a reply that is not empty"
	}
	return "the count of the input or of the output is missing"
}

// addCount is a count with more, of one that there is.
func addCount(n *int64, more int64) *int64 {
	if n == nil || more == 0 {
		return n
	}
	return new(routing.Sum(*n, more))
}

func capCount(n *int64, most int64) *int64 {
	if llm.Tokens(n) > most {
		return &most
	}
	return n
}

// proven is the usage that counts: nil where none was reported, and for numbers that cannot be priced.
func (a *attempt) proven() *llm.Usage {
	if !a.usage.Known() {
		return nil
	}
	if _, err := ledger.Cost(*a.usage, a.route.Price); err != nil {
		return nil
	}
	return a.usage
}

// matched reports whether the client has its reply up to a stop sequence.
func (a *attempt) matched() bool { return a.live && a.reply.matched() }

// isUnproven reports whether the attempt may have used something unproven: it was accepted, or nobody knows.
func (a *attempt) isUnproven() bool {
	return !a.operator && a.proven() == nil && (a.accepted || a.lost)
}

// result is what the settlement gets of the attempt. An attempt that was accepted, or whose provider died with it,
// and that proved nothing waits for a later receipt, unless the reply goes out as final (GAP-57).
func (a *attempt) result(final bool) ledger.Result {
	r := ledger.Result{Attempt: a.id, Outcome: a.outcome, Usage: a.proven(), Key: a.key, Operator: a.operator}
	if a.isUnproven() && !final {
		r.Outcome, r.Reference = ledger.Unproven, a.reference
	}
	return r
}

// failureText is why an attempt failed, for the operator: what the log says, and with which key.
func (a *attempt) failureText(f *failure) string {
	text := string(f.kind)
	if f.err != nil {
		text = f.err.Error()
	}
	if failed, ok := errors.AsType[*llm.Error](f.err); ok {
		if text = failed.Message; failed.Status != 0 {
			text += fmt.Sprintf(" (status %d)", failed.Status)
		}
	}
	if a.key != "" {
		text += "; with key " + a.key + " of provider " + a.route.Provider
	}
	return text
}

// stalledFrom is how long a route that had begun to reply must have been silent to have stalled, when its time is
// over: otherwise the reply was long, which is the client's affair.
const stalledFrom = 30 * time.Second

// healthOutcome is what a failure says of the route: only what is none of the client's doing.
func (a *attempt) healthOutcome(f *failure) health.Outcome {
	if f.kind == attemptTimeout && (!a.produced || a.permit.Silent() >= min(stalledFrom, a.route.Timeout/2)) {
		return health.Failed
	}
	if failed, ok := errors.AsType[*llm.Error](f.err); ok && failed.Unreached && f.kind == llm.ErrUpstream {
		return health.Unreached
	}
	return f.consequence().health
}

// finishReply ends the reply of an attempt.
func (a *attempt) finishReply() (ending, *failure) {
	if a.ended != nil {
		return *a.ended, nil
	}
	a.reply.fold.Close()
	return a.reply.end()
}

// finishKept ends a reply that was kept back: with what a stop sequence withheld, and with what stands in for a reply
// that a content policy ended before any text. It fails where there is nothing to show.
func (a *attempt) finishKept() *failure {
	if a.ended == nil {
		end, f := a.finishReply()
		if f != nil {
			return f
		}
		if end.rest != "" {
			a.reply.fold.Add(llm.Event{Kind: llm.EventText, Text: end.rest})
			a.reply.fold.Close()
			end.rest = ""
		}
		a.ended = &end
	}
	return nil
}

// forValidation is a whole reply as it is judged.
func (a *attempt) forValidation() *validate.Reply {
	return &validate.Reply{Text: a.reply.fold.Text(), Calls: a.reply.fold.Calls(),
		Declined: a.reply.finish == llm.FinishPolicy,
		Cut:      a.reply.finish == llm.FinishLength && !a.reply.matched()}
}
