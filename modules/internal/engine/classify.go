package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/policy"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// classifyTogether is how many requests are predicted at once (provider.proto, Predict).
	classifyTogether = 64
	// classifyFor is how long a provider has for an answer, also one that nobody waits for any more: until then it is not
	// asked again.
	classifyFor = 10 * time.Second
)

// Why a classifier has not predicted.
var (
	errClassifiedLate = errors.New("the provider that predicts took longer than the deadline in the predictor block")
	errClassifierBusy = errors.New("the provider that predicts is late with requests of before")
)

// findClassifier finds the provider that predicts.
func (g *Generation) findClassifier(m *Metrics) error {
	p := &g.Config.Predictor
	if p.Provider == "" || len(g.Config.Routes) < 2 {
		return nil
	}
	plugins, err := g.judges("predictor", p.Provider, "predict", "or leave it out")
	if err != nil || len(plugins) == 0 { // it is not named by a provider block, or has not started
		return err
	}
	g.classifier = &classifier{deadline: p.Deadline,
		predict: func(ctx context.Context, requests []llm.PredictRequest) ([]llm.Prediction, error) {
			return readyOf(plugins).Predict(ctx, requests)
		}}
	if m != nil {
		g.classifier.noted = func(took time.Duration, what string) { m.Classified(p.Provider, what, took) }
	}
	return nil
}

// ClassifyOnce is Generation.Classify where no gateway runs: the provider of the configuration that predicts is
// started for a moment, and has the time that it takes.
func ClassifyOnce(ctx context.Context, cfg *config.Config, ask *routing.Input, logger *slog.Logger) error {
	provider := cfg.Predictor.Provider
	if provider == "" {
		return nil
	}
	h := host.New(host.Options{Builtin: selfCommand, Logger: logger})
	defer h.Close()
	g := &Generation{Config: cfg}
	defer g.releasePlugins()
	if _, err := g.try(ctx, h, provider); err != nil {
		return err
	}
	if err := g.findClassifier(nil); err != nil || g.classifier == nil {
		return err
	}
	g.classifier.deadline = classifyFor
	return g.Classify(ctx, ask)
}

// Classify asks the provider that predicts, where the configuration names one and there is something to choose, and
// puts what it says into the question. A turn that answers tool calls stays on its route, whatever is predicted. The
// error says why the model predicts alone.
func (g *Generation) Classify(ctx context.Context, ask *routing.Input) error {
	if g.classifier == nil || len(ask.Routes) < 2 || ask.Request == nil || ask.Loops() {
		return nil
	}
	texts := policy.Last(ask.Request, int(g.Config.Predictor.MaxText))
	if len(texts) == 0 {
		return nil
	}
	r := llm.PredictRequest{Texts: texts, InputTokens: ask.InputTokens, Tools: ask.Needs.Tools,
		Routes: make([]llm.PredictRoute, len(ask.Routes))}
	for i := range ask.Routes {
		r.Routes[i] = llm.PredictRoute{Name: ask.Routes[i].Name, Model: ask.Routes[i].Model, Quality: ask.Routes[i].Quality}
	}
	var err error
	ask.Classified, err = g.classifier.Predict(ctx, r)
	return err
}

// Outcomes of asking the provider that predicts.
const (
	ClassifiedKnown   = "known"
	ClassifiedUnknown = "unknown" // it knows nothing of the request
	ClassifiedLate    = "late"
	ClassifiedSkipped = "skipped" // it was late with others
	ClassifiedFailed  = "failed"
)

// classifier has a provider predict requests: one call at a time, with all the requests that came while the one before
// ran. Nobody waits longer than the deadline, nor at all while a call is late.
type classifier struct {
	predict  func(ctx context.Context, requests []llm.PredictRequest) ([]llm.Prediction, error)
	deadline time.Duration
	noted    func(took time.Duration, what string) // what came of a request; nil for nobody

	mu      sync.Mutex
	begun   time.Time // of the call that runs; zero for none
	waiting []*classified
}

// classified is a request that waits.
type classified struct {
	ctx        context.Context
	request    llm.PredictRequest
	prediction llm.Prediction
	err        error
	done       chan struct{}
}

// Predict returns what the provider says of a request, nil where it knows nothing. The error says why it has not
// answered.
func (c *classifier) Predict(ctx context.Context, request llm.PredictRequest) (p llm.Prediction, err error) {
	begun := time.Now()
	p, err = c.ask(ctx, request)
	what := ClassifiedKnown
	switch {
	case errors.Is(err, errClassifiedLate):
		what = ClassifiedLate
	case errors.Is(err, errClassifierBusy):
		what = ClassifiedSkipped
	case err != nil && ctx.Err() != nil: // the client has left
		return nil, err
	case err != nil:
		what = ClassifiedFailed
	case len(p) == 0:
		what = ClassifiedUnknown
	}
	if c.noted != nil {
		c.noted(time.Since(begun), what)
	}
	return p, err
}

func (c *classifier) ask(ctx context.Context, request llm.PredictRequest) (llm.Prediction, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.deadline, errClassifiedLate)
	defer cancel()
	one := &classified{ctx: ctx, request: request, done: make(chan struct{})}
	if !c.enqueue(one) {
		return nil, errClassifierBusy
	}
	select {
	case <-one.done:
		return one.prediction, one.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// enqueue is false while a call is late.
func (c *classifier) enqueue(one *classified) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.begun.IsZero()
	if !idle && time.Since(c.begun) > c.deadline {
		return false
	}
	c.waiting = append(c.waiting, one)
	if idle {
		c.begun = time.Now()
		go c.run()
	}
	return true
}

// run makes calls until nobody waits.
func (c *classifier) run() {
	for {
		batch := c.next()
		if len(batch) == 0 {
			return
		}
		c.call(batch)
	}
}

// next takes those who still wait, as many as travel together.
func (c *classifier) next() (batch []*classified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := 0
	for ; taken < len(c.waiting) && len(batch) < classifyTogether; taken++ {
		if one := c.waiting[taken]; one.ctx.Err() == nil {
			batch = append(batch, one)
		}
	}
	c.waiting = append(c.waiting[:0], c.waiting[taken:]...)
	c.begun = time.Now()
	if len(batch) == 0 {
		c.begun, c.waiting = time.Time{}, nil
	}
	return batch
}

// call has a batch predicted. That it takes too long is no deadline of the protocol's, which would be a violation.
func (c *classifier) call(batch []*classified) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer time.AfterFunc(classifyFor, func() { cancel(errClassifiedLate) }).Stop()
	requests := make([]llm.PredictRequest, len(batch))
	for i, one := range batch {
		requests[i] = one.request
	}
	predictions, err := c.predict(ctx, requests)
	for i, one := range batch {
		if one.err = err; err == nil {
			one.prediction = predictions[i]
		}
		close(one.done)
	}
}
