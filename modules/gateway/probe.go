package gateway

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	// probeLife is how long one is good for, and maxProbes how many are at a time.
	probeLife = 2 * time.Minute
	maxProbes = 64

	maxProbeBody   = 64 << 20
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
var Probes = probes{}

type probes struct {
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
		return "", until, fmt.Errorf("there are %d probes at the moment: try again in two minutes", len(p.until))
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

// Opens reports whether a credential is that of a probe. While there is none it costs a comparison.
func (p *probes) Opens(credential string, now time.Time) bool {
	if !p.some.Load() || !strings.HasPrefix(credential, probePrefix) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	_, ok := p.until[credential]
	return ok
}

// forwarders are the headers by which proxies say for whom they ask.
var forwarders = []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Cf-Connecting-Ip", "True-Client-Ip"}

// SetStreamHead sets the headers of a stream's reply. no-transform is what keeps Caddy's encode from compressing, and
// so delaying, the stream, and X-Accel-Buffering nginx from holding it back.
func SetStreamHead(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// AnswerProbe answers a probe, as its body says.
func AnswerProbe(w http.ResponseWriter, r *http.Request, c *Call) error {
	count := &countedReader{from: io.LimitReader(r.Body, maxProbeBody)}
	var order ProbeOrder
	err := json.NewDecoder(io.LimitReader(count, 64<<10)).Decode(&order)
	if err == nil {
		_, err = io.Copy(io.Discard, count)
	}
	if err != nil {
		http.Error(w, "the body of a probe is a ProbeOrder, as JSON", http.StatusBadRequest)
		return nil
	}
	c.BodyRead = time.Now()
	seen := ProbeSeen{ClientIP: c.From.String(), Peer: r.RemoteAddr, Protocol: r.Proto, TLS: r.TLS != nil, Host: r.Host,
		Forwarded: []string{}, Body: count.n, Mark: order.Mark}
	seen.ForwardedFor = strings.Join(r.Header.Values("X-Forwarded-For"), ", ")
	for _, name := range forwarders {
		if len(r.Header.Values(name)) > 0 {
			seen.Forwarded = append(seen.Forwarded, name)
		}
	}
	if !pause(r, min(time.Duration(order.WaitMS)*time.Millisecond, maxProbeWait)) {
		return nil
	}
	first, err := json.Marshal(seen)
	if err != nil {
		return err
	}
	if order.Events <= 0 {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(first) // who has left is nobody to tell
		return nil
	}
	SetStreamHead(w.Header())
	control := http.NewResponseController(w)
	events := slices.Repeat([][]byte{[]byte("{}")}, min(order.Events, maxProbeEvents))
	for i, data := range append([][]byte{first}, events...) {
		if i > 0 && !pause(r, min(time.Duration(order.PauseMS)*time.Millisecond, maxProbePause)) {
			return nil
		}
		if _, err = fmt.Fprintf(w, "data: %s\n\n", data); err == nil {
			err = control.Flush()
		}
		if err != nil {
			return nil //nolint:nilerr // who has left is nobody to tell
		}
	}
	return nil
}

// pause waits, and reports whether the client is still there.
func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
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
