package endpoint

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/fareway/fareway/plugins/internal/http1"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
)

// errorBodyTimeout is how long the body of a refusal may take.
const errorBodyTimeout = 5 * time.Second

// refused makes the error of a reply that is not a 2xx, and closes its body, of which what has come in time counts.
func (c *Client) refused(e *Endpoint, resp *http.Response) *llm.Error {
	defer resp.Body.Close()
	defer c.afterFunc(errorBodyTimeout, func() { _ = resp.Body.Close() }).Stop()
	return e.refused(resp, reply.Refusal)
}

// Classify makes the error of a reply that is not a 2xx, of its status, its Retry-After header and its body.
type Classify func(status int, retryAfter string, body []byte) *llm.Error

// refused makes the error of a reply that is not a 2xx.
func (e *Endpoint) refused(resp *http.Response, classify Classify) *llm.Error {
	if resp.StatusCode/100 == 3 {
		failed := llm.Errorf(llm.ErrUpstream,
			"the upstream redirects to another address, which is not followed; set %s to the final one", e.Settings.address())
		failed.Status, failed.Unreached = resp.StatusCode, true
		return failed
	}
	_ = decompress(resp)                                           // the status alone says enough
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // likewise
	if strings.HasPrefix(e.URL, "http:") && resp.StatusCode == http.StatusBadRequest && wantsTLS.Match(body) {
		failed := e.speaksTLS()
		failed.Status = resp.StatusCode
		return failed
	}
	failed := classify(resp.StatusCode, resp.Header.Get("Retry-After"), body)
	if wait := retryAfter(resp); wait > 0 && failed.Kind != llm.ErrAllowance {
		failed.RetryAfter = wait
	}
	switch {
	case resp.StatusCode == http.StatusProxyAuthRequired && e.Proxy != "":
		failed.Message += "; check proxy and proxy_credentials"
	case failed.Kind == llm.ErrAllowance:
		failed.Message += "; this request alone is larger than what a limit or the credit there leaves: raise it, " +
			"or lower the route's context_window"
	case failed.Kind == llm.ErrQuota:
		failed.Message += "; top up the account that " + e.Settings.key() + " belongs to"
	case failed.Kind == llm.ErrCredentials && len(e.Headers) == 0 && !e.Settings.Signs:
		failed.Message += "; set " + e.Settings.key()
	case failed.Kind == llm.ErrCredentials:
		failed.Message += "; check " + e.Settings.key()
	case resp.StatusCode == http.StatusNotFound:
		failed.Message += "; check " + e.Settings.address() + " and the route's model"
	}
	return failed
}

// wantsTLS is what web servers answer in plain HTTP at a port with TLS: Go's and Caddy's, nginx and Cloudflare
// (LibreChat 4688, langchainjs 1716, OpenLLM 449), Apache.
var wantsTLS = regexp.MustCompile(`(?i)^\s*(?:Client sent an HTTP request to an HTTPS server` +
	`|<html>\s*<head>\s*<title>400 The plain HTTP request was sent to HTTPS port` +
	`|<!DOCTYPE HTML[^>]*>\s*<html>\s*<head>\s*<title>400 Bad Request</title>[^{}"]*You're speaking plain HTTP to an SSL)`)

// speaksTLS makes the error of a call in plain HTTP to a port with TLS.
func (e *Endpoint) speaksTLS() *llm.Error {
	failed := llm.Errorf(llm.ErrUpstream, "the upstream speaks TLS; write %s with https://", e.Settings.address())
	failed.Unreached = true
	return failed
}

// unanswered makes the error of a call that got no reply.
func (e *Endpoint) unanswered(err error) *llm.Error {
	failed := e.unconnected(err)
	if failed == nil {
		return e.unreadable(err)
	}
	failed.Unreached = true
	return failed
}

