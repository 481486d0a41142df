package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/fareway/fareway/plugins/internal/http1"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	connectTimeout = 10 * time.Second // where the endpoint has none
	idleTimeout    = 90 * time.Second
	idlePerHost    = 512 // streams that end together leave their connections to the next ones
	maxHeaderBytes = 64 << 10
	// What a connection keeps while a stream is quiet. A small request fits; the rest of a large one goes past it. Four
	// times as much as usual for reading, and for the buffer of the stream itself, made no difference to a burst.
	writeBuffer = 2 << 10
	// A peer that vanished without a word is noticed after about this long, while a stream is quiet.
	pingAfter   = 30 * time.Second
	pingTimeout = 10 * time.Second
	// maxTransports bounds the kinds of connections that are kept: a provider whose TLS settings change with each
	// endpoint must not fill the memory.
	maxTransports = 64
)

// Client keeps connections. It may be shared by providers: what has other TLS or proxy settings has connections of its
// own. The zero value is ready.
type Client struct {
	// AfterFunc is how time-outs are waited for, nil for time.AfterFunc.
	AfterFunc func(time.Duration, func()) Timer

	mu      sync.Mutex
	kinds   map[connection]*transport
	targets map[*Endpoint]*target
}

// Timer is what a Client needs of a *time.Timer.
type Timer interface {
	Reset(time.Duration) bool
	Stop() bool
}

func (c *Client) afterFunc(d time.Duration, f func()) Timer {
	if c.AfterFunc != nil {
		return c.AfterFunc(d, f)
	}
	return time.AfterFunc(d, f)
}

// target is an endpoint as calls need it, made once. It is not changed.
type target struct {
	*transport
	url    *url.URL
	header http.Header
	plain  *http1.Target // nil where the address has TLS or a proxy
}

// transport keeps the connections of one kind: those to the addresses of calls without TLS and proxy are direct's.
type transport struct {
	*http.Transport
	direct http1.Client
}

// connection is what connections of one kind have in common.
type connection struct {
	tls     TLS
	proxy   string
	connect time.Duration
	http2   bool
}

// Call begins a call; the upstream is asked when it is first read. ctx ends the call, but not the connection of a
// reply that has ended. The error is an *llm.Error.
func (c *Client) Call(ctx context.Context, source *Source, req *llm.Request) (*Call, error) {
	call := &Call{client: c, source: source, model: req.Model, caller: ctx, life: life{caller: ctx}}
	if e := source.cachedEndpoint(ctx, req.Model); e == nil {
		call.req = req
	} else if err := call.prepare(e, req); err != nil {
		return nil, err
	}
	call.unhook = context.AfterFunc(ctx, call.giveUp)
	return call, nil
}

// Fetch gets something from the upstream of an endpoint, over its connections and with its headers: up to 64 KiB, of a
// reply that is a 2xx. No redirect is followed. Errors are *llm.Error.
func (c *Client) Fetch(ctx context.Context, e *Endpoint, address string) ([]byte, error) {
	return c.FetchUpTo(ctx, e, address, maxErrorBody)
}

// FetchUpTo is Fetch of so many bytes.
func (c *Client) FetchUpTo(ctx context.Context, e *Endpoint, address string, most int64) ([]byte, error) {
	to, err := c.target(e)
	if err != nil {
		return nil, llm.Errorf(llm.ErrProtocol, "the provider's endpoint cannot be used: %v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, e.unanswered(err)
	}
	req.Header = to.header.Clone()
	req.Header.Del("Content-Type")
	resp, err := to.RoundTrip(req)
	if err != nil {
		return nil, e.unanswered(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return nil, c.refused(e, resp)
	}
	if failed := decompress(resp); failed != nil {
		return nil, failed
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark)), []byte("<")) {
		return nil, e.webPage(resp.StatusCode)
	}
	if err != nil {
		return nil, llm.Errorf(llm.ErrBroken, "the connection to the upstream broke in mid-reply: %s", ourWords(err))
	}
	return body, nil
}

