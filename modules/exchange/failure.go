package exchange

import (
	"cmp"
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

// retriable reports whether another route may do better. A decline is final by contract (POL-02), the limits
// of the request and of the service hold for every route, and a finished reply is the model's answer.
func (f *failure) retriable() bool {
	switch f.kind {
	case llm.ErrPolicy, llm.ErrCanceled, timeLimit, shutdown, noVisibleText, noUsage, overBudget, ledgerAway:
		return false
	}
	return true
}

// ends reports whether the request itself cannot go on, whichever of its calls that happened to. A reply without
// visible text is a matter of its own call.
func (f *failure) ends() bool { return !f.retriable() && f.kind != noVisibleText }

// free reports whether the service itself failed, so that the request costs nothing (GAP-55).
func (f *failure) free() bool {
	switch f.kind {
	case shutdown, invalidArguments, llm.ErrProtocol, llm.ErrDied, ledgerAway:
		return true
	}
	return false
}

// failureTexts are what clients are told of failures of the route: what happened, and what helps. An upstream's own
// words are never shown (GAP-96).
var failureTexts = map[failureKind]string{
	// An error in the middle of a reply has no status that would tell these two apart.
	llm.ErrRejected:    routeRefused,
	llm.ErrCredentials: routeRefused,
	llm.ErrQuota: "This service's own quota at the model route is used up. Your API key and your credits are fine. " +
		"Trying again unchanged will hardly help before the operator has raised it.",
	llm.ErrBroken:   "The connection to the model route broke, so the reply is not whole. Trying again may help.",
	llm.ErrDied:     "The model route stopped working in the middle of the request. Trying again may help.",
	llm.ErrProtocol: "The model route's output was not valid. Trying again may help, for replies differ each time.",
	invalidArguments: "The model route called a tool with arguments that are not JSON. " +
		"Trying again may help, for replies differ each time.",
	noUsage: "The model route did not report what the reply used, so the reply counts as failed. " +
		"Trying again may help.",
	attemptTimeout: "The model route took longer than it may. " +
		"Trying again may help; a smaller output allowance or a shorter request is faster.",
	shutdown: "The service is shutting down and cannot finish the reply. Try again in a few seconds.",
}

const (
	// routeFailed is the text where there is nothing more to say.
	routeFailed = "The model route failed. Trying again may help."

	routeRefused = "The model route refused the request: it objects to something in it, or this service's own access " +
		"to it is set up wrongly. Your API key is fine. Trying again unchanged will hardly help; " +
		"leaving out what is unusual, such as a large schema of a tool, may."
)

// refusal is the failure as the client sees it (contract, "Codes"; GAP-39, GAP-40, GAP-42, GAP-96).
func (x *exchange) refusal(f *failure) *families.Error {
	e := &families.Error{Status: http.StatusBadGateway, Code: families.UpstreamError,
		Message: cmp.Or(failureTexts[f.kind], routeFailed) + families.Support}
	switch f.kind {
	case llm.ErrPolicy:
		return &families.Error{Status: http.StatusBadRequest, Code: families.InvalidRequest,
			Message: "The request was declined by the model route's content policy."} // as it is (GAP-95)
	case llm.ErrUnfit:
		return featureUnavailable("No route can do what the request asks for, such as a tool call that is demanded. " +
			"Trying again does not help: send it without.")
	case llm.ErrContext:
		return featureUnavailable("The request is too long for every route that could take it. " +
			"Trying again does not help: send less, or begin a new conversation.")
	case llm.ErrCapacity:
		return routesFull()
	case llm.ErrBroken, llm.ErrDied, noUsage, shutdown:
		e.Frame = families.StreamError
	case llm.ErrProtocol, invalidArguments:
		e.Frame = families.ValidatorFailed
	case timeLimit:
		return &families.Error{Status: http.StatusGatewayTimeout, Code: families.UpstreamError,
			Message: "The request ran past its time limit. " +
				"Trying again helps if the reply is done sooner: ask for a smaller output allowance, or send less."}
	case noVisibleText:
		return x.noAnswer()
	case overBudget:
		return overLimit(f.err)
	case ledgerAway:
		return x.call.LedgerError("recording an attempt", f.err)
	}
	return e
}

// noAnswer tells the three ends of a reply without visible text apart (GAP-40).
func (x *exchange) noAnswer() *families.Error {
	if x.several { // SSE-41, SSE-42
		return &families.Error{Status: http.StatusBadGateway, Code: families.UpstreamError,
			Message: "The last step of the reply had no visible text. Trying again may help." + families.Support}
	}
	if x.current.reply.finish == llm.FinishLength {
		return &families.Error{Status: http.StatusUnprocessableEntity, Code: families.InvalidRequest,
			Message: "The output allowance was used up before any visible text. " +
				"Trying again unchanged will hardly help: raise the allowance."}
	}
	e := &families.Error{Status: http.StatusBadGateway, Code: families.NoVisibleAnswer,
		Message: "The model route finished without a visible answer. " +
			"Trying again may help; so may asking in other words." + families.Support}
	own, a := x.req.LLM.MaxTokens, x.current
	if own > 0 && a.allowance == own && a.usage != nil && llm.Tokens(a.usage.Output) >= own {
		e.Message = fmt.Sprintf("The model route finished without a visible answer: "+
			"the max_tokens budget (%d) was used up before any visible text. "+
			"Trying again unchanged will hardly help: raise it.", own)
	}
	return e
}
