package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/plugins/families"
)

// A process whose place is taken has connections that its clients go on using, and no ledger. It gives what still
// comes over them to the other one, by a socket in the data folder, and has the clients close the connections.

// relaySocket is where the other one takes such requests.
const relaySocket = "relay.sock"

// readRelayed bounds the reading of a request's header, which came whole.
const readRelayed = 10 * time.Second

// What is said of a request's connection, by headers that only this socket knows.
const (
	relayedFrom = "Fareway-Relayed-From" // the client's address
	relayedAt   = "Fareway-Relayed-At"   // which of our addresses it came to
	relayedName = "Fareway-Relayed-Name" // the name in its TLS handshake
	relayedTLS  = "Fareway-Relayed-Tls"  // the version of TLS, a number; "" without it
	relayedEnds = "Fareway-Relayed-Ends" // when the process that relays ends, and the reply has to: RFC 3339
)

// endRelayedWithin is how long a relayed reply may take to end when it has to, until its connection does.
const endRelayedWithin = 2 * time.Second

// relay gives requests to the process after this one.
type relay struct {
	served chan struct{} // closed when that takes them, or cannot
	err    error         // why it cannot; read after served is closed
	ends   time.Time     // when this process's drain is over; read after served is closed
	proxy  httputil.ReverseProxy
}

// relaying is the process's, nil while it admits requests itself.
var relaying atomic.Pointer[relay]

func newRelay(data string, log *slog.Logger) (*relay, error) {
	path, err := MakeSocketPath(data, relaySocket)
	if err != nil {
		return nil, err
	}
	r := &relay{served: make(chan struct{})}
	r.proxy = httputil.ReverseProxy{
		Rewrite:       r.rewrite,
		FlushInterval: -1,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
			DisableCompression: true, // a reply goes through as it is
			DisableKeepAlives:  true, // who is there may have been replaced, too
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				log.Error("a request could not be given to the process that takes this one's place", "error", err)
			}
			refuseRelayed(w, r.Context().Value(relayedCall{}).(*Call))
		},
	}
	return r, nil
}

// answer says how the start of the other process has ended, and when this one ends at the latest.
func (r *relay) answer(err error, ends time.Time) {
	r.err, r.ends = err, ends
	close(r.served)
}

// relayedCall is the key of a request's call in the context of one that is relayed.
type relayedCall struct{}

// refuseRelayed answers for a process that is not there.
func refuseRelayed(w http.ResponseWriter, call *Call) {
	w.Header().Set("Retry-After", "1")
	_ = call.Refuse(w, &families.Error{Status: http.StatusServiceUnavailable, Code: families.UpstreamError,
		Message: "The service is being replaced. Try again in a few seconds." + families.Support})
}

// Relays reports whether another process takes this one's place, for good. A request that asks has to have begun
// before: those that Upgrade does not wait for see it.
func Relays() bool { return relaying.Load() != nil }

// Relay answers a request that has begun by the process that takes this one's place. It panics as its proxy does when
// the reply cannot be finished. A refusal is of the call's family.
func Relay(w http.ResponseWriter, r *http.Request, call *Call) {
	to := relaying.Load()
	call.Work.Enter()
	if r.ProtoMajor < 3 {
		w.Header().Set("Connection", "close") // over HTTP/2, too: its server says GOAWAY then
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), relayedCall{}, call))
	defer cancel()
	defer context.AfterFunc(call.Work.Stopping(), func() {
		// The other process ends the reply by now. A client that takes nothing of it keeps neither from its end.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(endRelayedWithin))
		time.AfterFunc(endRelayedWithin, cancel)
	})()
	select {
	case <-to.served:
		if to.err == nil {
			to.proxy.ServeHTTP(w, r.WithContext(ctx))
			return
		}
	case <-ctx.Done():
	}
	refuseRelayed(w, call)
}

// rewrite leaves a request as it came, and says what its connection was, and until when it may take: the other process
// would take the end of this one for a client that has left.
func (r *relay) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", "gateway", p.In.Host
	for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := p.In.Header[name]; ok {
			p.Out.Header[name] = values
		}
	}
	h := p.Out.Header
	h.Set(relayedFrom, p.In.RemoteAddr)
	if at, ok := p.In.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		h.Set(relayedAt, at.String())
	}
	h.Del(relayedTLS)
	ends := r.ends
	if before := RelayEnds(p.In.Context()); before != nil {
		if of, ok := before.Deadline(); ok && of.Before(ends) {
			ends = of
		}
	}
	h.Set(relayedEnds, ends.Format(time.RFC3339Nano))
	if p.In.TLS != nil {
		h.Set(relayedTLS, strconv.Itoa(int(p.In.TLS.Version)))
		h.Set(relayedName, p.In.TLS.ServerName)
	}
}

