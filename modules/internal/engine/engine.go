// Package engine is the long-lived heart of the gateway: the ledger, the provider processes, the metrics
// and the current configuration. It outlives Caddy's reloads: modules/gateway keeps one engine for a data
// folder in a usage pool, each load of the HCL makes a Generation, and every request works on the
// generation that was current when it came.
//
// It is for the modules of this gateway only. It knows nothing of Caddy and nothing of HTTP.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// ErrShutdown is the cause of a Work's context when the drain time is over.
var ErrShutdown = errors.New("the gateway is shutting down")

// Options are what an engine is opened with.
type Options struct {
	// DataDir is the folder of the ledger and of everything else that survives a restart.
	DataDir string
	// Logger is where the engine logs until SetLogger gives it another.
	Logger *slog.Logger
	// Builtin says how a built-in provider is started; nil for this executable's own command.
	Builtin func(plugin string) (argv []string, ok bool)
	// Now is the clock of the ledger (periods, entries) and of keys. nil: time.Now.
	Now func() time.Time
	// After tells when a time is over, for the engine's own periodic work. nil: time.After.
	After func(time.Duration) <-chan time.Time
	// Patience is how long a request waits for the ledger. 0: 5 s.
	Patience time.Duration
	// Limiter counts requests for the rate limits. nil: in the memory of this process.
	Limiter ratelimit.Limiter
}

func (o *Options) fill() {
	if o.Builtin == nil {
		o.Builtin = selfCommand
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Limiter == nil {
		o.Limiter = ratelimit.NewMemory(ratelimit.Options{})
	}
}

// Engine is open from Open to Close.
type Engine struct {
	dataDir    string
	where      config.Store
	limiter    config.Limiter
	log        *swapLogger
	store      ledger.Store
	settler    *settler
	aside      *Aside
	plans      *plans
	host       *host.Host
	metrics    *Metrics
	requestLog *requestlog.Log // requests that the ledger has nothing about
	keys       *keyCache
	bodies     budget // bytes of request bodies and of what is made of them
	ahead      budget // events that wait for clients, in bytes
	streams    budget // charged requests in progress

	patience time.Duration // of requests with the ledger
	rates    ratelimit.Limiter
	requests *slots // charged requests, by account id
	attempts *slots // by route

	background background

	mu          sync.Mutex
	generations []*Generation // activated and not yet retired, oldest first
	number      uint64
	failed      *FailedLoad // nil when the last load has not failed
	running     int
	idle        chan struct{} // what a drain waits for: closed when nothing runs any more; nil while none waits
	draining    bool
	closed      bool
	stop        context.Context // done when live work must end
	stopNow     context.CancelCauseFunc
}

// Open makes the data folder, takes the ledger that cfg names (which recovers what a dead process left) and
// prepares to run providers. Until a generation is activated, plans mean what they mean in cfg. An error says
// what to do.
func Open(o Options, cfg *config.Config) (*Engine, error) {
	o.fill()
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	e := &Engine{
		dataDir: o.DataDir,
		where:   cfg.Store,
		limiter: cfg.Limiter,
		log:     newSwapLogger(o.Logger),
		metrics: newMetrics(),
		keys:    newKeyCache(time.Second, o.Now),

		patience: o.Patience,
		rates:    o.Limiter,
		requests: newSlots(nil),
	}
	e.ahead.limit(maxAhead)
	e.metrics.watchBudgets(&e.streams, &e.ahead)
	e.attempts = newSlots(e.metrics.running)
	if m, ok := o.Limiter.(*ratelimit.Memory); ok {
		e.metrics.watchLimiter(m.Usage)
	}
	e.stop, e.stopNow = context.WithCancelCause(context.Background())
	logger := slog.New(e.log)
	e.plans = newPlans(logger)
	e.plans.use(cfg.Plans)

	if err := e.openLedger(&o, cfg); err != nil {
		return nil, err
	}
	if err := e.openRequestLog(&o); err != nil {
		return nil, errors.Join(err, e.closeLedger())
	}
	e.host = host.New(host.Options{Builtin: o.Builtin, Logger: logger})
	e.metrics.providerState.states = e.providerStates
	e.setBackground(&o)
	return e, nil
}

// setBackground prepares what the engine does beside requests, from its first configuration on.
func (e *Engine) setBackground(o *Options) {
	log := e.Logger()
	keeper := &housekeeper{ledger: e.store, borrow: e.borrow, metrics: e.metrics, log: log, now: o.Now}
	receipts := &reconciler{ledger: e.store, borrow: e.borrow, metrics: e.metrics, log: log, now: o.Now}
	e.background.loops = []*loop{
		{chores: keeper.chores(), log: log, now: o.Now, after: o.After},
		// In a loop of its own: a provider may take its time.
		{chores: []*chore{{name: "charging receipts", every: receiptsEvery, do: receipts.look}}, log: log, now: o.Now, after: o.After},
	}
}

// Store is the ledger.
func (e *Engine) Store() ledger.Store { return e.store }

// Metrics are the engine's collectors; their values outlive reloads.
func (e *Engine) Metrics() *Metrics { return e.metrics }

// Now is the clock that the ledger goes by, which tells whether a key has expired.
func (e *Engine) Now() time.Time { return e.keys.now() }

// DataDir is the engine's data folder.
func (e *Engine) DataDir() string { return e.dataDir }

// Ready returns nil when a request would be taken now, and the reason otherwise.
func (e *Engine) Ready() error {
	e.mu.Lock()
	draining := e.draining
	e.mu.Unlock()
	g := e.Current()
	switch {
	case draining:
		return ErrShutdown
	case g == nil:
		return errors.New("no configuration is active")
	}
	for name := range g.backends {
		if g.Ready(name) {
			return nil
		}
	}
	return errors.New("no provider is ready")
}

// SetLogger sends what the engine logs from now on to l. Each configuration generation brings its own.
func (e *Engine) SetLogger(l *slog.Logger) { e.log.set(l) }

// Logger is the engine's logger; it stays valid over reloads.
func (e *Engine) Logger() *slog.Logger { return slog.New(e.log) }

// CheckConfig reads the HCL file at path. It starts each plugin that the file names for a moment, to ask it
// for its settings, and needs no engine.
func CheckConfig(ctx context.Context, path string, logger *slog.Logger) (*config.Config, *config.Diagnostics) {
	h := host.New(host.Options{Builtin: selfCommand, Logger: logger})
	defer h.Close()
	return config.Load(ctx, path, config.Options{Schema: schemaOf(h)})
}

func schemaOf(h *host.Host) func(context.Context, config.PluginRef) (settings.Schema, error) {
	return func(ctx context.Context, ref config.PluginRef) (settings.Schema, error) {
		return h.Schema(ctx, host.Source{Plugin: ref.Plugin, Dir: ref.Dir, SHA256: ref.SHA256, StartTimeout: ref.StartTimeout})
	}
}

// Work is one request's stay in the engine. Its request's goroutine alone uses it.
type Work struct {
	engine  *Engine
	gen     *Generation
	charged string // the account that the request counts for among its concurrent_requests, or ""
	entered bool   // counts towards max_streams
}

// Begin registers a request on the current generation. It returns nil when no configuration is active, or the engine
// is closed.
// Call Done when the request and its settlement are over.
func (e *Engine) Begin() *Work {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.generations)
	if n == 0 || e.closed {
		return nil
	}
	g := e.generations[n-1]
	g.refs++
	e.running++
	return &Work{engine: e, gen: g}
}

