package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/modules/admin"
)

// checkPorts refuses an address that is in use. Caddy would not notice it when the other program is a Caddy as
// well: both listen with SO_REUSEPORT, and each gets a share of the connections. A plain listener is refused.
func (u *upRun) checkPorts(ctx context.Context, s *site) error {
	for _, address := range slices.Compact(slices.Sorted(slices.Values(s.listen))) {
		flag := "--listen"
		if address == s.admin {
			flag = "--admin"
		}
		if u.free != nil && portOf(address) == portOf(u.free.Addr().String()) {
			continue // it was tried, and is kept
		}
		ln, err := net.Listen("tcp", address)
		switch {
		case err == nil:
			if err := ln.Close(); err != nil {
				return fmt.Errorf("trying the address %s: %w", address, err)
			}
		case errors.Is(err, syscall.EADDRINUSE):
			return fmt.Errorf("%s is in use%s: stop what listens there, or choose another address with %s", address,
				u.runningHere(ctx, s), flag)
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("listening on %s is not allowed for this user: choose a port above 1023 with %s, or give the "+
				"executable the right to (setcap cap_net_bind_service=+ep)", address, flag)
		default:
			return fmt.Errorf("listening on %s: %w; choose another address with %s", address, err, flag)
		}
	}
	return nil
}

// runningHere tells whether another fareway runs on the same data folder.
func (u *upRun) runningHere(ctx context.Context, s *site) string {
	c, err := admin.NewClient(s.data, "")
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var v admin.Status
	if c.Call(ctx, "GET", "/fareway/status", nil, &v) != nil {
		return ""
	}
	return fmt.Sprintf(", and a gateway runs on %s already (process %d)", v.Data, v.PID)
}

// The ports that freePort chooses from lie below those that systems give to outgoing connections, which could
// otherwise take the port before Caddy listens on it.
const (
	firstFreePort = 10000
	lastFreePort  = 32767
)

// freePort finds a port that nobody listens on, and keeps it: another gateway that looks for one meanwhile does not
// find it. Caddy can listen there beside what is returned.
func freePort(host string) (net.Listener, error) {
	var err error
	for range 100 {
		port := firstFreePort + rand.UintN(lastFreePort-firstFreePort+1)
		var alone net.Listener
		if alone, err = net.Listen("tcp", net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))); err == nil {
			if err := alone.Close(); err != nil {
				return nil, err
			}
			return keepPort(host, port)
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("finding a free port on %q: %w", host, err)
}

// keepPort listens as Caddy does (listenReusable in its listen_unix.go): only this user's Caddys can do so beside it.
func keepPort(host string, port uint) (net.Listener, error) {
	address := caddy.NetworkAddress{Network: "tcp", Host: host, StartPort: port, EndPort: port}
	ln, err := address.Listen(context.Background(), 0, net.ListenConfig{})
	if err != nil {
		return nil, fmt.Errorf("keeping a free port: %w", err)
	}
	return ln.(net.Listener), nil
}

// giveUpFree gives up the port that freePort keeps, if there is one.
func (u *upRun) giveUpFree() {
	if u.free != nil {
		_ = u.free.Close() // Caddy listens there, or nobody will
		u.free = nil
	}
}

// portOf is the port of host:port.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
