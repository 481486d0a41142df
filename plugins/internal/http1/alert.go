package http1

import (
	"errors"
	"net"
)

// ErrTLS: the peer answered plain HTTP with an alert of TLS, as most servers do at a port with TLS.
var ErrTLS = errors.New("the peer speaks TLS")

// The first bytes of a record of TLS (RFC 8446 section 5.1).
const (
	alert     = 21
	handshake = 22
)

// Watch is a connection whose first Read fails with ErrTLS where the peer answers with an alert what was not TLS.
func Watch(c net.Conn) net.Conn { return &watched{Conn: c} }

type watched struct {
	net.Conn
	spoke, heard bool
	secured      bool // what was written first is TLS
}

func (w *watched) Write(p []byte) (int, error) {
	if !w.spoke && len(p) > 0 {
		w.spoke, w.secured = true, p[0] == handshake
	}
	return w.Conn.Write(p)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if !w.heard && n > 0 {
		w.heard = true
		if p[0] == alert && !w.secured {
			return 0, ErrTLS
		}
	}
	return n, err
}
