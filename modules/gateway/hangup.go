package gateway

import (
	"context"
	"os"
	"os/signal"
	"sync"

	"github.com/fareway/fareway/modules/internal/engine"
)

var hangups sync.Once

// handleHangup makes SIGHUP open log files anew and load the HCL file at once, for as long as the process lives.
// Caddy, which has no use for the signal and says so in the log, gets it no more.
func handleHangup() {
	if hangup == nil {
		return
	}
	hangups.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Ignore(hangup) // takes it from whoever had it, without a moment in which it would end the process
		signal.Notify(signals, hangup)
		go func() {
			for range signals {
				reloadOnHangup(context.Background())
			}
		}()
	})
}

// reloadOnHangup opens the log files anew, and then loads the files of all gateways of this process. What comes of it
// is in their logs and states.
func reloadOnHangup(ctx context.Context) {
	err := openFiles.reopen()
	for _, e := range runningEngines() {
		if err != nil {
			e.Logger().Error("opening log files anew, for SIGHUP", "error", err)
		}
		e.ReopenRequestLog(ctx)
		e.Logger().Info("loading the configuration file, for SIGHUP")
		_, _ = e.Reload(engine.WithCause(ctx, "SIGHUP"))
	}
}

// runningEngines are those of this process.
func runningEngines() (running []*engine.Engine) {
	engines.Range(func(_, value any) bool {
		if p, ok := value.(pooledEngine); ok {
			running = append(running, p.Engine)
		}
		return true
	})
	return running
}
