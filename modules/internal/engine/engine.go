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
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/cache"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/history"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/shared"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/modules/internal/telemetry"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// Options are what an engine is opened with.
type Options struct {
	// DataDir is the folder of the ledger and of everything else that survives a restart.
	DataDir string
	// OpenStore opens the ledger that the configuration names, with a data folder: a live.Store, which is this process's
	// alone, or a shared.Store.
	OpenStore func(at config.Store, data string, o ledger.Options) (ledger.Store, error)
	// Logger is where the engine logs until SetLogger gives it another.
	Logger *slog.Logger
	// Builtin says how a built-in provider is started; nil for this executable's own command.
	Builtin func(plugin string) (argv []string, ok bool)
	// Version is what fareway_build_info says. "": unknown.
	Version string
	// Now is the clock of the ledger (periods, entries) and of keys. nil: time.Now.
	Now func() time.Time
	// After tells when a time is over, for the engine's own periodic work. nil: time.After.
	After func(time.Duration) <-chan time.Time
	// LedgerTimeout is how long anything waits for the ledger. 0: the ledger's default, 5 s.
	LedgerTimeout time.Duration
	// SpoolSize is how large a spool is made, in bytes. 0: spool.Size, which a disk takes a while to write.
	SpoolSize int64
	// Limiter counts requests for the rates, the concurrent_requests of accounts and the max_concurrent of routes.
	// One with a Close is closed with the engine. nil: OpenLimiter's.
	Limiter ratelimit.Limiter
	// OpenCache opens the response cache of a configuration whose nodes share one.
	OpenCache func(at config.Cache, log *slog.Logger) (cache.Shared, error)
	// OpenConversations opens the memory of conversations of nodes that share a limiter; it returns nil where they do
	// not. nil: it is in the memory of this process.
	OpenConversations func(at config.Limiter, now func() time.Time, log *slog.Logger) (affinity.Shared, error)
	// OpenPeople prepares the store of people of a configuration with a portal. nil: there is no portal.
	OpenPeople func(at config.Store, data string, o people.Options) *people.Service
	// Stripe is how Stripe is reached; nil: as the environment says.
	Stripe http.RoundTripper
	// BeforeLedger is called when all is done that can be done without the ledger; providers run by then. It is how a
	// process that takes another one's place (see package gateway) lets that one go on until it can begin. nil: nobody
	// waits for that.
	BeforeLedger func() error
	// OpenLimiter opens the one that the configuration names. nil: in the memory of this process.
	OpenLimiter func(at config.Limiter, log *slog.Logger) (ratelimit.Limiter, error)
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
	if o.OpenLimiter == nil {
		o.OpenLimiter = func(config.Limiter, *slog.Logger) (ratelimit.Limiter, error) {
			return ratelimit.NewMemory(ratelimit.Options{}), nil
		}
	}
}

// Engine is open from Open to Close. It is made of parts, each with what is its own (TestPartsKeepToThemselves): none
// selects a field of another one, and each knows only those before it.
//
//	core           what all of them work with
//	requests       what requests share while they run: budgets, limits, routes' health, what is remembered of them
//	learning       what is learned of requests, and what routing predicts by it     core
//	configuration  which configuration is in force, and its providers               core requests learning
type Engine struct {
	// PageWork has pages ask for one thing at a time of what may take long.
	PageWork sync.Mutex

	core
	requests
	learning
	configuration
	aside      *Aside
	nodes      *nodes // nil where this process has the ledger to itself
	probe      storeProbe
	background background
	alerting   alerting
	portal     portal
	opened     time.Time

	early        []*host.Plugin // that were started before there was a configuration to serve
	predecessors predecessors
	offered      sync.WaitGroup // of who hands the ledger over
	handed       *flock.Flock   // of the spool, where that is done
	closing      sync.Once      // of what is learned
}

// core is what all parts of an engine work with.
type core struct {
	dataDir string
	log     *swapLogger
	store   ledger.Store
	settler *settler
	// What store is, once it is open: live, over base, where it is this process's alone, and else shared.
	base    live.Store
	live    *live.Ledger
	shared  *shared.Ledger
	syncer  *syncer // nil where what is acknowledged is on the disk before
	away    func() (away bool, waiting live.Backlog)
	plans   *plans
	host    *host.Host
	metrics *Metrics
	// telemetry tells OpenTelemetry of attempts.
	telemetry *telemetry.Recorder
	life      *lifecycle
	timer     func(time.Duration) <-chan time.Time
	now       func() time.Time
}

