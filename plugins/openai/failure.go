package openai

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
)

// refused makes the error of a reply that is not a 2xx.
func (o *OpenAI) refused(resp *http.Response) *llm.Error {
	if resp.StatusCode/100 == 3 {
		e := llm.Errorf(llm.ErrUpstream, "the upstream redirects to another address, which is not followed; set base_url to the final one")
		e.Status = resp.StatusCode
		return e
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // the status alone says enough
	e := chat.DecodeError(resp.StatusCode, resp.Header.Get("Retry-After"), body)
	switch {
	case e.Kind == llm.ErrCredentials && o.authorization == "":
		e.Message += "; set api_key"
	case e.Kind == llm.ErrCredentials:
		e.Message += "; check api_key"
	case resp.StatusCode == http.StatusNotFound:
		e.Message += "; check base_url and the route's model"
	}
	return e
}

// unanswered makes the error of a call that got no reply.
func (o *OpenAI) unanswered(err error) *llm.Error {
	cause := err
	if outer, ok := errors.AsType[*url.Error](err); ok {
		cause = outer.Err // without method and URL
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, noName := errors.AsType[*net.DNSError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case untrusted:
		return llm.Errorf(llm.ErrUpstream, "verifying the upstream's certificate: %v; check base_url, or install the authority that signed it", cause)
	case noTLS, errors.Is(err, http.ErrSchemeMismatch):
		return llm.Errorf(llm.ErrUpstream, "the upstream does not speak TLS; write base_url with http://")
	case noName:
		return llm.Errorf(llm.ErrUpstream, "finding the upstream's host: %v; check base_url", cause)
	case errors.Is(err, syscall.ECONNREFUSED):
		return llm.Errorf(llm.ErrUpstream, "connecting to the upstream: %v; check that it is running and that base_url is right", cause)
	case isNet && timeout.Timeout():
		return llm.Errorf(llm.ErrUpstream, "connecting to the upstream: timed out: %v", cause)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return llm.Errorf(llm.ErrUpstream, "the upstream closed the connection before it answered: %v", cause)
	}
	return llm.Errorf(llm.ErrUpstream, "calling the upstream: %s; check that base_url is the address of an API", ourWords(cause))
}

// broke makes the error of a reply that could not be read to its end.
func broke(err error) *llm.Error {
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
