// Package gateway is the Caddy app "fareway": it leases the engine, loads the HCL file and hands the
// running configuration to the handlers. It also has the Caddyfile's global option, the admin API and the
// command line.
package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"

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

	engine *engine.Engine
	gen    *engine.Generation
	health *healthServer
	log    *slog.Logger
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "fareway", New: func() caddy.Module { return new(App) }}
}

// defaultDataDir is where a gateway keeps its data unless told otherwise.
func defaultDataDir() string { return filepath.Join(caddy.AppDataDir(), "fareway") }

// Provision leases the engine, loads the HCL file and starts its providers.
func (a *App) Provision(ctx caddy.Context) error {
	a.log = ctx.Slogger()
	if a.Config == "" {
		return errors.New("fareway: config is missing: name the HCL file, as in `fareway { config gateway.hcl }`")
	}
	data, err := filepath.Abs(cmp.Or(a.Data, defaultDataDir()))
	if err != nil {
		return fmt.Errorf("finding the data folder: %w", err)
	}
	path, err := filepath.Abs(a.Config)
	if err != nil {
		return fmt.Errorf("finding the configuration file: %w", err)
	}

	cfg, diags := engine.CheckConfig(ctx, path, a.log)
	if diags.HasErrors() {
		return fmt.Errorf("loading %s:\n%w", path, diags)
	}
	e, err := leaseEngine(data, cfg, a.log)
	if err != nil {
		return fmt.Errorf("starting the gateway on %s: %w", data, err)
	}
	a.Data, a.engine = data, e
	if a.gen, err = e.Prepare(ctx, cfg); err != nil {
		return fmt.Errorf("loading %s: %w", path, err)
	}
	for _, c := range e.Metrics().Collectors() {
		if err := ctx.GetMetricsRegistry().Register(c); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	address := a.Health
	if address == "" {
		socket, err := makeSocketPath(data, "health.sock")
		if err != nil {
			return err
		}
		address = "unix/" + socket
	}
	a.health = &healthServer{engine: e, address: address}
	return nil
}

// Start makes this configuration the one that serves.
func (a *App) Start() error {
	if err := a.health.start(a.log); err != nil {
		return err
	}
	a.engine.SetLogger(a.log)
	a.engine.Activate(a.gen)
	return nil
}

// Stop does nothing: Caddy stops apps in no particular order, and live streams go on over a reload. At exit
// the engine drains by itself (see watchExit); everything else is given back in Cleanup.
func (a *App) Stop() error { return nil }

// Cleanup gives back what Provision acquired. It also runs after a Provision that failed.
func (a *App) Cleanup() error {
	if a.engine == nil {
		return nil
	}
	if a.health != nil {
		a.health.stop()
	}
	if a.gen != nil {
		a.engine.Retire(a.gen)
	}
	_, err := engines.Delete(a.Data)
	return err
}

// Engine is the engine that this configuration runs on.
func (a *App) Engine() *engine.Engine { return a.engine }

var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
