// Package gateway is the Caddy app "fareway": it leases the engine, loads the HCL file and hands the
// running configuration to the handlers, on whose calls they meet. It also has the Caddyfile's directives.
package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App is the prepaid gateway: its configuration file, its data, its providers and its ledger. HTTP handlers
// (`fareway` and its parts) find it by being in the same configuration.
type App struct {
	// Config is the path of the HCL file with providers, routes, prices, profiles and plans. A relative
	// path is taken from the working directory. Required.
	Config string `json:"config,omitempty"`

	// Data is the folder of the ledger, keys and sockets. It must be on a local disk and belong to one
	// gateway. Default: fareway in Caddy's data directory.
	Data string `json:"data,omitempty"`

	// Health is the address of the health and readiness listener: "unix//path" or "host:port". It answers
	// GET /healthz and /readyz and belongs on a private address. Default: health.sock in the data folder.
	Health string `json:"health,omitempty"`

	// Admin is one more address for the gateway's part of the admin API, beside Caddy's own endpoint: for
	// administration from elsewhere.
	Admin json.RawMessage `json:"admin,omitempty"`

	// Digest is of the content of the HCL file and the files that it names. The Caddyfile's adapter writes it, so that a
	// `reload` after an edit of them is one of a changed configuration: Caddy passes over one that has not changed.
	Digest string `json:"digest,omitempty"`

	ctx          caddy.Context
	cfg          *config.Config
	caddys       string                        // the address of Caddy's own admin endpoint, "" when it is off
	engine       atomic.Pointer[engine.Engine] // nil until Open
	live         *engine.Live                  // nil until Open
	http         *caddyhttp.App                // whose servers have the process's sockets; nil until ShareSockets
	leavesQueues bool                          // at exit, at once
	taken        []net.Listener                // until Caddy has them
	before       *App                          // that served when this one began to
	// shutdownDelayed is http's shutdown_delay, which is set to 0 while another configuration is to take over.
	shutdownDelayed caddy.Duration
	health          *healthServer
	admin           adminListener // nil without one
	log             *slog.Logger

	endpoints atomic.Pointer[[]string] // of the path table; nil where no site has the handlers
}

// adminListener is the module fareway.admin: the admin API at an address of its own.
type adminListener interface {
	Start(data string, e *engine.Engine, log *slog.Logger) error
	Address() string // as commands are told of it
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "fareway", New: func() caddy.Module { return new(App) }}
}

// DefaultDataDir is where a gateway keeps its data unless told otherwise.
func DefaultDataDir() string { return filepath.Join(caddy.AppDataDir(), "fareway") }

// Provision reads the HCL file and sees whether it can be used. It takes the data folder only when this process has
// it already, as in a reload: `validate` works beside a gateway that runs, and leaves no trace where none does.
func (a *App) Provision(ctx caddy.Context) (err error) {
	a.ctx, a.log = ctx, ctx.Slogger()
	predecessor, err := findPredecessor()
	if err != nil {
		return err
	}
	if a.Data, err = filepath.Abs(cmp.Or(a.Data, DefaultDataDir())); err != nil {
		return fmt.Errorf("finding the data folder: %w", err)
	}
	defer func() {
		if err != nil {
			a.reportLoadFailure(err)
			predecessor.fail(err)
		}
	}()
	if a.Config == "" {
		return errors.New("fareway: config is missing: name the HCL file, as in `fareway { config gateway.hcl }`")
	}
	if a.caddys, err = AdminAddress(ctx); err != nil {
		return err
	}
	if err := CheckAdminEndpoint(a.caddys); err != nil {
		return err
	}
	if a.Admin != nil {
		listener, err := ctx.LoadModuleByID("fareway.admin", a.Admin)
		if err != nil {
			return err
		}
		a.admin = listener.(adminListener)
	}
	if err := checkChains(ctx); err != nil {
		return err
	}
	if err := watchCertificates(ctx); err != nil {
		return err
	}
	path, err := filepath.Abs(a.Config)
	if err != nil {
		return fmt.Errorf("finding the configuration file: %w", err)
	}
	cfg, diags := a.load(ctx, path)
	if diags.HasErrors() {
		return &loadError{path: path, err: diags}
	}
	engine.LogFindings(a.log, diags) // warnings
	a.warnOfOthers(cfg)
	a.cfg = cfg
	if _, running := engines.References(a.Data); running {
		return a.Open()
	}
	return nil
}

