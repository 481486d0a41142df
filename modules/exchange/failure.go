package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// failureKind extends llm.ErrorKind by the ends that the gateway itself finds.
type failureKind = llm.ErrorKind

const (
	timeLimit        failureKind = "time_limit"        // the request's total time is over
	attemptTimeout   failureKind = "attempt_timeout"   // the route's own time is over
	shutdown         failureKind = "shutdown"          // the drain time is over
	invalidArguments failureKind = "invalid_arguments" // a call's arguments are not JSON (GAP-84)
	noVisibleText    failureKind = "no_visible_text"   // finished, and there is nothing to show (GAP-40)
	noUsage          failureKind = "no_usage"          // a stream's usage is not proven (GAP-57)
	overBudget       failureKind = "over_budget"       // the next attempt is not covered (GAP-49, BILL-19)
	ledgerAway       failureKind = "ledger"            // the next attempt could not be recorded
)

// failure is an attempt, or an exchange, that did not become a reply.
type failure struct {
	kind failureKind
	err  error
}

// The causes that a context of the exchange ends with.
var (
	errTimeLimit      = errors.New("the request's time limit is over")
	errAttemptTimeout = errors.New("the route's time limit is over")
)

// interrupted names the failure of an attempt whose context is done.
func interrupted(ctx context.Context) *failure {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, engine.ErrShutdown):
		return &failure{kind: shutdown, err: cause}
	case errors.Is(cause, errTimeLimit):
		return &failure{kind: timeLimit, err: cause}
	case errors.Is(cause, errOutrun):
		return &failure{kind: outrun, err: cause}
	default:
		return &failure{kind: attemptTimeout, err: cause}
	}
}

// retriable reports whether another route may do better.
func (f *failure) retriable() bool { return !f.consequence().final }

// endsRequest reports whether the request itself cannot go on, whichever of its calls that happened to. A reply
// without visible text is a matter of its own call.
func (f *failure) endsRequest() bool { return !f.retriable() && f.kind != noVisibleText }

// isFree reports whether the service itself failed, so that the request costs nothing (GAP-55).
func (f *failure) isFree() bool { return f.consequence().free }

// refusal is the failure as the client sees it (contract, "Codes"; GAP-39, GAP-40, GAP-42, GAP-96).
func (w *work) refusal(f *failure) *families.Error {
	switch f.kind {
	case noVisibleText:
		return w.noAnswer()
	case overBudget:
		return limitRefusal(f.err)
	case ledgerAway:
		return w.call.LedgerError("recording an attempt", f.err)
	}
	return f.consequence().error()
}

// noAnswer tells the three ends of a reply without visible text apart (GAP-40).
func (w *work) noAnswer() *families.Error {
	if w.several { // SSE-41, SSE-42
		return &families.Error{Status: http.StatusBadGateway, Code: families.UpstreamError,
			Message: "The last step of the reply had no visible text. Trying again may help." + families.Support}
	}
	if w.current.reply.finish == llm.FinishLength {
		return &families.Error{Status: http.StatusUnprocessableEntity, Code: families.InvalidRequest,
			Message: "The output allowance was used up before any visible text. " +
				"Trying again unchanged will hardly help: raise the allowance."}
	}
	e := &families.Error{Status: http.StatusBadGateway, Code: families.NoVisibleAnswer,
		Message: "The model route finished without a visible answer. " +
			"Trying again may help; so may asking in other words." + families.Support}
	own, a := w.req.LLM.MaxTokens, w.current
	if own > 0 && a.allowance == own && a.usage != nil && llm.Tokens(a.usage.Output) >= own {
		e.Message = fmt.Sprintf("The model route finished without a visible answer: "+
			"the max_tokens budget (%d) was used up before any visible text. "+
			"Trying again unchanged will hardly help: raise it.", own)
	}
	return e
}
