package admin

import (
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
)

// actorHeader is where a client of the admin API says on whose behalf it asks.
const actorHeader = "X-Fareway-Actor"

// maxActor bounds it, in bytes.
const maxActor = 100

// actorOf is whom the audit trail puts a request down to: what its X-Fareway-Actor says, and how it came in, as in
// "ann@desk via socket" or "unknown via token". It is a statement of whoever holds the socket or the token, not a
// proof: they can state what they like. Characters that could be mistaken for something else in a log are question
// marks.
func actorOf(r *http.Request) string {
	if actor, ok := r.Context().Value(localActorKey{}).(string); ok {
		return actor
	}
	way := "token"
	switch {
	case overSocket(r):
		way = "socket"
	case byCertificate(r):
		way = "certificate"
	}
	who := []byte(r.Header.Get(actorHeader))
	who = who[:min(len(who), maxActor)]
	for i, c := range who {
		if c <= ' ' || c > '~' {
			who[i] = '?'
		}
	}
	if len(who) == 0 {
		who = []byte("unknown")
	}
	return string(who) + " via " + way
}

// overSocket reports whether a request came in on a unix socket.
func overSocket(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return local != nil && local.Network() == "unix"
}

// byCertificate reports whether the client has shown a certificate that the endpoint has verified. Only Caddy's own
// endpoint for remote administration asks for one, and has by now seen that this client may do this.
func byCertificate(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

// LocalActor is what commands say of themselves: the user and the host that they run as.
func LocalActor() string {
	name := "uid-" + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
