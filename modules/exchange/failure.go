package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
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

// refusal is the failure as the client sees it (CONTRACT.md, "Errors"; GAP-39, GAP-40, GAP-42, GAP-96).
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

// namesTime reports whether an upstream takes no more, and said for how long.
func (f *failure) namesTime() bool {
	failed, ok := errors.AsType[*llm.Error](f.err)
	return ok && f.kind == llm.ErrCapacity && failed.RetryAfter > 0
}

// consequence is what follows from a kind of failure. What follows for a provider's key is the engine's affair.
type consequence struct {
	// final: no other route is tried. A decline is final by contract (POL-02), and limits of the request and of the
	// service hold for every route.
	final  bool
	free   bool // the service itself failed, so that the request costs nothing (GAP-55)
	alert  bool // somebody has to do something about it
	misfit bool // it is this request that the route cannot take: trying another one is no retry of an outage
	health health.Outcome
	lesson outcome.Verdict

	// What the client is told; the zero values are 502 and upstream_error. An upstream's own words are never shown
	// (GAP-96).
	status  int
	code    families.Code
	frame   families.Code // where it differs inside a stream (GAP-42)
	message string
	bare    bool // the message stands alone (GAP-95)
}

const routeRefused = "The model route refused the request: it objects to something in it, or this service's own " +
	"access to it is set up wrongly. Your API key is fine. Trying again unchanged will hardly help; " +
	"leaving out what is unusual, such as a large schema of a tool, may."

// consequences are those of every kind (GAP-126).
var consequences = map[failureKind]consequence{
	llm.ErrPolicy: {final: true, lesson: outcome.Refused, status: http.StatusBadRequest, code: families.InvalidRequest,
		message: "The request was declined by the model route's content policy.", bare: true},
	llm.ErrContext: {misfit: true, status: http.StatusServiceUnavailable, code: families.FeatureUnavailable,
		message: "The request is too long for every route that could take it. " +
			"Trying again does not help: send less, or begin a new conversation.", bare: true},
	llm.ErrUnfit: {misfit: true, status: http.StatusServiceUnavailable, code: families.FeatureUnavailable,
		message: "No route can take what the request asks for or holds, such as a tool call that is demanded, or " +
			"more tools, messages or images than it takes. Trying again does not help: send it without.", bare: true},
	llm.ErrAllowance: {misfit: true, status: http.StatusServiceUnavailable, message: "The request is larger than what " +
		"this service may send to its model route at the moment. Trying again may help later; a shorter request or a " +
		"smaller output allowance may help at once."},
	llm.ErrCredentials: {alert: true, message: routeRefused},
	llm.ErrQuota: {alert: true, message: "This service's own quota at the model route is used up. Your API key and your " +
		"credits are fine. Trying again unchanged will hardly help before the operator has raised it."},
	llm.ErrCapacity: {health: health.Refused, status: http.StatusTooManyRequests, code: families.RateLimitExceeded,
		message: "All routes that can take the request are busy. Trying again in a few seconds helps."},
	// An error in the middle of a reply has no status that would tell this from the operator's key.
	llm.ErrRejected: {message: routeRefused},
	llm.ErrUpstream: {health: health.Failed, lesson: outcome.Broken},
	llm.ErrBroken: {health: health.Failed, lesson: outcome.Broken, frame: families.StreamError,
		message: "The connection to the model route broke, so the reply is not whole. Trying again may help."},
	llm.ErrDied: {free: true, health: health.Failed, lesson: outcome.Broken, frame: families.StreamError,
		message: "The model route stopped working in the middle of the request. Trying again may help."},
	llm.ErrProtocol: {free: true, health: health.Failed, lesson: outcome.Broken, frame: families.ValidatorFailed,
		message: "The model route's output was not valid. Trying again may help, for replies differ each time."},
	llm.ErrCanceled: {final: true},

	invalidArguments: {free: true, lesson: outcome.InvalidCall, frame: families.ValidatorFailed,
		message: "The model route called a tool with arguments that are not JSON. " +
			"Trying again may help, for replies differ each time."},
	noUsage: {final: true, health: health.Failed, frame: families.StreamError,
		message: "The model route did not report what the reply used, so the reply counts as failed. " +
			"Trying again may help."},
	noVisibleText: {final: true, health: health.Succeeded}, // see noAnswer
	attemptTimeout: {lesson: outcome.Broken, message: "The model route took longer than it may. " +
		"Trying again may help; a smaller output allowance or a shorter request is faster."}, // see healthOutcome
	outrun: {health: health.Outrun},
	timeLimit: {final: true, status: http.StatusGatewayTimeout, message: "The request ran past its time limit. " +
		"Trying again helps if the reply is done sooner: ask for a smaller output allowance, or send less.", bare: true},
	shutdown: {final: true, free: true, frame: families.StreamError,
		message: "The service is shutting down and cannot finish the reply. Try again in a few seconds."},
	overBudget: {final: true},
	ledgerAway: {final: true, free: true},
}

// consequence is what follows from a failure.
func (f *failure) consequence() consequence { return consequences[f.kind] }

// mayBlameConfiguration reports whether a configuration may be the reason, and not just the request, its client, or
// time.
func (c consequence) mayBlameConfiguration() bool {
	return !c.misfit && (!c.final || c.health == health.Failed)
}

// error is the consequence as the client sees it.
func (c consequence) error() *families.Error {
	e := &families.Error{Status: cmp.Or(c.status, http.StatusBadGateway), Code: cmp.Or(c.code, families.UpstreamError),
		Frame: c.frame, Message: cmp.Or(c.message, "The model route failed. Trying again may help.")}
	if !c.bare {
		e.Message += families.Support
	}
	return e
}
