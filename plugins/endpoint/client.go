package endpoint

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

const (
	connectTimeout = 10 * time.Second // for TCP, and again for TLS
	idleTimeout    = 90 * time.Second
	idlePerHost    = 512 // streams that end together leave their connections to the next ones
	maxHeaderBytes = 64 << 10
	// A peer that vanished without a word is noticed after about this long, while a stream is quiet.
	pingAfter = 30 * time.Second
	// maxTransports bounds the kinds of connections that are kept: a provider whose TLS settings change with each
	// endpoint must not fill the memory.
	maxTransports = 64
)

// Client keeps connections. It may be shared by providers: what has other TLS or proxy settings has connections of its
// own. The zero value is ready.
type Client struct {
	mu    sync.Mutex
	kinds map[connection]*http.Client
}

// connection is what connections of one kind have in common.
type connection struct {
	tls   TLS
	proxy string
}

// Call begins a call; the upstream is asked when it is first read. ctx ends the call, but not the connection of a reply
// that has ended. The error is an *llm.Error.
func (c *Client) Call(ctx context.Context, source *Source, req *llm.Request) (*Call, error) {
	call := &Call{client: c, source: source, model: req.Model, caller: ctx}
	if e := source.have(ctx, req.Model); e == nil {
		call.req = req
	} else if err := call.prepare(e, req); err != nil {
		return nil, err
	}
	call.ctx, call.cancel = context.WithCancel(context.WithoutCancel(ctx))
	call.unhook = context.AfterFunc(ctx, call.cancel)
	return call, nil
}

// CloseIdle closes the connections that nobody uses.
func (c *Client) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.kinds {
		client.CloseIdleConnections()
	}
}

// of returns the client for an endpoint that Check found right.
func (c *Client) of(e *Endpoint) (*http.Client, error) {
	kind := connection{e.TLS, e.Proxy}
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.kinds[kind]; client != nil {
		return client, nil
	}
	client, err := newClient(e)
	if err != nil {
		return nil, err
	}
	if c.kinds == nil {
		c.kinds = make(map[connection]*http.Client)
	}
	if len(c.kinds) >= maxTransports {
		for old, client := range c.kinds { // any
			client.CloseIdleConnections()
			delete(c.kinds, old)
			break
		}
	}
	c.kinds[kind] = client
	return client, nil
}

// newClient makes a client. It has no time limit on a reply: a model may think for minutes before its first token, and
// how long an attempt may take is the gateway's to say, by the context.
func newClient(e *Endpoint) (*http.Client, error) {
	secured, err := e.TLS.config()
	if err != nil {
		return nil, err
	}
	proxy, err := e.proxy()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: pingAfter}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        secured,
		TLSHandshakeTimeout:    connectTimeout,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: connectTimeout},
		DisableCompression:     true, // a compressed stream comes in blocks, not in tokens
	}
	if proxy != nil {
		transport.Proxy = http.ProxyURL(proxy)
	}
	return &http.Client{
		Transport: transport,
		// A redirect would take prompts and key to an address that the operator did not choose.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
