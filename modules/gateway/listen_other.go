//go:build !linux

package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/internal/engine"
)

// On other systems Caddy binds its addresses itself, and no process takes another one's place.

func shareSockets(*caddyhttp.App) {}

func listen(addr caddy.NetworkAddress) (net.Listener, error) { return listenAsCaddy(addr) }

func takeAddresses(context.Context, *caddyhttp.App) ([]net.Listener, error) { return nil, nil }

func settleSockets(*caddyhttp.App, *slog.Logger) {}

func gatePackets(<-chan struct{}) {}

func (*App) takePackets(<-chan struct{}) error { return nil }

func serveQUIC(caddy.Context, *caddyhttp.App) error { return nil }

func pauseListening()  {}
func resumeListening() {}
func pauseGiven()      {}
func hasGiven() bool   { return false }

type predecessor struct{}

func findPredecessor() (*predecessor, error) { return nil, nil }

func (*predecessor) awaitLedger() error { return nil }
func (*predecessor) fail(error)         {}
func (*predecessor) serve()             {}

// Upgraded says which process has taken this one's place.
type Upgraded struct {
	PID     int
	Program string
	Version string
	Paused  time.Duration
	Running int
	Until   time.Time
}

// Upgrade is for Linux.
func Upgrade(context.Context, *engine.Engine, string) (Upgraded, error) {
	return Upgraded{}, errors.New("a process can take this one's place on Linux only: stop this gateway and start the " +
		"new program; what runs is finished first")
}