// requests is what requests share while they run.
type requests struct {
	*core
	limiter       ratelimit.Limiter
	ownAttempts   ratelimit.Limiter // of routes whose limits are no matter of other nodes; nil where there are none
	attempts      atomic.Int64      // in progress
	turns         turns
	bodies        budget // bytes of request bodies and of what is made of them
	ahead         budget // events that wait for clients, in bytes
	streams       budget // charged requests in progress
	shadows       budget // calls for comparison
	keys          *keyCache
	providerKeys  providerKeys // the credentials of providers that have several
	healths       *healths
	failures      failures
	lost          refusedForLoss
	declines      declines
	noted         noted
	states        *States
	conversations *affinity.Book
	sharedBook    affinity.Shared // below it, nil where it is this process's own
	replies       replies
	requestLog    *requestlog.Log // requests that the ledger has nothing about
	recent        recent          // those that have ended last
}

func (r *requests) open(o *Options) {
	r.keys, r.states, r.replies = newKeyCache(time.Second, o.Now), newStates(o.Now), newReplies(o)
	r.declines.byAccount = make(map[string][]time.Time)
	r.healths = newHealths(o.Now(), r.routeChanged)
	r.ahead.limit(maxAhead)
	r.shadows.limit(maxShadows)
	r.metrics.watchBudgets(&r.streams, &r.ahead)
	r.metrics.watchReplies(r.replies.memory.Usage)
	r.metrics.watchServers(r.Servers)
}

// lend gives a configuration what its requests share.
func (r *requests) lend(g *Generation) {
	g.requests, g.turns, g.now, g.states, g.replies = r, &r.turns, r.Now, r.states, r.replies
}

// use applies what the current configuration says.
func (r *requests) use(g *Generation) {
	r.bodies.limit(g.Config.Gateway.MaxBodyMemory)
	r.streams.limit(g.Config.Gateway.MaxStreams)
	r.replies.memory.Limit(g.Config.Cache.Size)
	r.replies.shared.use(g.Config.Cache, r.Logger())
	r.providerKeys.keep(g.has)
	r.healths.use(g)
}

// learning is what is learned of requests.
type learning struct {
	*core
	decisions *decisions.Log // how requests were routed; nil where its file cannot be used
	journal   *journal.Journal
	trainer   *trainer
	outcomes  *outcome.Book
	templates *Templates
}

// configuration is which configuration is in force.
type configuration struct {
	*core
	requests     *requests
	learning     *learning
	where        config.Store
	counts       config.Limiter                   // where the limiter counts
	failed       atomic.Pointer[FailedLoad]       // nil when the last load has not failed
	lastExchange atomic.Pointer[routing.Exchange] // for a reload that changes nothing of it
	builtin      func(plugin string) ([]string, bool)
	history      *history.History
	keeping      sync.Mutex // of whoever notes what is in force
	inForce      InForce
}

func (r *requests) close() error {
	r.requestLog.Close()
	r.replies.shared.close(r.Logger())
	return r.closeLimiter()
}

// connect gives each part those that it works with.
func (e *Engine) connect() *Engine {
	e.requests.core, e.learning.core, e.configuration.core = &e.core, &e.core, &e.core
	e.configuration.requests, e.configuration.learning = &e.requests, &e.learning
	return e
}

// Opened is when the engine was opened: its counters count from then on.
func (e *Engine) Opened() time.Time { return e.opened }

// Open makes the data folder, takes the ledger that cfg names (which recovers what a dead process left) and
// prepares to run providers. Until a generation is activated, plans mean what they mean in cfg. An error says
// what to do.
func Open(o Options, cfg *config.Config) (*Engine, error) {
	o.fill()
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	e := (&Engine{
		core: core{dataDir: o.DataDir, log: newSwapLogger(o.Logger), metrics: newMetrics(o.Version), timer: o.After,
			now: o.Now},
		opened: o.Now().UTC(),
	}).connect()
	e.telemetry = &telemetry.Recorder{Version: o.Version, Gatherer: prometheus.GathererFunc(e.metrics.gather),
		Log: e.Logger()}
	if err := e.openLimiter(&o, cfg); err != nil {
		return nil, err
	}
	if err := e.openParts(&o, cfg); err != nil {
		return nil, errors.Join(err, e.closeLimiter())
	}
	return e, nil
}

