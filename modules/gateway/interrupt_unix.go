//go:build unix

package gateway

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

var interrupts sync.Once

// handleInterrupt takes SIGINT from Caddy, whose second one ends the process at once, with replies that are neither
// ended nor charged. The first begins the end, as SIGTERM does; the second ends the requests that run, which settle;
// only the third waits for nothing.
func handleInterrupt() {
	interrupts.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Ignore(os.Interrupt) // takes it from whoever had it, without a moment in which it would end the process
		signal.Notify(signals, os.Interrupt)
		go func() {
			<-signals
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			<-signals
			caddy.Log().Warn("ending the requests that run", zap.String("signal", "SIGINT"))
			for _, e := range runningEngines() {
				e.EndDrain()
			}
			<-signals
			caddy.Log().Warn("force quit", zap.String("signal", "SIGINT"))
			os.Exit(caddy.ExitCodeForceQuit)
		}()
	})
}
