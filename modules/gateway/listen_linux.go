package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/coreos/go-systemd/v22/activation"

	"github.com/fareway/fareway/modules/internal/sockets"
)

// Sites listen at sockets that this process keeps for as long as anybody uses them (package sockets), where Caddy
// would bind a new one at each reload. Caddy gets at them as at a network of its own kind: `fareway` is `tcp`, and so
// on. shareSockets puts that into the servers of a configuration when it is provisioned, once Caddy has read from the
// addresses what it makes of them (certificates, redirects); people write addresses as ever.

// sharedNetwork and sharedPackets are the beginnings of those networks' names: "fareway4" is "tcp4".
const (
	sharedNetwork = "fareway"
	sharedPackets = "fareway-udp"
)

// listening are the process's sockets.
var listening sockets.Set

func init() {
	for _, version := range [...]string{"", "4", "6"} {
		caddy.RegisterNetwork(sharedNetwork+version, listenShared)
		caddy.RegisterNetwork(sharedPackets+version, listenShared)
		caddyhttp.RegisterNetworkHTTP3(sharedNetwork+version, sharedPackets+version)
	}
}

// listenShared implements caddy.ListenerFunc.
func listenShared(ctx context.Context, network, host, ports string, offset uint, config net.ListenConfig) (any, error) {
	first, _, _ := strings.Cut(ports, "-")
	port, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("reading the port %q: %w", ports, err)
	}
	address := net.JoinHostPort(host, strconv.FormatUint(port+uint64(offset), 10))
	if strings.HasPrefix(network, sharedPackets) {
		at := caddy.NetworkAddress{Network: network, Host: host, StartPort: uint(port) + offset, EndPort: uint(port) + offset}
		return listenQUIC(ctx, at, config)
	}
	return listening.Listen(ctx, "tcp"+strings.TrimPrefix(network, sharedNetwork), address, config)
}

// shareSockets makes the servers of an app, which is provisioned and not started, listen at the process's sockets.
// A port that the system chooses stays Caddy's, and so does what is no TCP.
func shareSockets(app *caddyhttp.App) {
	wrapped.Clear() // of the configuration before
	for _, server := range app.Servers {
		for i, address := range server.Listen {
			addr, err := caddy.ParseNetworkAddress(address)
			version, tcp := strings.CutPrefix(addr.Network, "tcp")
			if err != nil || !tcp || addr.StartPort == 0 {
				continue
			}
			addr.Network = sharedNetwork + version
			server.Listen[i] = addr.String()
		}
	}
}

// takeAddresses listens at the addresses of an app's servers as they will, and takes no connection.
func takeAddresses(ctx context.Context, app *caddyhttp.App) (taken []net.Listener, err error) {
	for _, server := range app.Servers {
		for _, address := range server.Listen {
			addr, err := caddy.ParseNetworkAddress(address)
			if err != nil || !strings.HasPrefix(addr.Network, sharedNetwork) {
				continue
			}
			for offset := range addr.PortRangeSize() {
				ln, err := addr.Listen(ctx, offset, net.ListenConfig{})
				if err != nil {
					for _, ln := range taken {
						_ = ln.Close()
					}
					return nil, fmt.Errorf("listening on %s: %w", addr.JoinHostPort(offset), err)
				}
				taken = append(taken, ln.(net.Listener))
			}
		}
	}
	return taken, nil
}

// listen is addr.Listen at the process's sockets, where it is an address of TCP.
func listen(addr caddy.NetworkAddress) (net.Listener, error) {
	if version, tcp := strings.CutPrefix(addr.Network, "tcp"); tcp && addr.StartPort != 0 {
		return listening.Listen(context.Background(), "tcp"+version, addr.JoinHostPort(0), net.ListenConfig{})
	}
	return listenAsCaddy(addr)
}

// takeSockets takes up the sockets that this process was started with, by a service manager or the process before it.
var takeSockets = sync.OnceValue(func() error {
	before := os.Getenv(successionVariable)
	if before != "" {
		// It could not know this when it set the environment.
		if err := os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
	}
	all := activation.Files(true)
	own := slices.IndexFunc(all, func(f *os.File) bool { return f.Name() == inheritedSocket })
	if own < 0 || before == "" { // names are a service manager's, and may be any
		own = len(all)
	}
	return errors.Join(listening.Give(all[:own]...), listening.Inherit(all[own:]...))
})

// inheritedSocket is the name, in LISTEN_FDNAMES, of a socket that the process before this one has bound.
const inheritedSocket = "inherited"

// settleSockets closes sockets of the process before this one at which the first configuration does not listen, and
// tells of a service manager's: what is sent there waits for ever.
func settleSockets(app *caddyhttp.App, log *slog.Logger) {
	listening.Settle()
	if app != nil {
		for _, server := range app.Servers {
			if slices.ContainsFunc(server.Listen, func(a string) bool { return strings.HasPrefix(a, "fd") }) {
				return // by their numbers: who has which is not known
			}
		}
	}
	for _, unused := range listening.Unused() {
		log.Warn("the service manager has given this process a socket at which no site listens: whoever connects there "+
			"waits in vain; take it out of the socket unit, or give it a site", "network", unused.Network(),
			"address", unused.String())
	}
}

// gatePackets leaves packets of the sockets that the process before this one has, too, to that, until alone is closed.
func gatePackets(alone <-chan struct{}) { listening.GatePackets(alone) }

// pauseListening leaves connections in the queues of their sockets until resumeListening.
func pauseListening()  { listening.Pause() }
func resumeListening() { listening.Resume() }

// pauseGiven leaves them in the queues of those sockets that outlive this process, which hasGiven says there are.
func pauseGiven()    { listening.PauseGiven() }
func hasGiven() bool { return listening.HasGiven() }