func (e *Engine) openParts(o *Options, cfg *config.Config) error {
	e.requests.open(o)
	e.learning.open(o)
	e.configuration.open(o, cfg)
	logger := e.Logger()
	e.life = newLifecycle(logger, e.use)
	e.plans = newPlans(logger)
	e.plans.use(cfg.Plans)
	e.host = host.New(host.Options{Builtin: o.Builtin, Logger: logger,
		OnFailure: e.metrics.providerFailed, OnViolation: e.metrics.providerViolated})
	if err := e.openFiles(o, cfg); err != nil {
		e.host.Close()
		return err
	}
	e.probe.ping, e.probe.now = e.store.Ping, o.Now
	e.metrics.providers.current = e.Current
	e.setBackground(o)
	e.openAlerts(o, cfg)
	e.openPortal(o, cfg)
	return nil
}

// openFiles opens what no other process may have open.
func (e *Engine) openFiles(o *Options, cfg *config.Config) error {
	if o.BeforeLedger != nil {
		if err := e.startEarly(cfg); err != nil {
			return err
		}
		if err := o.BeforeLedger(); err != nil {
			return err
		}
	}
	if err := e.openLedger(o, cfg); err != nil {
		return err
	}
	if err := e.saveCounts(context.Background()); err != nil {
		return errors.Join(err, e.closeLedger())
	}
	if err := e.openRequestLog(o); err != nil {
		return errors.Join(err, e.closeLedger())
	}
	e.learning.openFiles(o, cfg)
	return nil
}

// setBackground prepares what the engine does beside requests, from its first configuration on.
func (e *Engine) setBackground(o *Options) {
	log := e.Logger()
	keeper := &housekeeper{ledger: e.store, acquire: e.life.acquire, metrics: e.metrics, log: log, now: o.Now}
	receipts := &reconciler{ledger: e.store, acquire: e.life.acquire, metrics: e.metrics, log: log, now: o.Now}
	inTurn := func(chores ...*chore) *loop { return &loop{chores: chores, log: log, now: o.Now, after: o.After} }
	if e.shared != nil {
		keeper.claim, receipts.claim = e.shared.ClaimChore, e.shared.ClaimChore
		e.nodes = &nodes{store: e.shared.Store, now: o.Now, logger: e.Logger,
			about: func() ledger.About { return e.aboutNode(o.Version) }}
		e.metrics.nodes = []prometheus.Collector{e.nodes}
		e.background.loops = []*loop{inTurn(&chore{name: "releasing the holds of nodes that are gone", every: recoverEvery,
			do: func(ctx context.Context) error {
				_, err := e.shared.Recover(ctx)
				return err
			}}, &chore{name: "looking at the other nodes", every: lookAtNodesEvery, do: e.nodes.look})}
	}
	e.background.loops = append(e.background.loops,
		inTurn(append(keeper.chores(), &chore{name: "keeping what was learned of routes", every: learnEvery,
			do: e.saveCounts})...),
		// In a loop of its own: a provider may take its time.
		inTurn(&chore{name: "charging receipts", every: receiptsEvery, do: receipts.look}),
		inTurn(e.paymentChores(keeper.claim)...), // Stripe, too
		// It takes minutes.
		inTurn(&chore{name: "training by outcomes", every: trainingEvery, do: e.train}))
}

func (l *learning) open(o *Options) {
	l.outcomes, l.templates = outcome.NewBook(o.Now), newTemplates(o.Now)
}

// openFiles is called once the ledger's lock says that no other process has the data folder.
func (l *learning) openFiles(o *Options, cfg *config.Config) {
	l.openDecisions(o, cfg)
	l.journal = journal.Open(journal.Options{
		Dir:      JournalPath(cfg.Store.File(o.DataDir)),
		Settings: func() config.Outcomes { return l.configOr(cfg).Outcomes },
		Now:      o.Now,
		Logger:   l.Logger(),
		Lost:     l.metrics.outcomesLost,
	})
	l.trainer = &trainer{dir: JournalPath(cfg.Store.File(o.DataDir)), acquire: l.life.acquire, flush: l.journal.Flush,
		run: runSelf, now: o.Now, log: l.Logger(), metrics: l.metrics}
}

func (l *learning) close() {
	l.decisions.Close()
	l.journal.Close()
}

// train trains if there is something to train by; restore takes up what was taught before.
func (l *learning) train(ctx context.Context) error { return l.trainer.look(ctx) }
func (l *learning) restore(cfg *config.Config)      { l.trainer.restore(cfg) }

