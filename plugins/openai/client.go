package openai

import (
	"net"
	"net/http"
	"time"
)

const (
	connectTimeout = 10 * time.Second // for TCP, and again for TLS
	idleTimeout    = 90 * time.Second
	idlePerHost    = 512 // streams that end together leave their connections to the next ones
	maxHeaderBytes = 64 << 10
	// A peer that vanished without a word is noticed after about this long, while a stream is quiet.
	pingAfter = 30 * time.Second
)

// newClient makes the client of one provider. It has no time limit on a reply: a model may think for minutes
// before its first token, and how long an attempt may take is the gateway's to say, by the context.
func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: pingAfter}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // a plugin has no environment to take one from
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    connectTimeout,
			MaxIdleConnsPerHost:    idlePerHost,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: connectTimeout},
			DisableCompression:     true, // a compressed stream comes in blocks, not in tokens
		},
		// A redirect would take prompts and key to an address that the operator did not choose.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
