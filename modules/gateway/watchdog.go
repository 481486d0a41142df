package gateway

import (
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

var watchdog sync.Once

// feedWatchdog tells the service manager that this process lives, if it wants to know (WATCHDOG_USEC), for as long as
// what each request goes through moves: a process whose engine hangs is ended, with the stacks of all goroutines in
// its log, and started again. Caddy tells it when it is ready, when it reloads and when it stops.
func feedWatchdog(log *slog.Logger) {
	watchdog.Do(func() {
		every, err := daemon.SdWatchdogEnabled(false)
		if err != nil {
			log.Error("reading how often the service manager wants to know that this process lives", "error", err)
		}
		if every > 0 {
			go feed(every/3, checkEngines, func() {
				_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) // it notices by itself
			})
		}
	})
}

// feed calls tell each time that check has returned, for ever.
func feed(every time.Duration, check, tell func()) {
	for {
		check()
		tell()
		<-time.After(every)
	}
}

// checkEngines returns unless an engine of this process hangs.
func checkEngines() {
	for _, e := range runningEngines() {
		e.CheckAlive()
	}
}
