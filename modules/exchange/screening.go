package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/config/rules"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/policy"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// screeningCost is what each screened request costs in enforcing mode, in microcents (BILL-30).
const screeningCost = 1_350

// blockedText is what a client is told whose request the screening refused (POL-01, GAP-95).
const blockedText = "The request was blocked by a content filter."

// screening is what the content policy says of a request.
type screening struct {
	*scope
	delivery *delivery
	found    []rules.Hit
}

// screen finds what the content policy says, what that costs, in microcents, and how a request ends that it does not
// let through, nil for one that goes on.
func (sc *screening) screen() (cost int64, r *rejection) {
	s := &sc.gen.Config.Screening
	if !s.On() {
		return 0, nil
	}
	enforced := s.Mode == config.ScreeningEnforce
	found, unsearched := sc.findRules(s) // that it panics is a failure of the service, and free
	if sc.found = found; unsearched != nil {
		sc.engine.Logger().Warn("a request was not screened", "request_id", sc.call.ID, "mode", s.Mode, "error", unsearched)
	}
	for _, h := range sc.found {
		sc.engine.Metrics().RuleFound(h.Rule, h.Category, string(h.Action))
	}
	var unjudged error
	if s.Provider != "" && !(enforced && (unsearched != nil || rules.Blocks(sc.found))) {
		unjudged = sc.judgeByProvider(s)
	}
	verdict := engine.ScreenedPassed
	switch {
	case unjudged != nil, unsearched != nil && !rules.Blocks(sc.found):
		verdict = engine.ScreenedNot
	case rules.Blocks(sc.found):
		verdict = engine.ScreenedBlocked
	case len(sc.found) > 0:
		verdict = engine.ScreenedFlagged
	}
	sc.engine.Metrics().Screened(string(s.Mode), verdict)
	switch {
	case !enforced:
		return 0, nil
	case verdict == engine.ScreenedNot && unsearched != nil: // on_error is about the provider: nothing gets past the rules
		return 0, refuseUnsearched(unsearched)
	case unjudged != nil:
		return 0, sc.refuseUnscreened(s, unjudged)
	case verdict == engine.ScreenedBlocked:
		r = &rejection{ledger.Settlement{Reason: engine.Screened}, &families.Error{Status: http.StatusBadRequest,
			Code: families.InvalidRequest, Message: blockedText}}
	}
	return screeningCost, r
}

// errMuchText says that a request has more text than the provider that screens is sent.
var errMuchText = errors.New("it has more text than max_text in the screening block")

// judgeByProvider has the provider that screens judge the request, and notes its verdict. An error: there is none.
func (sc *screening) judgeByProvider(s *config.Screening) error {
	begun := time.Now()
	found := rules.Hit{Rule: "provider " + s.Provider}
	texts, ok := policy.Texts(sc.req.LLM, s.MaxText)
	err := errMuchText
	if ok {
		var verdict llm.Verdict
		verdict, err = sc.askProvider(texts)
		found.Category, found.Action = strings.Join(verdict.Categories, " "), rules.Action(verdict.Action)
	}
	switch {
	case err == nil:
	case errors.Is(err, errMuchText):
		found.Action = engine.JudgedTooLarge
	case errors.Is(err, engine.ErrScreeningLate):
		found.Action = engine.JudgedLate
	case sc.delivery.clientLeft() || sc.ctx.Err() != nil:
		return err // it is not the provider's doing
	default:
		found.Action = engine.JudgedFailed
	}
	sc.engine.Metrics().Judged(s.Provider, string(found.Action), time.Since(begun))
	if found.Action != rules.Action(llm.VerdictAllow) {
		sc.found = append(sc.found, found)
	}
	if err != nil {
		sc.engine.Logger().Warn("a request was not screened", "request_id", sc.call.ID, "provider", s.Provider,
			"mode", s.Mode, "on_error", s.OnError, "error", err)
	}
	return err
}

