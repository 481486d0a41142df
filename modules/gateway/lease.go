package gateway

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/stores"
)

// engines holds the engines in use, by data folder. A configuration leases one in Provision and gives it
// back in Cleanup; because a reload provisions the new configuration first, one engine outlives them all.
var engines = caddy.NewUsagePool()

// pooledEngine is an engine in the pool.
type pooledEngine struct{ *engine.Engine }

func leaseEngine(data string, cfg *config.Config, log *slog.Logger, before *predecessor) (*engine.Engine, error) {
	v, _, err := engines.LoadOrNew(data, func() (caddy.Destructor, error) {
		o := engine.Options{DataDir: data, OpenStore: stores.Open, OpenLimiter: stores.OpenLimiter,
			OpenCache: stores.OpenCache, OpenConversations: stores.OpenConversations, OpenPeople: stores.OpenPeople,
			Logger: log, Version: Version()}
		if before != nil {
			o.BeforeLedger = func() error {
				if err := stores.CheckVersion(cfg.Store, data); err != nil {
					return err // while the process before this one can still go on
				}
				return before.awaitLedger()
			}
		}
		e, err := engine.Open(o, cfg)
		if err != nil {
			return nil, err
		}
		return pooledEngine{e}, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(pooledEngine).Engine, nil
}

// leaveQueues is how long a process that ends serves on when it takes no more connections: a few looks of watchExit.
const leaveQueues = 400 * time.Millisecond

// watchExit begins the drain as soon as the process is exiting, until ctx ends with this configuration. Caddy tells no
// app: it stops them in map order, and the HTTP app's Stop blocks for its shutdown_delay, in which requests are still
// sent here, and then until its streams end, which only the drain bounds.
//
// Where the sockets are a service manager's, connections are left in their queues from then on, to the next process:
// net/http resets those that it has just taken when it shuts down.
func watchExit(ctx context.Context, e *engine.Engine, delay time.Duration, leavesQueues bool) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if caddy.Exiting() {
				if leavesQueues {
					pauseGiven()
				}
				e.BeginDrain(delay)
				return
			}
		}
	}
}

// shutdownDelay is how long the HTTP app goes on listening when the process exits. It warns of a grace period that
// ends before the drain does.
func (a *App) shutdownDelay() time.Duration {
	app, err := a.ctx.AppIfConfigured("http")
	if err != nil {
		return 0 // it is not there
	}
	http := app.(*caddyhttp.App)
	grace, drain := time.Duration(http.GracePeriod), a.cfg.Gateway.DrainTimeout
	if grace > 0 && grace < drain {
		a.log.Warn("at exit, replies are cut off once grace_period is over: make it longer than drain_timeout",
			"grace_period", grace, "drain_timeout", drain)
	}
	return time.Duration(http.ShutdownDelay)
}

// Destruct ends the engine when no configuration uses it any more. While the process goes on without a
// gateway, streams of the last configuration are still served to their end, beside the reload.
func (p pooledEngine) Destruct() error {
	if caddy.Exiting() {
		if os.Getenv("INVOCATION_ID") != "" { // systemd.exec(5): it ends what is left of a service with its main process
			p.AwaitPredecessors()
		}
		defer finishRelayed()
		return p.Close()
	}
	go func() {
		if err := p.Close(); err != nil {
			p.Logger().Error("ending the gateway", "error", err)
		}
	}()
	return nil
}