// load reads the HCL file, with the plugins of the gateway that this process runs already, if there is one.
func (a *App) load(ctx caddy.Context, path string) (*config.Config, *config.Diagnostics) {
	if e := runningEngine(a.Data); e != nil {
		return e.Load(ctx, path, nil)
	}
	return engine.CheckConfig(ctx, path, a.log)
}

// ShareSockets has the servers of the configuration listen at the process's sockets, where it has any. All that is to
// be known of them has to be known by then, so it provisions them. It is called before Caddy starts its apps, where
// there is an admin API.
func (a *App) ShareSockets(ctx caddy.Context) error {
	v, err := ctx.AppIfConfigured("http")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil
	}
	if err != nil {
		return err
	}
	a.http = v.(*caddyhttp.App)
	shareSockets(a.http)
	if hasGiven() && a.http.ShutdownDelay == 0 {
		// At exit, connections that have just been taken get the time to send their request (see watchExit).
		a.http.ShutdownDelay, a.leavesQueues = caddy.Duration(leaveQueues), true
	}
	predecessor, err := findPredecessor()
	if predecessor == nil {
		return err
	}
	// An address that cannot be had is to be found while the process before this one can still go on.
	if a.taken, err = takeAddresses(a.ctx, a.http); err != nil {
		predecessor.fail(err)
	}
	return err
}