// askProvider asks the provider that screens, for as long as somebody waits.
func (sc *screening) askProvider(texts []llm.ScreenText) (llm.Verdict, error) {
	if len(texts) == 0 {
		return llm.Verdict{Action: llm.VerdictAllow}, nil
	}
	ctx, cancel := context.WithCancel(sc.ctx)
	defer cancel()
	defer context.AfterFunc(sc.request.Context(), cancel)()
	return sc.gen.Screen(ctx, texts)
}

// refuseUnscreened is what comes of a request that nobody judged, where that is enforced: nothing is charged.
func (sc *screening) refuseUnscreened(s *config.Screening, why error) *rejection {
	switch {
	case sc.delivery.clientLeft():
		return nil // its caller sees that
	case sc.ctx.Err() != nil:
		f := interrupted(sc.ctx)
		return rejectionFor(f, f.consequence().error())
	case s.OnError == config.OnErrorAllow:
		return nil
	case errors.Is(why, errMuchText):
		return refuseUnsearched(why)
	}
	return &rejection{unscreenedEnd, gateway.InternalError()}
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
func refuseUnsearched(why error) *rejection {
	if errors.Is(why, errNoMemory) {
		return &rejection{unscreenedEnd, gateway.Overloaded()}
	}
	return &rejection{unscreenedEnd, &families.Error{Status: http.StatusRequestEntityTooLarge,
		Code: families.InvalidRequest, Message: "The request has more text than this service can check by its content " +
			"policy. Trying again does not help: send less, or begin a new conversation."}}
}

var searches = sync.Pool{New: func() any { return new(rules.Search) }}

// keptText is the largest memory of a search that is given back to be borrowed again, in bytes.
const keptText = 512 << 10

// findRules finds what the rules say of the request. The error says why they could not be looked for everywhere.
func (sc *screening) findRules(s *config.Screening) (found []rules.Hit, why error) {
	memory := s.Rules.Reserve(policy.Largest(sc.req.LLM))
	if memory > keptText {
		if !sc.engine.AcquireBody(memory) {
			if memory > sc.gen.Config.Gateway.MaxBodyMemory {
				return nil, errMuchText // it would be when nothing else runs, too
			}
			return nil, errNoMemory
		}
		defer sc.engine.ReleaseBody(memory)
	}
	t := searches.Get().(*rules.Search)
	defer func() {
		if t.Size() <= keptText {
			searches.Put(t)
		}
	}()
	t.Begin(s.Rules)
	policy.Read(t, sc.req.LLM)
	found, whole := t.Hits()
	if !whole {
		return found, errMuchWork
	}
	return found, nil
}

// maxNoted is how many rules are named in a settlement's reason.
const maxNoted = 8

// reasonWithFindings is a settlement's reason with what the screening found: names of rules and categories, no text.
func (sc *screening) reasonWithFindings(reason string) string {
	if len(sc.found) == 0 {
		return reason
	}
	var b strings.Builder
	b.WriteString(reason)
	for i, h := range sc.found {
		if i == maxNoted {
			fmt.Fprintf(&b, ", and %d more", len(sc.found)-i)
			break
		}
		separator := ", "
		if i == 0 {
			separator = "; "
		}
		b.WriteString(separator + string(h.Action) + " " + h.Rule)
		if h.Category != "" {
			b.WriteString(" (" + h.Category + ")")
		}
	}
	return b.String()
}

// noteDeclined tells the engine of a request that a content policy declined, when that is settled (GAP-87).
func (sc *screening) noteDeclined(reason string) {
	switch reason, _, _ = strings.Cut(reason, ";"); reason {
	case engine.Screened, engine.DeclinedByRoute, engine.EndedByPolicy:
		account := sc.call.Principal.Account
		limit := engine.PlanOf(sc.gen.Config, account).SuspendAfterDeclines
		sc.engine.Declined(sc.request.Context(), account, limit, sc.call.ID)
	}
}