func (c *configuration) open(o *Options, cfg *config.Config) {
	c.where, c.counts, c.builtin, c.history = cfg.Store, cfg.Limiter, o.Builtin, history.In(o.DataDir)
}

// Activate makes g the generation of the requests that come from now on.
func (e *Engine) Activate(g *Generation) {
	e.activate(g)
	e.releaseEarly()
	e.background.start(e.life.ctx)
	e.alerting.start(e.life.leaving) // another process of the same folder may take over from then on
}

// Store is the ledger as operators use it. Requests use Ledger.
func (c *core) Store() ledger.Store { return c.store }

// Metrics are the engine's collectors; their values outlive reloads.
func (c *core) Metrics() *Metrics { return c.metrics }

// Now is the clock that the ledger goes by, which tells whether a key has expired.
func (c *core) Now() time.Time { return c.now() }

// Conversations know which route each of them is on; they outlive reloads.
func (r *requests) Conversations() *affinity.Book { return r.conversations }

// DataDir is the engine's data folder.
func (c *core) DataDir() string { return c.dataDir }

// SetLogger sends what the engine logs from now on to l. Each configuration generation brings its own.
func (c *core) SetLogger(l *slog.Logger) { c.log.set(l) }

// Logger is the engine's logger; it stays valid over reloads.
func (c *core) Logger() *slog.Logger { return slog.New(c.log) }

// CheckConfig reads the HCL file at path. It starts each plugin that the file names for a moment, to ask it
// for its settings, and needs no engine.
func CheckConfig(ctx context.Context, path string, logger *slog.Logger) (*config.Config, *config.Diagnostics) {
	h := host.New(host.Options{Builtin: selfCommand, Logger: logger})
	defer h.Close()
	return config.Load(ctx, path, optionsOf(h))
}

// TryConfig is CheckConfig, and starts each provider with its settings for a moment, so that what its plugin alone can
// know of them is found, too.
func TryConfig(ctx context.Context, path string, logger *slog.Logger) (*config.Config, *config.Diagnostics) {
	return ReadConfigAs(ctx, path, logger, true, nil, nil)
}

// ReadConfigAs is CheckConfig, or TryConfig, with the environment of another process; nil: that of this one. outside is
// told of what comes from there or from other files, each of which may be a secret, also where the configuration is
// refused; nil: nobody is.
func ReadConfigAs(ctx context.Context, path string, logger *slog.Logger, try bool,
	env func(name string) (string, bool), outside func(value string)) (*config.Config, *config.Diagnostics) {
	h := host.New(host.Options{Builtin: selfCommand, Logger: logger})
	defer h.Close()
	o := optionsOf(h)
	o.Env, o.Outside = env, outside
	if try {
		o.Try = tryOn(h)
	}
	return config.Load(ctx, path, o)
}

// tryOn starts a provider with its settings for a moment.
func tryOn(h *host.Host) func(context.Context, config.PluginRef, config.Provider) error {
	return func(ctx context.Context, ref config.PluginRef, p config.Provider) error {
		plugin, err := h.Acquire(ctx, specOf(ref, p))
		if err != nil {
			return objectionTo(err, p.Plugin)
		}
		plugin.Release()
		return nil
	}
}

// specOf is a provider of a configuration as one to start for a moment.
func specOf(ref config.PluginRef, p config.Provider) host.Spec {
	return host.Spec{Name: p.Name, Source: sourceOf(ref), Settings: p.Settings, StartTimeout: p.StartTimeout,
		Confine: host.Confine(p.Confine)}
}

func sourceOf(ref config.PluginRef) host.Source {
	return host.Source{Plugin: ref.Plugin, Dir: ref.Dir, SHA256: ref.SHA256, StartTimeout: ref.StartTimeout}
}

// optionsOf are what every configuration is loaded with.
func optionsOf(h *host.Host) config.Options {
	return config.Options{
		Schema: func(ctx context.Context, ref config.PluginRef) (settings.Schema, error) {
			return h.Schema(ctx, sourceOf(ref))
		},
		Known: func(ctx context.Context, ref config.PluginRef) []llm.Model {
			known, _ := h.KnownModels(ctx, sourceOf(ref)) // a plugin that does not answer is one for Schema to tell of
			return known
		},
		Can: func(ctx context.Context, ref config.PluginRef, capability string) bool {
			can, err := h.Capabilities(ctx, sourceOf(ref))
			// That it does not answer is for Schema to tell of.
			return err != nil || slices.Contains(can.Names(), capability)
		},
		Model:      routing.ReadModel,
		Outside:    h.Redact,
		Unconfined: func(c config.Confine) []string { return host.Confine(c).Missing() },
	}
}

