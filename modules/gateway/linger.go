package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// Linger lets clients read the replies to requests whose bodies nobody has read (GAP-138). Over HTTP/1 a server that
// closes a connection on which more comes in resets it, and the reset overtakes the reply: most clients then tell of
// the connection, and not of the refusal. So the reply is sent whole, then the end of what is sent, and what still
// comes is thrown away for a while, within bounds that leave whoever trickles nothing to gain.
//
// net/http would read up to 256 KiB before the reply, however long it takes, and behind that wait for half a second
// without reading. Over HTTP/2 the stream is ended (END_STREAM, then RST_STREAM with NO_ERROR) when the client has
// sent its body or more than it may: some clients (httpx) wait for leave to send the rest, and look at nothing else.
// Over HTTP/3 it is ended at once.
//
// The zero Linger is ready. There is one for the process, Lingering: what it bounds outlives a reload.
type Linger struct {
	mu    sync.Mutex
	count map[netip.Prefix]int // by the client's network, as limits count addresses
	all   int
}

// Lingering is the process's.
var Lingering Linger

// Lingers are connections that will be closed. Those above the bounds are closed at once.
const (
	lingersOfAddress = 64
	lingersInAll     = 4096
)

// lingerIdle is how long nothing may come.
const lingerIdle = 500 * time.Millisecond

// worthReading is how much of a body of known length is read so that the connection can be used again, in bytes. It is
// net/http's own measure.
const worthReading = 256 << 10

// framing is what comes with a body beside it, in bytes: the sizes of its chunks, its trailer.
const framing = 64 << 10

// allowance is what one client's connection may still take.
type allowance struct {
	until time.Time
	bytes int64
}

// allowFor bounds the reading for a client that is known, by its key, or that anybody could be.
func allowFor(known bool, now time.Time) allowance {
	if known {
		return allowance{now.Add(5 * time.Second), 64<<20 + framing}
	}
	return allowance{now.Add(500 * time.Millisecond), 4<<20 + framing}
}

type connKey struct{}

// WithConn is the ConnContext of the servers whose replies linger.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Announce prepares a reply, before its header is written, to a request whose body has not been read. It says that the
// connection ends where it will: behind a long body, one of unknown length, and one that the client sends only when it
// is asked to (RFC 9110, 10.1.1).
func (l *Linger) Announce(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return
	}
	// Or net/http would read first. Not every writer has this; those of real connections do.
	_ = http.NewResponseController(w).EnableFullDuplex()
	if r.ContentLength < 0 || r.ContentLength > worthReading || asksFirst(r) {
		w.Header().Set("Connection", "close")
	}
}

// asksFirst reports whether the client sends its body only when it is asked to. Reading would ask.
func asksFirst(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Expect"), "100-continue")
}

// End ends a request that Announce was called for, when its reply has been written: with the rest of its body, and the
// connection is ready for the next, or with the connection. known is whether the request had a good key. It belongs
// behind everything else that is done for the request: what takes seconds here must not hold anything.
func (l *Linger) End(w http.ResponseWriter, r *http.Request, known bool) {
	if r.ContentLength == 0 {
		return
	}
	allowed := allowFor(known, time.Now())
	switch {
	case r.ProtoMajor == 2 && !asksFirst(r):
		l.endStream(w, r, &allowed)
	case r.ProtoMajor == 1 && w.Header().Get("Content-Length") != "":
		l.endConnection(w, r, &allowed)
	}
	// Without a length, as of a compressed reply, its end is net/http's to write, behind the handler.
}

func (l *Linger) endStream(w http.ResponseWriter, r *http.Request, allowed *allowance) {
	network := ratelimit.NetworkOf(ClientAddress(r))
	if !l.acquire(network) {
		return
	}
	defer l.release(network)
	control := http.NewResponseController(w)
	if control.Flush() == nil {
		_ = allowed.read(r.Body, control.SetReadDeadline)
	}
}

func (l *Linger) endConnection(w http.ResponseWriter, r *http.Request, allowed *allowance) {
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		return
	}
	if w.Header().Get("Connection") != "close" && errors.Is(allowed.read(r.Body, control.SetReadDeadline), io.EOF) {
		return
	}
	conn, ok := r.Context().Value(connKey{}).(net.Conn)
	if !ok {
		return // outside of a server of ours
	}
	// net/http would read on, under deadlines of Caddy's.
	defer conn.Close()
	network := ratelimit.NetworkOf(ClientAddress(r))
	if !l.acquire(network) {
		return
	}
	defer l.release(network)
	closeWrite(conn)
	_ = allowed.read(conn, conn.SetReadDeadline)
}

// discarded are the rooms that what nobody wants is read into.
var discarded = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// read throws away what comes, up to its end, which is io.EOF, or that of what is allowed.
func (a *allowance) read(from io.Reader, setDeadline func(time.Time) error) error {
	room := discarded.Get().(*[16 << 10]byte)
	defer discarded.Put(room)
	var armed time.Time
	for a.bytes > 0 {
		// A deadline for each read would cost an HTTP/2 stream more than the reading.
		if now := time.Now(); now.Sub(armed) > lingerIdle/10 {
			deadline := now.Add(lingerIdle)
			if deadline.After(a.until) {
				deadline = a.until
			}
			if err := setDeadline(deadline); err != nil {
				return err // without one it could take for ever
			}
			armed = now
		}
		n, err := from.Read(room[:min(int64(len(room)), a.bytes)])
		a.bytes -= int64(n)
		if err != nil {
			return err
		}
	}
	return nil
}

// acquire counts one more connection, and is false when there are enough.
func (l *Linger) acquire(network netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= lingersInAll || l.count[network] >= lingersOfAddress {
		return false
	}
	if l.count == nil {
		l.count = make(map[netip.Prefix]int)
	}
	l.all++
	l.count[network]++
	return true
}

func (l *Linger) release(network netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.count[network]--; l.count[network] == 0 {
		delete(l.count, network)
	}
}

// closeWrite ends what is sent: TLS's end first, where there is TLS, and then the connection's.
func closeWrite(c net.Conn) {
	for ; c != nil; c = Inner(c) {
		if w, ok := c.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite() // it may be closed by now
		}
	}
}

// Inner is the connection that another is made of, such as that below TLS, nil where there is none.
func Inner(c net.Conn) net.Conn {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok { // of tls.Conn and listeners' wrappers
		return outer.NetConn()
	}
	// Caddy's own wrapper of connections without TLS has no method for it.
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.Kind() != reflect.Struct {
		return nil
	}
	if field := v.FieldByName("Conn"); field.IsValid() && field.CanInterface() {
		inner, _ := field.Interface().(net.Conn)
		return inner
	}
	return nil
}