// HTTP is a client for what else a provider has to ask, such as a server of tokens: over connections of the endpoint's
// kind, but with no header of it and no server name, and with no redirect followed.
func (c *Client) HTTP(e *Endpoint) (*http.Client, error) {
	other := *e
	other.TLS.ServerName = ""
	c.mu.Lock()
	defer c.mu.Unlock()
	transport, err := c.transport(&other)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// CloseIdle closes the connections that nobody uses.
func (c *Client) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, transport := range c.kinds {
		transport.closeIdle()
	}
}

func (t *transport) closeIdle() {
	t.CloseIdleConnections()
	t.direct.CloseIdle()
}

// target is what an endpoint that Check found right comes to.
func (c *Client) target(e *Endpoint) (*target, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.targets[e]; t != nil {
		return t, nil
	}
	transport, err := c.transport(e)
	if err != nil {
		return nil, err
	}
	t := &target{transport: transport, header: http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"text/event-stream, application/json"},
		"User-Agent":   {"fareway"},
	}}
	if t.url, err = url.Parse(e.URL); err != nil {
		return nil, err
	}
	for _, h := range e.Headers {
		t.header.Set(h.Name, h.Value)
	}
	if t.url.Scheme == "http" && e.Proxy == "" && !e.HTTP2 {
		address, host, err := plainHost(t.url)
		if err != nil {
			return nil, err
		}
		t.plain = http1.NewTarget(address, host, t.url.RequestURI(), t.header)
	}
	if c.targets == nil || len(c.targets) >= maxModels {
		c.targets = make(map[*Endpoint]*target)
	}
	c.targets[e] = t
	return t, nil
}

// transport returns the connections of an endpoint's kind. The lock is held.
func (c *Client) transport(e *Endpoint) (*transport, error) {
	kind := connection{e.TLS, e.Proxy, e.Timeouts.Connect, e.HTTP2}
	if t := c.kinds[kind]; t != nil {
		return t, nil
	}
	t, err := newTransport(e)
	if err != nil {
		return nil, err
	}
	if c.kinds == nil {
		c.kinds = make(map[connection]*transport)
	}
	if len(c.kinds) >= maxTransports {
		for old, t := range c.kinds { // any
			t.closeIdle()
			delete(c.kinds, old)
			break
		}
		c.targets = nil // they may have it
	}
	c.kinds[kind] = t
	return t, nil
}

// newTransport makes connections of a kind. Time limits on a reply are the call's, see Timeouts. Requests are made by
// RoundTrip and not by an http.Client, so that no redirect is followed: it would take prompts and key to an address
// that the operator did not choose.
func newTransport(e *Endpoint) (*transport, error) {
	secured, err := e.TLS.Config()
	if err != nil {
		return nil, err
	}
	proxy, err := e.proxy()
	if err != nil {
		return nil, err
	}
	connect := cmp.Or(e.Timeouts.Connect, connectTimeout)
	dialer := net.Dialer{Timeout: connect, KeepAlive: pingAfter}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return http1.Watch(c), nil
		},
		TLSClientConfig:        secured,
		TLSHandshakeTimeout:    connect,
		MaxIdleConnsPerHost:    idlePerHost,
		WriteBufferSize:        writeBuffer,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true, // a compressed stream comes in blocks, not in tokens
	}
	if e.HTTP2 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
		t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
			if r.StatusCode != http.StatusOK {
				return proxyRefusal(r.StatusCode)
			}
			return nil
		}
	}
	return &transport{Transport: t, direct: http1.Client{
		Dialer: dialer, IdleTimeout: idleTimeout, MaxIdle: idlePerHost, MaxHeader: maxHeaderBytes,
	}}, nil
}

// plainHost is where a URL with http:// leads to, and the header Host. Names beyond ASCII are as DNS has them.
func plainHost(u *url.URL) (address, host string, err error) {
	if host, err = httpguts.PunycodeHostPort(u.Host); err != nil {
		return "", "", err
	}
	named := url.URL{Host: host}
	address = net.JoinHostPort(named.Hostname(), cmp.Or(named.Port(), "80"))
	if zone := strings.IndexByte(host, '%'); zone >= 0 { // which says something to this machine only (RFC 6874)
		host = host[:zone] + host[strings.LastIndexByte(host, ']'):]
	}
	return address, host, nil
}
