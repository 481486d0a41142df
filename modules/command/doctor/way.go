package doctor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
)

// way is one on which clients reach the gateway.
type way struct {
	url  string // as clients know it, without a slash at the end
	dial string // host:port to connect to in place of its own; "" for its own
	// outside: it goes by DNS, and by whatever stands before the gateway.
	outside bool
}

// name is the way for people.
func (w way) name() string {
	if w.outside || w.dial == "" {
		return w.url
	}
	return fmt.Sprintf("%s (by %s)", w.url, w.dial)
}

func (w way) port() string {
	u, err := url.Parse(w.url)
	if err != nil {
		return ""
	}
	if u.Port() != "" {
		return u.Port()
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// address is what is connected to.
func (w way) address() string {
	if w.dial != "" {
		return w.dial
	}
	return net.JoinHostPort(urlHost(w.url), w.port())
}

// ways are the addresses of the Caddyfile from this machine, and the public ones as clients reach them.
func (s *Subject) ways() (list []way) {
	if s.Site != nil && s.Elsewhere == "" { // what its machine's own addresses lead to is not from here
		for _, e := range s.Site.Public {
			list = append(list, way{url: e.URL, dial: e.Dial})
		}
	}
	for _, text := range s.URLs {
		list = append(list, way{url: strings.TrimSuffix(text, "/"), outside: true})
	}
	return list
}

// outsideWays are those by DNS: of --url, and of the sites with a name.
func (s *Subject) outsideWays() (list []way) {
	for _, w := range s.ways() {
		if host := urlHost(w.url); w.outside || isName(host) && !isInternal(host) {
			list = append(list, way{url: w.url, outside: true})
		}
	}
	return slices.Compact(list)
}

// wayTo is the way to one address of a name.
func (s *Subject) wayTo(name string, a netip.Addr) way {
	for _, w := range s.ways() {
		if urlHost(w.url) == name {
			return way{url: w.url, dial: net.JoinHostPort(a.String(), w.port()), outside: true}
		}
	}
	return way{url: "https://" + name, dial: net.JoinHostPort(a.String(), "443"), outside: true}
}

// order is what is asked of a probe.
type order struct {
	gateway.ProbeOrder
	size     int               // of the body, in bytes
	headers  map[string]string // besides
	protocol string            // "", or "h3"
	patience time.Duration     // 0: a few seconds
}

// answer is what came of it.
type answer struct {
	status   string
	ok       bool // it is the gateway's
	protocol string
	seen     gateway.ProbeSeen
	head     http.Header
	begun    time.Time
	first    time.Time   // the first event, or the reply
	events   []time.Time // when each came
}

func (a *answer) isOurs() bool { return a != nil && a.ok }

// errNoProbe: the gateway gives no credential for one.
var errNoProbe = errors.New("no gateway answers that would take a request of its doctor")

// errOtherNode: what gives out credentials and what answers are different gateways.
var errOtherNode = errors.New("of several gateways another one has answered each time: give the command on each " +
	"of their machines")

// nodes is how many gateways share the ledger.
func (s *Subject) nodes() int {
	if s.Status == nil || s.Status.Ledger == nil {
		return 1
	}
	return max(s.Status.Ledger.Nodes, 1)
}

// credential is for a probe.
func (s *Subject) credential(ctx context.Context) (string, error) {
	if s.Status == nil {
		return "", errNoProbe
	}
	var p admin.Probe
	if err := s.Client.Call(ctx, "POST", "/fareway/probes", struct{}{}, &p); err != nil {
		return "", fmt.Errorf("%w: %w", errNoProbe, err)
	}
	return p.Credential, nil
}

// probe sends the gateway a request of its own, on the way that clients' requests take. It costs nothing. Behind a
// balancer it may come to another gateway, which knows nothing of it: then it is sent again, over another connection.
func (s *Subject) probe(ctx context.Context, w way, o order) (*answer, error) {
	for range 4 * s.nodes() {
		a, err := s.probeOnce(ctx, w, o)
		if err != nil || s.nodes() == 1 || !strings.HasPrefix(a.status, "401") {
			return a, err
		}
	}
	return nil, errOtherNode
}

func (s *Subject) probeOnce(ctx context.Context, w way, o order) (*answer, error) {
	credential, err := s.credential(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, max(o.patience, 8*time.Second))
	defer cancel()
	body, err := json.Marshal(o.ProbeOrder)
	if err != nil {
		return nil, err
	}
	if more := o.size - len(body); more > 0 {
		body = append(body, bytes.Repeat([]byte(" "), more)...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+credential)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "gzip") // and it is not opened: who compresses is seen
	for name, value := range o.headers {
		req.Header.Set(name, value)
	}
	transport, done := s.transport(w, o.protocol)
	defer done()
	a := &answer{begun: time.Now()}
	resp, err := transport.RoundTrip(req) // no redirect is followed: it would be seen as what it is
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a.status, a.protocol, a.head = resp.Status, resp.Proto, resp.Header
	a.read(resp.Body)
	a.ok = resp.StatusCode == http.StatusOK && a.seen.Protocol != ""
	return a, nil
}

// read reads a stream's events as they come, or a reply.
func (a *answer) read(from io.Reader) {
	lines := bufio.NewReader(io.LimitReader(from, 1<<20))
	if strings.HasPrefix(a.head.Get("Content-Type"), "application/json") {
		if json.NewDecoder(lines).Decode(&a.seen) == nil {
			a.first = time.Now()
		}
		return
	}
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			a.events = append(a.events, time.Now())
			if len(a.events) == 1 {
				a.first = a.events[0]
				_ = json.Unmarshal(data, &a.seen) // of somebody else's it stays empty
			}
		}
		if err != nil {
			return
		}
	}
}

// transport makes one connection of its own. Certificates are another check's.
func (s *Subject) transport(w way, protocol string) (http.RoundTripper, func()) {
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above; the credential is for this moment only
	if protocol == "h3" {
		config.NextProtos, config.ServerName = []string{http3.NextProtoH3}, urlHost(w.url)
		t := &http3.Transport{TLSClientConfig: config, DisableCompression: true,
			Dial: func(ctx context.Context, _ string, c *tls.Config, q *quic.Config) (*quic.Conn, error) {
				return quic.DialAddr(ctx, w.address(), c, q)
			}}
		return t, func() { _ = t.Close() }
	}
	dialer := net.Dialer{Timeout: 5 * time.Second, Resolver: s.Resolver}
	t := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if w.dial != "" {
				address = w.dial
			}
			return dialer.DialContext(ctx, network, address)
		}}
	return t, t.CloseIdleConnections
}
