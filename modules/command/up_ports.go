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

// freePort finds a port that nobody listens on.
func freePort(host string) (string, error) {
	var err error
	for range 100 {
		port := strconv.Itoa(firstFreePort + rand.IntN(lastFreePort-firstFreePort+1))
		var ln net.Listener
		if ln, err = net.Listen("tcp", net.JoinHostPort(host, port)); err == nil {
			return port, ln.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return "", fmt.Errorf("finding a free port on %q: %w", host, err)
}
