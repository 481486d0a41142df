package exchange

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/config/rules"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/policy"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// screeningCost is what each screened request costs in enforcing mode, in microcents (BILL-30).
const screeningCost = 1_350

// blockedText is what a client is told whose request the screening refused (POL-01, GAP-95).
const blockedText = "The request was blocked by a content filter."

// hasGate reports whether something stands between the request's hold and its first attempt. Then the hold is placed
// without one.
func (x *exchange) hasGate() bool { return x.gen.Config.Screening.On() || x.isCacheable() }

// worstOfAll is the most that the request can come to: the screening, and the routes of the itinerary (GAP-49).
func (x *exchange) worstOfAll() routing.Worst { return x.withScreening(x.plan.Worst(x.worst)) }

// worstOfFirst is the most that its first choice can come to, with the screening: what must be covered (GAP-137).
func (x *exchange) worstOfFirst() routing.Worst {
	return x.withScreening(x.plan.Start().Worst(x.worst))
}

// withScreening adds the screening to what calls can come to.
func (x *exchange) withScreening(w routing.Worst) routing.Worst {
	if x.gen.Config.Screening.Mode == config.ScreeningEnforce {
		w = w.And(routing.Worst{Microcents: screeningCost})
	}
	return w
}

// passGate takes steps 18 and 19: the response cache and the screening. It is done when the request is answered, or
// refused.
func (x *exchange) passGate() (done bool, refusal *families.Error) {
	reply, hit := x.findCached()
	if refusal := x.screen(); refusal != nil {
		return true, refusal
	}
	switch {
	case hit:
		return true, x.answerCached(reply)
	case x.clientLeft():
		return true, x.abandon()
	}
	permit, err := x.acquireRoute()
	if err != nil {
		refusal := noneReady()
		if errors.Is(err, routing.ErrBusy) {
			refusal = routesFull()
		}
		return true, x.settleRefusal(ledger.Settlement{Reason: string(llm.ErrCapacity)}, refusal)
	}
	x.engine.Requested()
	c := routing.Opening(x.plan)
	if f := x.beginAttempt(c, permit); f != nil {
		return true, x.failUnattempted(f)
	}
	x.ready = c
	return false, nil
}

// screen refuses what the content policy does not let through. The hold is settled then.
func (x *exchange) screen() *families.Error {
	s := &x.gen.Config.Screening
	if !s.On() {
		return nil
	}
	enforced := s.Mode == config.ScreeningEnforce
	found, unsearched := x.findRules(s) // that it panics is a failure of the service, and free
	x.found = found
	for _, h := range x.found {
		x.engine.Metrics().RuleFound(h.Rule, h.Category, string(h.Action))
	}
	var unjudged error
	if s.Provider != "" && !(enforced && (unsearched != nil || rules.Blocks(x.found))) {
		unjudged = x.judgeByProvider(s)
	}
	verdict := engine.ScreenedPassed
	switch {
	case unjudged != nil, unsearched != nil && !rules.Blocks(x.found):
		verdict = engine.ScreenedNot
	case rules.Blocks(x.found):
		verdict = engine.ScreenedBlocked
	case len(x.found) > 0:
		verdict = engine.ScreenedFlagged
	}
	x.engine.Metrics().Screened(string(s.Mode), verdict)
	switch {
	case !enforced:
		return nil
	case verdict == engine.ScreenedNot && unsearched != nil: // on_error is about the provider: nothing gets past the rules
		return x.refuseUnsearched(unsearched)
	case unjudged != nil:
		return x.refuseUnscreened(s, unjudged)
	}
	x.surcharge = screeningCost
	if verdict != engine.ScreenedBlocked {
		return nil
	}
	return x.settleRefusal(ledger.Settlement{Reason: engine.Screened}, &families.Error{Status: http.StatusBadRequest,
		Code: families.InvalidRequest, Message: blockedText})
}

// errMuchText says that a request has more text than the provider that screens is sent.
var errMuchText = errors.New("it has more text than max_text in the screening block")

// judgeByProvider has the provider that screens judge the request, and notes its verdict. The error says that there is
// none.
func (x *exchange) judgeByProvider(s *config.Screening) error {
	begun := time.Now()
	found := rules.Hit{Rule: "provider " + s.Provider}
	texts, ok := policy.Texts(x.req.LLM, s.MaxText)
	err := errMuchText
	if ok {
		var verdict llm.Verdict
		verdict, err = x.askProvider(texts)
		found.Category, found.Action = strings.Join(verdict.Categories, " "), rules.Action(verdict.Action)
	}
	switch {
	case err == nil:
	case errors.Is(err, errMuchText):
		found.Action = engine.JudgedTooLarge
	case errors.Is(err, engine.ErrScreeningLate):
		found.Action = engine.JudgedLate
	case x.clientLeft() || x.ctx.Err() != nil:
		return err // it is not the provider's doing
	default:
		found.Action = engine.JudgedFailed
	}
	x.engine.Metrics().Judged(s.Provider, string(found.Action), time.Since(begun))
	if found.Action != rules.Action(llm.VerdictAllow) {
		x.found = append(x.found, found)
	}
	if err != nil {
		x.engine.Logger().Warn("a request was not screened", "request_id", x.call.ID, "provider", s.Provider,
			"mode", s.Mode, "on_error", s.OnError, "error", err)
	}
	return err
}