// takeRelayed serves what the process before this one gets until alone is closed. It returns when it listens.
func (a *App) takeRelayed(alone <-chan struct{}) error {
	ln, err := a.listenToPredecessors(relaySocket, alone)
	if err != nil {
		return fmt.Errorf("taking requests of the process before this one: %w", err)
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(serveRelayed),
		ReadHeaderTimeout: readRelayed,
		ConnContext:       WithConn,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	takingRelayed.Store(server)
	go func() { _ = server.Serve(ln) }() // it ends when it is closed
	go func() {
		<-alone
		_ = server.Shutdown(context.Background()) // nothing is left, but for what a process that was killed has sent
	}()
	return nil
}

// takingRelayed is the server of relayed requests, nil for none.
var takingRelayed atomic.Pointer[http.Server]

// finishRelayed waits until what was answered by the last relayed requests has been written, for a process that ends.
func finishRelayed() {
	if server := takingRelayed.Load(); server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endRelayedWithin)
		defer cancel()
		_ = server.Shutdown(ctx) // nobody takes what is left
	}
}

// listenToPredecessors listens at a socket in the data folder for the processes before this one, until alone is
// closed. It may be the next process's by then.
func (a *App) listenToPredecessors(name string, alone <-chan struct{}) (net.Listener, error) {
	path, err := MakeSocketPath(a.Data, name)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // the one before has it open, too
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(a.ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	err = os.Chmod(path, 0o600)
	own, errOwn := os.Lstat(path)
	if err := errors.Join(err, errOwn); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	go func() {
		<-alone
		_ = ln.Close()
		if is, err := os.Lstat(path); err == nil && os.SameFile(is, own) {
			_ = os.Remove(path)
		}
	}()
	return ln, nil
}

// serveRelayed serves a request as the server does at whose address it came, in the configuration that serves.
func serveRelayed(w http.ResponseWriter, r *http.Request) {
	server := relayedServer(r.Header.Get(relayedAt))
	if server == nil {
		panic(http.ErrAbortHandler) // the process that relays it refuses it
	}
	r.RemoteAddr = r.Header.Get(relayedFrom)
	if at, err := netip.ParseAddrPort(r.Header.Get(relayedAt)); err == nil { // for the next process, if there is one
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.TCPAddrFromAddrPort(at)))
	}
	if version, err := strconv.ParseUint(r.Header.Get(relayedTLS), 10, 16); err == nil {
		r.TLS = &tls.ConnectionState{Version: uint16(version), HandshakeComplete: true,
			ServerName: r.Header.Get(relayedName)}
	}
	if at, err := time.Parse(time.RFC3339Nano, r.Header.Get(relayedEnds)); err == nil {
		ends, cancel := context.WithDeadline(context.Background(), at)
		defer cancel()
		r = r.WithContext(context.WithValue(r.Context(), relayEnds{}, ends))
	}
	for _, name := range [...]string{relayedFrom, relayedAt, relayedName, relayedTLS, relayedEnds} {
		r.Header.Del(name)
	}
	server.ServeHTTP(w, r)
}

// relayEnds is the key of a context that is done when the process that relays a request has to end.
type relayEnds struct{}

// RelayEnds is done when the process that relays a request, by the request's context, ends it; nil for one that is not
// relayed.
func RelayEnds(request context.Context) context.Context {
	ends, _ := request.Value(relayEnds{}).(context.Context)
	return ends
}

// relayedServer is the server at an address, nil for none.
func relayedServer(address string) *caddyhttp.Server {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil
	}
	app := serving.Load()
	if app == nil || app.http == nil {
		return nil
	}
	var ofAll *caddyhttp.Server // at all of the machine's addresses
	for _, server := range app.http.Servers {
		for _, ln := range server.Listeners() {
			has, err := netip.ParseAddrPort(ln.Addr().String())
			switch {
			case err != nil || has.Port() != at.Port():
			case has.Addr().Unmap() == at.Addr().Unmap():
				return server
			case has.Addr().IsUnspecified():
				ofAll = server
			}
		}
	}
	return ofAll
}
