//go:build !linux

package entry

import "net"

// boundUnsent does nothing here.
func boundUnsent(net.Conn) {}
