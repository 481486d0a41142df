package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
)

// engines holds the engines in use, by data folder. A configuration leases one in Provision and gives it
// back in Cleanup; because a reload provisions the new configuration first, one engine outlives them all.
var engines = caddy.NewUsagePool()

// pooledEngine is an engine in the pool, with the goroutine that watches for the end of the process.
type pooledEngine struct {
	*engine.Engine
	unwatch context.CancelFunc
}

func leaseEngine(data string, cfg *config.Config, log *slog.Logger) (*engine.Engine, error) {
	v, _, err := engines.LoadOrNew(data, func() (caddy.Destructor, error) {
		e, err := engine.Open(engine.Options{DataDir: data, Logger: log}, cfg)
		if err != nil {
			return nil, err
		}
		watch, unwatch := context.WithCancel(context.Background())
		go watchExit(watch, e)
		return pooledEngine{e, unwatch}, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(pooledEngine).Engine, nil
}

// watchExit begins the drain as soon as the process is exiting. Caddy tells no app: it stops them in map
// order, and the HTTP app's Stop blocks until its streams end, which only the drain bounds.
func watchExit(ctx context.Context, e *engine.Engine) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if caddy.Exiting() {
				e.Drain()
				return
			}
		}
	}
}

// Destruct ends the engine when no configuration uses it any more. While the process goes on without a
// gateway, streams of the last configuration are still served to their end, beside the reload.
func (p pooledEngine) Destruct() error {
	p.unwatch()
	if caddy.Exiting() {
		return p.Close()
	}
	go func() {
		if err := p.Close(); err != nil {
			p.Logger().Error("ending the gateway", "error", err)
		}
	}()
	return nil
}
