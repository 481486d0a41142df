package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
	"github.com/fareway/fareway/plugins/tokens"
)

const (
	// A reply in one piece has so many bytes at most: some for its form, what repeats the request, and more for each
	// token of its allowance than any token has in JSON.
	maxReply      = 32 << 20
	floorOfReply  = 1 << 20
	bytesPerToken = 512

	maxErrorBody = 64 << 10 // bytes of an error that are looked at
	// lingerTime is how long a connection may take to end its reply after the end marker, to be used again.
	lingerTime = time.Second
)

// Call is one request and its reply. Recv may be called by one goroutine at a time, Close by any.
type Call struct {
	client   *Client
	source   *Source
	endpoint *Endpoint
	codec    *codec
	model    string

	caller  context.Context // ends when nobody wants the reply any more
	life    life            // of the connection: one whose reply ended well outlives caller
	unhook  func() bool
	timer   Timer       // of the endpoint's time-outs, nil where it has none
	bound   Timer       // of a reply in one piece up to its end, nil where it has none
	settled atomic.Bool // the reply ended well: the connection is not to be broken
	stop    stop

	req      *llm.Request // until the upstream has answered: as it takes it
	vacuous  int          // bytes of events that said nothing, since one that did
	names    conform.Names
	tools    []string // as the upstream knows them
	body     *body    // what it is on the wire, until it is sent
	most     int64    // bytes of a reply in one piece
	estimate int64    // tokens of the input, where they may have to be counted here

	resp    *http.Response
	asked   form        // of the reply
	form    form        // of it
	events  *sse.Reader // of a stream
	ending  ending
	arrived interface{ Ready() bool } // says whether reading the body would wait, nil where that is not known
	vain    int                       // times that nothing had arrived, since something last had
	fills   int                       // reads to see whether there is more, since the batch began
	decoder decoder

	batch     []llm.Event // of the last Recv; it is used again
	first     [4]llm.Event
	room      *[]llm.Event // of a batch that first is too small for: borrowed until the next Recv
	broken    *llm.Error   // the connection broke: a reply that had said how it ends, but not that it has, is no whole one
	cutAt     int64        // tokens: the allowance where the API takes none so small, 0 where it does
	sent      int64        // the allowance as it was sent, 0 where the upstream bills beyond it
	counts    bool         // usage is counted here where the upstream reports none (GAP-108)
	usage     bool         // usage was reported
	refers    bool         // what the upstream calls the reply is yet to be sent
	produced  tokens.Output
	requestID string
	err       error // how the call ended
}

// prepare makes the request such as the upstream of an endpoint takes it, and encodes it.
func (c *Call) prepare(e *Endpoint, req *llm.Request) error {
	c.endpoint, c.codec, c.counts = e, e.codec(), req.EstimateUsage
	c.refers = e.References
	tooSmall := req.MaxTokens < c.codec.least
	streams := e.AlwaysStream || e.Timings
	if streams && req.Whole || len(e.Refuses) > 0 || tooSmall {
		changed := *req
		if tooSmall {
			c.cutAt, changed.MaxTokens = req.MaxTokens, c.codec.least
		}
		changed.Whole = req.Whole && !streams
		changed.Unsupported = slices.Concat(req.Unsupported, e.Refuses)
		req = &changed
	}
	var err error
	if req, c.names, err = conform.Request(req, c.codec.refuses(e, req.Model)); err != nil {
		return err
	}
	if c.body, err = newBody(e, req); err != nil {
		return err
	}
	c.req, c.most, c.asked, c.sent = req, maxReply, streamed, req.Bound()
	c.tools = make([]string, len(req.Tools))
	for i := range req.Tools {
		c.tools[i] = req.Tools[i].Name
	}
	if req.Whole {
		c.asked = whole
	}
	if n := req.MaxTokens; n > 0 && n < maxReply/bytesPerToken {
		c.most = min(maxReply, floorOfReply+2*int64(c.body.Len())+n*bytesPerToken)
	}
	if c.counts {
		c.estimate = tokens.Estimate(req)
	}
	return nil
}

// name is what the upstream calls the request or, where it has a name for its reply only, the reply.
func (c *Call) name() string {
	if c.requestID != "" || c.decoder == nil {
		return c.requestID
	}
	return c.endpoint.name(c.decoder.ID())
}

// Close gives the call up, if it has not ended. It may be called more than once, and while Recv waits.
func (c *Call) Close() {
	c.unhook()
	if !c.settled.Load() {
		c.giveUp()
	}
}

// giveUp breaks the connection off.
func (c *Call) giveUp() { c.life.end(nil) }

// Recv returns the next events: several when several have come together. With the last ones, or after them, comes the
// end: io.EOF behind EventFinish, or an error: an *llm.Error, or one that wraps the cause of the caller's leaving. The
// events are valid until the next Recv.
func (c *Call) Recv() ([]llm.Event, error) {
	c.clear()
	if c.err != nil {
		return nil, c.err
	}
	switch {
	case c.resp == nil:
		c.err = c.open()
	default:
		c.err = c.read()
	}
	if c.err != nil {
		c.close()
		if c.room != nil {
			return c.batch, nil // the next Recv gives it back, and says the end
		}
	}
	return c.batch, c.err
}

// Each hands the events to send, up to the end: nil behind EventFinish, otherwise an error as of Recv, or what send
// returned, which ends it.
func (c *Call) Each(send func(llm.Event) error) error { return c.EachBatch(send, func() {}) }

// EachBatch is Each, and calls wait before it waits for what has not come yet.
func (c *Call) EachBatch(send func(llm.Event) error, wait func()) error {
	for {
		wait()
		events, err := c.Recv()
		for _, ev := range events {
			if sendErr := send(ev); sendErr != nil {
				return sendErr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// close ends the call in c.err.
func (c *Call) close() {
	if c.body != nil { // it was never sent
		_ = c.body.Close()
	}
	c.body, c.req = nil, nil
	c.unhook()
	for _, t := range []Timer{c.timer, c.bound} {
		if t != nil {
			t.Stop()
		}
	}
	switch {
	case errors.Is(c.err, io.EOF):
		c.settled.Store(true)
		if c.events == nil || c.ending.ended {
			_ = c.resp.Body.Close() // it has been read to its end
			c.giveUp()
		} else {
			go c.client.linger(c.resp.Body, c.giveUp)
		}
	default:
		c.giveUp()
		if c.resp != nil {
			_ = c.resp.Body.Close() // the reply is lost already
		}
		if c.caller.Err() != nil {
			c.err = callerError(c.caller)
		} else if failed, ok := errors.AsType[*llm.Error](c.err); ok && failed.RequestID == "" && c.name() != "" {
			named := *failed // which may be shared
			named.RequestID = c.name()
			c.err = &named
		}
	}
}

// callerError is the end of a call whose caller left, who knows why.
func callerError(ctx context.Context) error {
	return fmt.Errorf("calling the upstream: %w", context.Cause(ctx))
}
