package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/fareway/fareway/plugins/llm"
)

// Do makes a request of a provider whose upstream has a wire format of its own: over the connections of the endpoint,
// with its headers and within its time-outs. Such an endpoint has no Dialect. No redirect is followed. Errors, those
// of reading the body as well, are *llm.Error, or wrap the cause of the context's end. Closing the body gives up what
// is left of the reply; one that was read to its end leaves its connection to the next request.
func (c *Client) Do(e *Endpoint, req *http.Request) (*http.Response, error) {
	return c.do(e, req, streamed)
}

// DoWhole is Do for a reply that is asked for in one piece, which has a bound up to its end.
func (c *Client) DoWhole(e *Endpoint, req *http.Request) (*http.Response, error) {
	return c.do(e, req, whole)
}

func (c *Client) do(e *Endpoint, req *http.Request, asked form) (*http.Response, error) {
	to, err := c.target(e)
	if err != nil {
		return nil, llm.Errorf(llm.ErrProtocol, "the provider's endpoint cannot be used: %v", err)
	}
	caller := req.Context()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(caller))
	req = req.Clone(ctx)
	for name, values := range to.header {
		if name != "Content-Type" && name != "Accept" || req.Header.Get(name) == "" {
			req.Header[name] = values
		}
	}
	if req.Body == nil {
		req.Header.Del("Content-Type")
	}
	a := &answer{client: c, endpoint: e, caller: caller, ctx: ctx, cancel: cancel}
	a.unhook = context.AfterFunc(caller, func() { cancel(nil) })
	if limit, cause := e.headTimeout(asked); limit > 0 {
		timer := c.afterFunc(limit, func() { cancel(cause) })
		if asked == whole {
			a.whole = timer
		} else {
			defer timer.Stop()
		}
	}
	resp, err := to.RoundTrip(req)
	if err != nil {
		err = a.failed(err, e.unanswered)
		a.giveUp()
		return nil, err
	}
	if failed := decompress(resp); failed != nil {
		a.ReadCloser = resp.Body
		_ = a.Close() // nothing of it can be read
		return nil, failed
	}
	a.ReadCloser = resp.Body
	if idle := e.Timeouts.Idle; idle > 0 {
		a.timer = c.afterFunc(idle, func() { cancel(errIdle) })
		a.timer.Stop()
	}
	resp.Body = a
	return resp, nil
}

// Refusal makes the error of a reply of Do that is not a 2xx, and closes it. classify reads the body.
func (e *Endpoint) Refusal(resp *http.Response, classify Classify) *llm.Error {
	defer resp.Body.Close()
	failed := e.refused(resp, classify)
	failed.RequestID = e.RequestID(resp.Header)
	return failed
}

// RequestID is what the upstream calls a request, "" if it has no name for it.
func (e *Endpoint) RequestID(h http.Header) string { return e.requestID(h) }

// answer is the body of a reply to Do.
type answer struct {
	io.ReadCloser
	client   *Client
	endpoint *Endpoint
	caller   context.Context
	ctx      context.Context // of the connection
	cancel   context.CancelCauseFunc
	unhook   func() bool // of the connection from the caller
	timer    Timer       // nil where silence has no limit
	whole    Timer       // nil where a reply in one piece has no bound
}

// Read waits for the upstream no longer than the endpoint says.
func (a *answer) Read(p []byte) (int, error) {
	if a.timer != nil {
		a.timer.Reset(a.endpoint.Timeouts.Idle)
		defer a.timer.Stop()
	}
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.failed(err, func(err error) *llm.Error { return a.endpoint.broke(context.Cause(a.ctx), err) })
	}
	return n, err
}

// Close gives the connection back or up.
func (a *answer) Close() error {
	defer a.giveUp()
	return a.ReadCloser.Close()
}

func (a *answer) giveUp() {
	a.unhook()
	if a.whole != nil {
		a.whole.Stop()
	}
	a.cancel(nil)
}

// Finish closes the body of a reply of Do whose end marker has been read: what is left of it is nothing but the end of
// the HTTP body. The connection is given back also when the caller leaves now. To close the body again does nothing.
func Finish(resp *http.Response) {
	a, ok := resp.Body.(*answer)
	if !ok {
		_ = resp.Body.Close() // nothing is left to be read
		return
	}
	a.unhook()
	resp.Body = http.NoBody
	go a.client.linger(a.ReadCloser, a.giveUp)
}

// failed is the error of a request that failed with err, of which named makes what the operator reads.
func (a *answer) failed(err error, named func(error) *llm.Error) error {
	if a.caller.Err() != nil {
		return callerError(a.caller)
	}
	if cause, ok := errors.AsType[*late](context.Cause(a.ctx)); ok {
		return cause.failure()
	}
	return named(err)
}
