package endpoint

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

// open sends the request and takes the head of the reply. Where the upstream does not take the credential, a new one
// is asked for, once.
func (c *Call) open() error {
	if c.endpoint == nil {
		e, err := c.source.get(c.caller, c.model, nil)
		if err == nil {
			err = c.prepare(e, c.req)
		}
		if err != nil {
			return err
		}
	}
	err := c.ask()
	if refused, ok := errors.AsType[*llm.Error](err); ok && refused.Status == http.StatusUnauthorized {
		fresh, askErr := c.source.get(c.caller, c.model, c.endpoint)
		if askErr != nil || reflect.DeepEqual(fresh, c.endpoint) || fresh.Dialect != c.endpoint.Dialect {
			return err
		}
		c.endpoint = fresh
		err = c.ask()
	}
	if err != nil {
		return err
	}
	c.req = nil
	if c.resp.Header.Get("Content-Encoding") != "" {
		if failed := decompress(c.resp); failed != nil {
			return failed
		}
		c.arrived = nil // which says nothing of what it is compressed to
	}
	if c.form = formOf(c.resp.Header, c.asked); c.form == page {
		if c.form, c.resp.Body = detectForm(c.resp.Body); c.form != whole && c.form != streamed {
			return c.endpoint.webPage(c.resp.StatusCode)
		}
	}
	c.add(llm.Event{Kind: llm.EventAccepted, ID: c.requestID})
	if c.refers && c.endpoint.ReferenceHeader != "" {
		c.sendReference(c.resp.Header.Get(c.endpoint.ReferenceHeader))
	}
	event := c.event
	if c.cutAt != 0 {
		event = (&shorter{send: c.event, left: c.cutAt}).event
	}
	c.decoder = c.codec.decoder(event, c.endpoint)
	c.decoder.Allowance(c.sent)
	if d, ok := c.decoder.(interface{ Tools(names []string) }); ok {
		d.Tools(c.tools)
	}
	return nil
}

// ask posts the request. It leaves a reply that is a 2xx in c.resp; any other is an error.
func (c *Call) ask() error {
	to, err := c.client.target(c.endpoint)
	if err != nil {
		return llm.Errorf(llm.ErrProtocol, "the provider's endpoint cannot be used: %v", err)
	}
	sent := c.body
	c.body = nil
	if sent == nil { // it was, for another credential
		if sent, err = newBody(c.endpoint, c.req); err != nil {
			return err
		}
	}
	c.limit(c.endpoint.headTimeout(c.asked))
	resp, err := c.post(to, sent)
	switch {
	case c.timer == nil:
	case c.asked == whole && err == nil: // some send the head, or blank lines, long before the reply
		c.bound = c.timer
	default:
		c.timer.Stop()
	}
	if err != nil {
		if cause, ok := errors.AsType[*late](c.life.why()); ok {
			return cause.failure()
		}
		return c.endpoint.unanswered(err)
	}
	c.requestID = c.endpoint.requestID(resp.Header)
	if resp.StatusCode/100 != 2 {
		return c.client.refused(c.endpoint, resp)
	}
	c.arrived, _ = resp.Body.(interface{ Ready() bool })
	if idle := c.endpoint.Timeouts.Idle; idle > 0 {
		c.limit(idle, errIdle)
		c.timer.Stop()
		resp.Body = &watched{resp.Body, c.timer, idle}
	}
	c.resp = resp
	return nil
}

// post sends a body.
func (c *Call) post(to *target, sent *body) (*http.Response, error) {
	header, traced := c.traced(to.header)
	if to.plain != nil && !traced {
		return to.direct.Post(&c.life, to.plain, sent.left, sent.giveBack)
	}
	req, err := http.NewRequestWithContext(&c.life, http.MethodPost, "", nil)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host, req.Header = to.url, to.url.Host, header // which a transport does not change
	// What was sent is let go of, and encoded once more where a connection that was used before turns out to be closed
	// and nothing was sent.
	req.GetBody = func() (io.ReadCloser, error) { return newBody(c.endpoint, c.req) }
	req.ContentLength, req.Body = int64(sent.Len()), sent
	if sent.Len() <= writeBuffer {
		req.Body = sent.small()
	}
	return to.RoundTrip(req)
}

var errIdle = errors.New("the upstream sent nothing")

// late is why a call that got no reply in time, or no head of one, was broken off.
type late struct {
	what, setting string
	limit         time.Duration
}

func (l *late) Error() string {
	return fmt.Sprintf("the upstream did not %s within %s (%s)", l.what, l.setting, l.limit)
}

func (l *late) failure() *llm.Error { return llm.Errorf(llm.ErrUpstream, "%v", l) }

// headTimeout is how long the head of a stream may take, or a reply that is asked for in one piece up to its end, 0
// for no limit, and what it is then.
func (e *Endpoint) headTimeout(asked form) (time.Duration, error) {
	if t := e.Timeouts; asked == whole {
		return t.Whole, &late{"answer", "whole_reply_timeout", t.Whole}
	}
	return e.Timeouts.FirstByte, &late{"begin to answer", "first_byte_timeout", e.Timeouts.FirstByte}
}

// limit breaks the connection off after d, if that is not 0, for that reason.
func (c *Call) limit(d time.Duration, reason error) {
	if d > 0 {
		c.timer = c.client.afterFunc(d, func() { c.life.end(reason) })
	}
}

// watched is a body whose upstream may be silent for so long, while somebody waits for it: who reads slowly is not
// the upstream.
type watched struct {
	io.ReadCloser
	timer Timer
	idle  time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.idle)
	defer w.timer.Stop()
	return w.ReadCloser.Read(p)
}