// unconnected makes the error of a call that got no connection, nil where it had one.
func (e *Endpoint) unconnected(err error) *llm.Error {
	cause := err
	if outer, ok := errors.AsType[*url.Error](err); ok {
		cause = outer.Err // without method and URL
	}
	address := e.Settings.address()
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, noName := errors.AsType[*net.DNSError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	network, _ := errors.AsType[*net.OpError](err)
	refusal, refused := errors.AsType[proxyRefusal](err)
	switch {
	case refused:
		failed := llm.Errorf(llm.ErrUpstream, "%v; check proxy and proxy_credentials", refusal)
		failed.Status = int(refusal)
		return failed
	case network != nil && e.Proxy != "" && (network.Op == "proxyconnect" || network.Op == "socks connect"):
		return llm.Errorf(llm.ErrUpstream, "connecting to the proxy: %s; check proxy", ourWords(network))
	case network != nil && network.Op == "remote error": // crypto/tls: a TLS alert
		return llm.Errorf(llm.ErrUpstream, "the upstream refuses the connection: %v; check client_certificate and %s",
			network, address)
	case untrusted:
		return llm.Errorf(
			llm.ErrUpstream,
			"verifying the upstream's certificate: %v; check %s, or set ca to the authority that signed it",
			cause,
			address,
		)
	case noTLS, errors.Is(err, http.ErrSchemeMismatch):
		return llm.Errorf(llm.ErrUpstream, "the upstream does not speak TLS; write %s with http://", address)
	case noName:
		return llm.Errorf(llm.ErrUpstream, "finding the upstream's host: %v; check %s", cause, address)
	case errors.Is(err, syscall.ECONNREFUSED):
		return llm.Errorf(llm.ErrUpstream, "connecting to the upstream: %v; check that it is running and that %s is right",
			cause, address)
	case isNet && timeout.Timeout():
		return llm.Errorf(llm.ErrUpstream, "connecting to the upstream: timed out: %v", cause)
	}
	return nil
}

// unreadable makes the error of a call that got no reply otherwise, as a rule because its connection ended.
func (e *Endpoint) unreadable(err error) *llm.Error {
	cause := err
	if outer, ok := errors.AsType[*url.Error](err); ok {
		cause = outer.Err // without method and URL
	}
	switch {
	case errors.Is(err, http1.ErrTLS):
		return e.speaksTLS()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		const hint = "; if it speaks TLS, write https://, and if it speaks HTTP/2 only, set http2 = true"
		return llm.Errorf(llm.ErrUpstream, "the upstream closed the connection before it answered: %v%s", cause,
			map[bool]string{true: hint}[e.speaksHTTP1()])
	}
	failed := llm.Errorf(llm.ErrUpstream, "calling the upstream: %s; check that %s is the address of an API",
		ourWords(cause), e.Settings.address())
	network, _ := errors.AsType[*net.OpError](err)
	failed.Unreached = network != nil && network.Op == "dial" // no route to it, say
	return failed
}

// speaksHTTP1 reports whether an upstream that knows nothing but HTTP/2 cannot be understood.
func (e *Endpoint) speaksHTTP1() bool { return strings.HasPrefix(e.URL, "http:") && !e.HTTP2 }

// proxyRefusal is the status with which a proxy refuses to connect to the upstream.
type proxyRefusal int

func (proxyRefusal) Error() string { return "the proxy refuses to connect to the upstream" }

// broke makes the error of a reply that could not be read to its end; cause is why its connection was ended here, nil
// where it was not.
func (e *Endpoint) broke(cause, err error) *llm.Error {
	if errors.Is(cause, errIdle) {
		return llm.Errorf(llm.ErrBroken, "%v for longer than idle_timeout (%s)", cause, e.Timeouts.Idle)
	}
	if late, ok := errors.AsType[*late](cause); ok { // just as it began
		return late.failure()
	}
	if errors.Is(err, sse.ErrTooLarge) {
		return llm.Errorf(llm.ErrProtocol, "%v", err)
	}
	return llm.Errorf(llm.ErrBroken, "the connection to the upstream broke in mid-reply: %s", ourWords(err))
}

// ourWords is err as the log may have it. Errors of the network say what this side saw; those of net/http may
// repeat what the peer sent (a malformed answer, HTTP/2's debug data), which may repeat the prompt.
func ourWords(err error) string {
	_, network := errors.AsType[*net.OpError](err)
	if network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return err.Error()
	}
	return fmt.Sprintf("its answer could not be read (%T)", err)
}