// Generation is the configuration that the request works on.
func (w *Work) Generation() *Generation { return w.gen }

// Engine is the engine that the request works in.
func (w *Work) Engine() *Engine { return w.engine }

// Stopping is done, with cause ErrShutdown, when live work must end.
func (w *Work) Stopping() context.Context { return w.engine.stop }

// Done ends the request's stay.
func (w *Work) Done() {
	e := w.engine
	e.mu.Lock()
	e.running--
	if e.running == 0 && e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
	release := w.gen.unref()
	e.mu.Unlock()
	release()
}

// Drain waits for the running requests, at most the current generation's drain timeout; then it tells those
// that are left to end (each writes its error frame and settles). It may be called more than once. A request that
// begins while it waits is waited for, too.
func (e *Engine) Drain() {
	e.mu.Lock()
	e.draining = true
	timeout := time.Minute
	if n := len(e.generations); n > 0 {
		timeout = e.generations[n-1].Config.Gateway.DrainTimeout
	}
	e.mu.Unlock()

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for idle := e.untilIdle(); idle != nil; idle = e.untilIdle() {
		select {
		case <-idle:
		case <-timer.C:
			e.Logger().Warn("drain timeout is over: ending the requests that are left", "drain_timeout", timeout)
			e.stopNow(ErrShutdown)
		}
	}
}

// untilIdle is closed when nothing runs any more; nil when nothing does.
func (e *Engine) untilIdle() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running == 0 {
		return nil
	}
	if e.idle == nil {
		e.idle = make(chan struct{})
	}
	return e.idle
}

// shut lets no more requests begin; false when one has in the meantime.
func (e *Engine) shut() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = e.running == 0
	return e.closed
}

// Close drains, ends the provider processes and closes the ledger.
func (e *Engine) Close() error {
	for e.Drain(); !e.shut(); {
		e.Drain()
	}
	e.stopNow(ErrShutdown)
	e.background.wait()
	e.host.Close()
	e.requestLog.Close()
	return e.closeLedger()
}