// Work is one request's stay in the engine. Its request's goroutine alone uses it.
type Work struct {
	engine  *Engine
	gen     *Generation
	entered bool                             // see Enter
	permit  ratelimit.Permit                 // of its account's concurrent_requests
	charged bool                             // counts towards max_streams
	asks    [ratelimit.MaxAsks]ratelimit.Ask // of one question to the limiter
}

// Begin registers a request on the current configuration. It returns nil when none is active, or the engine is
// closed. Call Done when the request and its settlement are over.
func (e *Engine) Begin() *Work {
	g := e.life.begin()
	if g == nil {
		return nil
	}
	return &Work{engine: e, gen: g}
}

// Enter says that what the request needs of the ledger to begin is done: the ledger can be handed over without it. The
// end of the request says so as well.
func (w *Work) Enter() {
	if !w.entered {
		w.entered = true
		w.engine.life.enter()
	}
}

// Generation is the configuration that the request works on.
func (w *Work) Generation() *Generation { return w.gen }

// Engine is the engine that the request works in.
func (w *Work) Engine() *Engine { return w.engine }

// Stopping is done, with cause ErrShutdown, when live work must end.
func (w *Work) Stopping() context.Context { return w.engine.life.ctx }

// Done ends the request's stay.
func (w *Work) Done() {
	w.Enter()
	w.engine.life.end(w.gen)
}

// BeginDrain lets Ready say that the gateway is shutting down. Requests that come nevertheless are served. When
// delay, in which they still come, and then the drain timeout are over, those that are left are told to end: each
// writes its error frame and settles. The first call counts.
//
// Once no more come, another process that waits for the ledger gets it (see offer).
func (e *Engine) BeginDrain(delay time.Duration) {
	if e.life.drain(delay) && e.base != nil {
		e.offer(delay)
	}
}

// AwaitEntered waits until each request that has begun has what it needs of the ledger to begin, or for ctx.
func (e *Engine) AwaitEntered(ctx context.Context) { e.life.awaitEntered(ctx) }

// IsDraining reports whether a drain has begun.
func (e *Engine) IsDraining() bool { return errors.Is(e.life.ready(), ErrShutdown) }

// IsAlone reports whether this process has its ledger to itself, and can hand it over.
func (e *Engine) IsAlone() bool { return e.base != nil }

// CheckAlive goes through what each request goes through in this process. It returns unless something there hangs, and
// depends on nothing outside.
func (e *Engine) CheckAlive() {
	if g, release := e.life.acquire(); g != nil {
		release()
	}
	e.away()
	e.settler.spool.Len()
	if e.live != nil {
		e.live.CheckAlive()
	}
}

// EndDrain tells what is left to end now, as the end of the drain's time does; it begins a drain where none has begun.
// It returns how many requests that were.
func (e *Engine) EndDrain() (running int) { return e.life.endNow() }

// Leaving is done once a drain has begun.
func (e *Engine) Leaving() <-chan struct{} { return e.life.leaving.Done() }

// WaitsFor is how many requests run, and when a drain that has begun tells them to end.
func (e *Engine) WaitsFor() (running int, until time.Time) { return e.life.waitsFor() }

// isHandedOver reports whether another process has the ledger by now.
func (e *Engine) isHandedOver() bool { return e.live != nil && e.live.IsHandedOver() }

// Drain begins a drain and waits until nothing runs.
func (e *Engine) Drain() {
	e.life.drain(0)
	e.Wait()
}

// Close drains, ends the provider processes and closes the ledger.
func (e *Engine) Close() error {
	e.life.drain(0)
	e.life.stop()
	e.offered.Wait()
	e.predecessors.watchers.Wait()
	e.background.wait()
	e.alerting.close()
	e.portal.close()
	e.telemetry.Close()
	if !e.isHandedOver() {
		if err := e.saveCounts(context.Background()); err != nil {
			e.Logger().Warn("what was learned of routes in the last minute is lost", "error", err)
		}
	}
	e.host.Close()
	err := e.requests.close()
	e.closing.Do(e.learning.close)
	err = errors.Join(err, e.closeLedger())
	if e.handed != nil {
		err = errors.Join(err, e.handed.Close())
	}
	return err
}
