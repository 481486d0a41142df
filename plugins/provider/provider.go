// Package provider is the SDK of Fareway's backend plugins: what the author of a provider imports. A
// provider is a value with one method, Generate, and a main that calls Serve; the README one folder up takes
// you through writing one.
//
// The gateway starts each provider as a process of its own and speaks to it by the protocol in
// plugins/internal/proto. Nothing of that shows here: no gRPC, no HTTP server, no configuration language.
// What is exported here, with package llm and its settings, stays source compatible within a major version.
//
// It is for plugins. The gateway's side is package plugins/host.
package provider

import (
	"context"

	"github.com/fareway/fareway/plugins/llm"
)

// Provider is one backend. Its methods are called concurrently, from many requests at once.
type Provider interface {
	// Generate makes one attempt: one call of one upstream model, for one reply. It sends the events of the
	// reply in the order that llm.Event gives, and returns nil after EventFinish, or an error at any point
	// instead: an *llm.Error says which kind, any other error counts as a failure of the upstream.
	//
	// ctx ends when the caller has left, and may end as soon as EventFinish is sent; stop the upstream call
	// then. send returns an error when the caller has left or when the event must not come now: return it.
	// send blocks while the gateway is slower than the upstream: stop reading from the upstream meanwhile,
	// and never gather a reply in memory. send must not be called concurrently or after Generate returned.
	Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error
}

// The optional interfaces. A provider has what its upstream allows.
type (
	// Configurable is a provider that takes settings, in the `config` block of the operator's file.
	Configurable interface {
		// Settings returns a pointer to a struct, whose fields are filled before Start. Its fields carry the
		// tags that SettingsSchema describes; its values before it is filled are the defaults.
		Settings() any
	}

	// Starter is a provider that has something to do between the settings and the first request.
	Starter interface {
		// Start is called once, after the settings are filled. It checks what a schema cannot say, and its
		// error names the setting and the next step; the operator reads it. ctx bounds Start itself: what
		// Start starts must not depend on it.
		Start(ctx context.Context) error
	}

	// TokenCounter is a provider that counts prompt tokens as its upstream would.
	TokenCounter interface {
		CountTokens(ctx context.Context, req *llm.Request) (int64, error)
	}

	// Receipter is a provider whose upstream tells later what an attempt used.
	Receipter interface {
		// Receipts returns what is known of the attempts, in any order; an attempt that the upstream has no
		// record of is left out. It is called in the background with up to 100 attempts, also of an earlier
		// process, and has 10 seconds. An attempt is asked about again, in growing intervals of up to a minute,
		// until its receipt comes or the operator's receipt_age is over. What is returned beside an error
		// counts, too.
		Receipts(ctx context.Context, attempts []Attempt) ([]Receipt, error)
	}

	// SometimesReceipter is a Receipter whose settings decide whether its upstream has receipts.
	SometimesReceipter interface {
		Receipter
		// GivesReceipts is asked once, after Start. Without receipts no attempt waits for one.
		GivesReceipts() bool
	}

	// HealthChecker is a provider that can tell when it cannot take requests. Without it, one that answers
	// at all is healthy.
	HealthChecker interface {
		// Health speaks for the provider itself and not for its upstream, whose state shows in the errors
		// of Generate: a provider that fails here at the start is not started.
		Health(ctx context.Context) error
	}

	// Screener is a provider that judges requests by a content policy, for the operator whose `screening` block names it.
	Screener interface {
		// Screen judges what a model would read of a request, before it is routed. A client waits, and ctx ends with the
		// operator's time limit. An error says that the texts could not be judged: then the operator's on_error decides.
		// Never log them.
		Screen(ctx context.Context, texts []llm.ScreenText) (llm.Verdict, error)
	}

	// Predictor is a provider that says how well upstream models would serve requests, for the operator whose `predictor`
	// block names it. It decides nothing: the gateway weighs what it says against what each route costs.
	Predictor interface {
		// Predict compares the routes of requests, each by itself: they only come together because they wait at the same
		// time, up to 64 of them. It returns one prediction for each, in their order. Clients wait, for a few milliseconds,
		// and ctx ends with the operator's time limit: an answer that is late is not used. An error says that nothing could
		// be predicted. The gateway's own prediction stands then, and wherever nothing is known. Never log the texts.
		Predict(ctx context.Context, requests []llm.PredictRequest) ([]llm.Prediction, error)
	}

	// CancelProver is a provider that can stop an attempt at its upstream and prove what it used (GAP-47).
	// The gateway then cancels such an attempt when its client leaves, and reads any other to the end; and when its
	// time is over, it waits a few seconds for the proof.
	CancelProver interface {
		// CancelUsage is called after the context of the attempt's Generate has ended and Generate has
		// returned without EventFinish. It returns nil when the usage cannot be proven.
		CancelUsage(ctx context.Context, attempt string) (*llm.Usage, error)
	}
)

// ScreenerOnly is the Generate of a provider that only screens, which embeds it. No route should name such a provider.
type ScreenerOnly struct{}

// Generate implements Provider: it refuses.
func (ScreenerOnly) Generate(context.Context, *llm.Request, func(llm.Event) error) error {
	return llm.Errorf(llm.ErrRejected, "this provider screens requests and answers none; name another one in the route")
}

// PredictorOnly is the Generate of a provider that only predicts, as ScreenerOnly is of one that only screens.
type PredictorOnly struct{}

// Generate implements Provider: it refuses.
func (PredictorOnly) Generate(context.Context, *llm.Request, func(llm.Event) error) error {
	return llm.Errorf(llm.ErrRejected, "this provider compares routes and answers no requests; name another one in the "+
		"route")
}

// Attempt is an attempt whose receipt is wanted.
type Attempt struct {
	ID string // llm.Request.Attempt
	// Reference is what its llm.EventReference said, or what was made of Endpoint.References, "" where neither came: the
	// gateway keeps it for the provider, which need remember nothing.
	Reference string
}

// Receipt proves what an attempt used.
type Receipt struct {
	Attempt string // its id
	Usage   llm.Usage
}
