package gateway

import (
	"context"
	"net"

	"github.com/caddyserver/caddy/v2"
)

// Listen takes an address of the gateway's own as a site takes one: the old and the new configuration share it during
// a reload, and the process that takes this one's place gets it.
func Listen(addr caddy.NetworkAddress) (net.Listener, error) { return listen(addr) }

// listenAsCaddy takes an address as Caddy does.
func listenAsCaddy(addr caddy.NetworkAddress) (net.Listener, error) {
	ln, err := addr.Listen(context.Background(), 0, net.ListenConfig{})
	if err != nil {
		return nil, err
	}
	return ln.(net.Listener), nil
}