// askProvider asks the provider that screens, for as long as somebody waits.
func (x *exchange) askProvider(texts []llm.ScreenText) (llm.Verdict, error) {
	if len(texts) == 0 {
		return llm.Verdict{Action: llm.VerdictAllow}, nil
	}
	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	defer context.AfterFunc(x.request.Context(), cancel)()
	return x.gen.Screen(ctx, texts)
}

// refuseUnscreened is what comes of a request that nobody has judged, where that is enforced: nothing is charged for
// it.
func (x *exchange) refuseUnscreened(s *config.Screening, why error) *families.Error {
	switch {
	case x.clientLeft():
		return nil // its caller sees that
	case x.ctx.Err() != nil:
		return x.failUnattempted(interrupted(x.ctx))
	case s.OnError == config.OnErrorAllow:
		return nil
	case errors.Is(why, errMuchText):
		return x.refuseUnsearched(why)
	}
	return x.settleRefusal(unscreenedEnd, gateway.InternalError())
}

// unscreenedEnd settles a request that nobody has judged.
var unscreenedEnd = ledger.Settlement{Reason: "screener", Free: true}

var (
	// errMuchWork says that patterns would take too long in the text of a request.
	errMuchWork = errors.New("its patterns would take too long; give those without a fixed part one, or set max_body " +
		"lower")
	// errNoMemory says that the memory for screening a request is not there.
	errNoMemory = errors.New("bodies and their screening take all of max_body_memory")
)

// refuseUnsearched refuses a request that the rules could not be looked for in: nothing is charged for it.
func (x *exchange) refuseUnsearched(why error) *families.Error {
	if errors.Is(why, errNoMemory) {
		return x.settleRefusal(unscreenedEnd, gateway.Overloaded())
	}
	return x.settleRefusal(unscreenedEnd, &families.Error{Status: http.StatusRequestEntityTooLarge,
		Code: families.InvalidRequest, Message: "The request has more text than this service can check by its content " +
			"policy. Trying again does not help: send less, or begin a new conversation."})
}

var searches = sync.Pool{New: func() any { return new(rules.Search) }}

// keptText is the largest memory of a search that is given back to be borrowed again, in bytes.
const keptText = 512 << 10

// findRules finds what the rules say of the request. The error says why they could not be looked for everywhere.
func (x *exchange) findRules(s *config.Screening) (found []rules.Hit, why error) {
	memory := s.Rules.Reserve(policy.Largest(x.req.LLM))
	if memory > keptText {
		if !x.engine.AcquireBody(memory) {
			why = errNoMemory
			if memory > x.gen.Config.Gateway.MaxBodyMemory {
				why = errMuchText // it would be when nothing else runs, too
			}
			return nil, x.noteUnsearched(why)
		}
		defer x.engine.ReleaseBody(memory)
	}
	t := searches.Get().(*rules.Search)
	defer func() {
		if t.Size() <= keptText {
			searches.Put(t)
		}
	}()
	t.Begin(s.Rules)
	policy.Read(t, x.req.LLM)
	found, whole := t.Hits()
	if !whole {
		return found, x.noteUnsearched(errMuchWork)
	}
	return found, nil
}

// noteUnsearched logs that the rules were not looked for everywhere.
func (x *exchange) noteUnsearched(why error) error {
	x.engine.Logger().Warn("a request was not screened", "request_id", x.call.ID, "mode", x.gen.Config.Screening.Mode,
		"error", why)
	return why
}

// settleRefusal settles a request that made no attempt, and is its refusal.
func (x *exchange) settleRefusal(s ledger.Settlement, e *families.Error) *families.Error {
	s.Status = e.Status
	if _, err := x.settle(s, x.due(&s)); err != nil {
		return x.call.LedgerError("settling", err)
	}
	return e
}

// failUnattempted is what comes of a first attempt that could not be begun.
func (x *exchange) failUnattempted(f *failure) *families.Error {
	return x.settleRefusal(ledger.Settlement{Reason: string(f.kind), Free: f.isFree(), ServiceLimit: f.kind == timeLimit},
		x.refusal(f))
}

// maxNoted is how many rules are named in a settlement's reason.
const maxNoted = 8

// reasonWithFindings is a settlement's reason with what the screening found: the names of rules and categories, never
// a text.
func (x *exchange) reasonWithFindings(reason string) string {
	if len(x.found) == 0 {
		return reason
	}
	b := append([]byte(nil), reason...)
	for i, h := range x.found {
		if i == maxNoted {
			b = append(b, ", and "...)
			b = strconv.AppendInt(b, int64(len(x.found)-i), 10)
			b = append(b, " more"...)
			break
		}
		separator := ", "
		if i == 0 {
			separator = "; "
		}
		b = append(append(append(append(b, separator...), h.Action...), ' '), h.Rule...)
		if h.Category != "" {
			b = append(append(append(b, " ("...), h.Category...), ')')
		}
	}
	return string(b)
}

// noteDeclined tells the engine of a request that a content policy declined, when that is settled (GAP-87).
func (x *exchange) noteDeclined(reason string) {
	switch reason, _, _ = strings.Cut(reason, ";"); reason {
	case engine.Screened, engine.DeclinedByRoute, engine.EndedByPolicy:
		account := x.call.Principal.Account
		limit := engine.PlanOf(x.gen.Config, account).SuspendAfterDeclines
		x.engine.Declined(x.request.Context(), account, limit, x.call.ID)
	}
}