// Open leases the engine and starts what the HCL file names. Only the first call does anything: the admin API calls it
// before Caddy takes the admin address, so that a gateway that cannot start leaves a running one's socket alone, and
// Start does where there is no admin API.
func (a *App) Open() (err error) {
	if a.engine.Load() != nil {
		return nil
	}
	predecessor, err := findPredecessor()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			predecessor.fail(err)
		}
	}()
	if serving.Load() == nil {
		// Caddy listens before it has loaded the certificates: who comes in between is refused.
		pauseListening()
	}
	e, err := leaseEngine(a.Data, a.cfg, a.log, predecessor)
	if err != nil {
		return fmt.Errorf("starting the gateway on %s: %w", a.Data, err)
	}
	a.engine.Store(e)
	if predecessor != nil {
		gatePackets(e.PredecessorsEnded())
	}
	if a.live, err = e.Live(a.ctx, a.cfg); err != nil {
		return &loadError{path: a.cfg.Path, err: err}
	}
	for _, c := range e.Metrics().Collectors() {
		if err := a.ctx.GetMetricsRegistry().Register(c); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// Start makes this configuration the one that serves.
func (a *App) Start() error {
	if err := a.Open(); err != nil {
		return err
	}
	tuneMemory()
	e := a.Engine()
	address := a.Health
	if address == "" {
		socket, err := MakeSocketPath(a.Data, "health.sock")
		if err != nil {
			return err
		}
		address = "unix/" + socket
	}
	a.health = &healthServer{engine: e, address: address}
	if err := a.health.start(a.log); err != nil {
		return err
	}
	addresses := []string{a.caddys}
	if a.admin != nil {
		if err := a.admin.Start(a.Data, e, a.log); err != nil {
			return err
		}
		addresses = append(addresses, a.admin.Address())
	}
	sockets := make([]string, 0, 3)
	for _, at := range append(addresses, address) {
		if path, ok := strings.CutPrefix(at, "unix/"); ok {
			path, _, _ = strings.Cut(path, "|") // permissions
			sockets = append(sockets, path)
		}
	}
	keepSockets(a.ctx, e, a.log, sockets...)
	if err := WriteAddresses(a.Data, addresses...); err != nil {
		return err
	}
	if names := a.endpoints.Load(); names != nil {
		e.Metrics().Endpoints(*names...)
	}
	if validities := certificatesOf(a.ctx); validities != nil {
		e.Metrics().WatchCertificates(validities)
	}
	e.SetLogger(a.log)
	e.SetCertificates(func() []engine.Certificate { return findCertificates(a.ctx) })
	a.live.Start()
	if err := a.succeed(); err != nil {
		return err
	}
	feedWatchdog(e.Logger())
	handleHangup()
	handleInterrupt()
	go watchExit(a.ctx, e, a.shutdownDelay(), a.leavesQueues)
	return nil
}

// succeed puts this configuration in the place of the one that served, in this process or in the one before it.
func (a *App) succeed() error {
	predecessor, err := findPredecessor()
	if err != nil {
		return err
	}
	a.before = serving.Swap(a)
	if b := a.before; b != nil && b.http != nil {
		// The addresses stay, so Caddy need not go on serving at them for those who have not noticed; that they do it
		// cannot see where their sockets are the process's.
		b.shutdownDelayed, b.http.ShutdownDelay = b.http.ShutdownDelay, 0
	}
	first := a.before == nil
	if predecessor != nil && first {
		alone := a.Engine().PredecessorsEnded()
		if err := errors.Join(a.takeRelayed(alone), a.takePackets(alone)); err != nil {
			return err
		}
	}
	go func() {
		active := a.awaitActive()
		if active && first {
			a.awaitCertificates()
			settleSockets(a.http, a.log)
		}
		if active {
			if err := serveQUIC(a.ctx, a.http); err != nil {
				a.log.Error("the gateway serves without HTTP/3", "error", err)
			}
		}
		resumeListening()
		if active {
			predecessor.serve()
		}
		for _, ln := range a.taken { // Caddy has it by now
			_ = ln.Close()
		}
	}()
	return nil
}

// awaitActive waits until Caddy has started all of the configuration, which it tells nobody; false where it does not.
func (a *App) awaitActive() bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if active := caddy.ActiveContext(); active.Context != nil {
			if v, err := active.AppIfConfigured("fareway"); err == nil && v == caddy.App(a) {
				return true
			}
		}
		select {
		case <-a.ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// serving is the app whose configuration serves in this process; nil before the first one.
var serving atomic.Pointer[App]

// stopProbes closes the connections of health checks: the process that takes this one's place answers them.
func (a *App) stopProbes() { a.health.server.SetKeepAlivesEnabled(false) }

// Stop does nothing: Caddy stops apps in no particular order, and live streams go on over a reload. At exit
// the engine drains by itself (see watchExit); everything else is given back in Cleanup.
func (a *App) Stop() error { return nil }

// Cleanup gives back what Provision acquired. It also runs after a Provision that failed.
func (a *App) Cleanup() error {
	if a.Engine() == nil {
		return nil
	}
	if b := a.before; serving.CompareAndSwap(a, b) && b != nil && b.http != nil {
		b.http.ShutdownDelay = b.shutdownDelayed // this one did not come to serve
	}
	a.before = nil
	if a.health != nil {
		a.health.stop()
	}
	if a.live != nil {
		a.live.Retire()
	}
	_, err := engines.Delete(a.Data)
	return err
}

// SetEndpoints says which endpoints there are, for the metrics. All sites have the same.
func (a *App) SetEndpoints(names []string) { a.endpoints.Store(&names) }

// Engine is the engine that this configuration runs on, nil while it is not open: for a moment at the start of a
// gateway whose admin endpoint is off, and always in a configuration that is only validated.
func (a *App) Engine() *engine.Engine { return a.engine.Load() }

var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
