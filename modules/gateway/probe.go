package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A probe is a request that `gateway doctor` sends through the public address, to see what becomes of streams, bodies
// and addresses on the way. It takes the way that clients' requests take, with a credential in place of a key that the
// admin API has given out a moment before, and is answered by nobody's model: it costs nothing. Without such a
// credential it is a request with a malformed key.

const (
	// probePrefix begins the credentials of probes. No key begins so.
	probePrefix = "fwprobe_"
	// probeLife is how long one may wait to be used, maxProbes how many wait at a time, and maxRunningProbes how many of
	// the requests run at a time.
	probeLife        = 30 * time.Second
	maxProbes        = 64
	maxRunningProbes = 8

	maxProbeBody   = 64 << 20
	maxProbeRead   = 30 * time.Second // for all of its body
	maxProbeWrite  = 10 * time.Second // for each piece of the reply
	maxProbePlace  = 5 * time.Second  // until one of those that run has ended
	maxProbeEvents = 20
	maxProbePause  = 2 * time.Second
	maxProbeWait   = 10 * time.Minute
)

// ProbeOrder is the body of a probe. Whatever blanks follow make it larger.
type ProbeOrder struct {
	Events  int `json:"events"`         // of a stream, after the first; 0: the reply comes in one piece
	PauseMS int `json:"pause_ms"`       // before each of them
	WaitMS  int `json:"wait_ms"`        // before the reply begins
	Mark    int `json:"mark,omitempty"` // comes back
}

// ProbeSeen is what the gateway saw of a probe: the first event of its stream, or its reply.
type ProbeSeen struct {
	ClientIP  string   `json:"client_ip"` // that limits and the log go by
	Peer      string   `json:"peer"`      // of the connection
	Protocol  string   `json:"protocol"`  // as it came, "HTTP/2.0"
	TLS       bool     `json:"tls"`
	Host      string   `json:"host"`
	Forwarded []string `json:"forwarded"` // headers that a proxy has added
	// ForwardedFor is X-Forwarded-For as it came: for whom the proxies on the way say that they ask.
	ForwardedFor string `json:"forwarded_for,omitempty"`
	Body         int64  `json:"body"` // bytes of it that came
	Mark         int    `json:"mark,omitempty"`
}

// Probes are the credentials of probes that were given out.
var Probes = probes{running: make(chan struct{}, maxRunningProbes)}

type probes struct {
	running chan struct{} // a place for each request that runs

	some  atomic.Bool
	mu    sync.Mutex
	until map[string]time.Time
}

// Make gives one out.
func (p *probes) Make(now time.Time) (credential string, until time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	if len(p.until) >= maxProbes {
		return "", until, fmt.Errorf("there are %d probes at the moment: try again in half a minute", len(p.until))
	}
	if p.until == nil {
		p.until = make(map[string]time.Time)
	}
	credential, until = probePrefix+rand.Text(), now.Add(probeLife)
	p.until[credential] = until
	p.some.Store(true)
	return credential, until, nil
}

func (p *probes) forget(now time.Time) {
	for credential, until := range p.until {
		if !now.Before(until) {
			delete(p.until, credential)
		}
	}
	p.some.Store(len(p.until) > 0)
}

// Opens reports whether a credential is that of a probe, and uses it up: who has overheard one has nothing. While there
// is none it costs a comparison.
func (p *probes) Opens(credential string, now time.Time) bool {
	if !p.some.Load() || !IsProbe(credential) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	_, ok := p.until[credential]
	delete(p.until, credential)
	p.some.Store(len(p.until) > 0)
	return ok
}

// IsProbe reports whether a credential looks like that of a probe, of this gateway or of another one behind the same
// balancer. It can be no key: nobody tries out keys with it.
func IsProbe(credential string) bool { return strings.HasPrefix(credential, probePrefix) }

// forwarders are the headers by which proxies say for whom they ask.
var forwarders = []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Cf-Connecting-Ip", "True-Client-Ip"}

// SetStreamHead sets the headers of a stream's reply. no-transform is what keeps Caddy's encode from compressing, and
// so delaying, the stream, and X-Accel-Buffering nginx from holding it back.
func SetStreamHead(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// AnswerProbe answers a probe, as its body says. It ends when the gateway leaves: nobody has paid for it.
func AnswerProbe(leaving context.Context, w http.ResponseWriter, r *http.Request, c *Call) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	control := http.NewResponseController(w)
	defer context.AfterFunc(leaving, func() {
		cancel()
		_ = control.SetReadDeadline(time.Now()) // where it cannot be set the body is bounded by the server alone
	})()
	place := time.NewTimer(maxProbePlace)
	defer place.Stop()
	select {
	case Probes.running <- struct{}{}:
		defer func() { <-Probes.running }()
	case <-place.C:
		http.Error(w, fmt.Sprintf("%d probes run already", maxRunningProbes), http.StatusServiceUnavailable)
		return nil
	case <-ctx.Done():
		return nil
	}
	_ = control.SetReadDeadline(time.Now().Add(maxProbeRead))
	count := &countedReader{from: http.MaxBytesReader(w, r.Body, maxProbeBody)}
	var order ProbeOrder
	err := json.NewDecoder(io.LimitReader(count, 64<<10)).Decode(&order)
	if err == nil {
		_, err = io.Copy(io.Discard, count)
	}
	if err != nil {
		http.Error(w, "the body of a probe is a ProbeOrder, as JSON", http.StatusBadRequest)
		return nil
	}
	_ = control.SetReadDeadline(time.Time{})
	c.BodyRead = time.Now()
	first, err := json.Marshal(seeProbe(r, c, count.n, order.Mark))
	if err != nil {
		return err
	}
	if !pause(ctx, min(time.Duration(order.WaitMS)*time.Millisecond, maxProbeWait)) {
		return refuseLeaving(leaving, w)
	}
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	// Who has left, or takes nothing, is nobody to tell.
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(maxProbeWrite))
		_, err := io.WriteString(w, text)
		return err == nil && control.Flush() == nil
	}
	if order.Events <= 0 {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		send(string(first))
		return nil
	}
	SetStreamHead(w.Header())
	if !send("data: " + string(first) + "\n\n") {
		return nil
	}
	for range min(order.Events, maxProbeEvents) {
		if !pause(ctx, min(time.Duration(order.PauseMS)*time.Millisecond, maxProbePause)) || !send("data: {}\n\n") {
			return nil
		}
	}
	return nil
}

// refuseLeaving answers a probe that has waited when the gateway leaves.
func refuseLeaving(leaving context.Context, w http.ResponseWriter) error {
	if leaving.Err() != nil {
		http.Error(w, "the gateway is shutting down", http.StatusServiceUnavailable)
	}
	return nil
}

// seeProbe is what the gateway sees of a probe.
func seeProbe(r *http.Request, c *Call, body int64, mark int) ProbeSeen {
	seen := ProbeSeen{ClientIP: c.From.String(), Peer: r.RemoteAddr, Protocol: r.Proto, TLS: r.TLS != nil, Host: r.Host,
		Forwarded: []string{}, Body: body, Mark: mark}
	seen.ForwardedFor = strings.Join(r.Header.Values("X-Forwarded-For"), ", ")
	for _, name := range forwarders {
		if len(r.Header.Values(name)) > 0 {
			seen.Forwarded = append(seen.Forwarded, name)
		}
	}
	return seen
}

// pause waits, and reports whether somebody still does.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

type countedReader struct {
	from io.Reader
	n    int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}
