package exchange

import (
	"cmp"
	"net/http"

	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

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

const (
	// routeFailed is the text where there is nothing more to say.
	routeFailed = "The model route failed. Trying again may help."

	routeRefused = "The model route refused the request: it objects to something in it, or this service's own access " +
		"to it is set up wrongly. Your API key is fine. Trying again unchanged will hardly help; " +
		"leaving out what is unusual, such as a large schema of a tool, may."
)

// consequence is what follows from a failure.
func (f *failure) consequence() consequence { return consequences[f.kind] }

// blames reports whether a configuration may be the reason, and not just the request, its client, or time.
func (c consequence) blames() bool { return !c.misfit && (!c.final || c.health == health.Failed) }

// error is the consequence as the client sees it.
func (c consequence) error() *families.Error {
	e := &families.Error{Status: cmp.Or(c.status, http.StatusBadGateway), Code: cmp.Or(c.code, families.UpstreamError),
		Frame: c.frame, Message: cmp.Or(c.message, routeFailed)}
	if !c.bare {
		e.Message += families.Support
	}
	return e
}
