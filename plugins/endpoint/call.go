package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/internal/reply"
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

	maxEvent     = 8 << 20  // bytes of one event of a stream, and of those in a row that say nothing
	framing      = 8        // bytes of an event that are not its data, at least
	maxErrorBody = 64 << 10 // bytes of an error that are looked at
	maxBatch     = 256      // events that Recv returns at once
	batchBytes   = 32 << 10 // of a stream, after which Recv takes no more
	batchFills   = 64       // reads of a stream that Recv makes to see whether there is more
	quietLooks   = 8        // looks at a connection in vain, after which there is one in so many
	roomyBatch   = 128      // events of a burst for which there is room at once
	nameOfError  = "error"
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
	ctx     context.Context // of the connection: one whose reply ended well outlives caller
	cancel  context.CancelCauseFunc
	unhook  func() bool
	timer   Timer       // of the endpoint's time-outs, nil where it has none
	settled atomic.Bool // the reply ended well: the connection is not to be broken
	stop    stop

	req      *llm.Request // until the upstream has answered: as it takes it
	idle     int          // bytes of events that said nothing, since one that did
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
	allowance int64
	sent      int64 // the allowance as it was sent, 0 where the upstream bills beyond it
	counts    bool  // usage is counted here where the upstream reports none (GAP-108)
	usage     bool  // usage was reported
	refers    bool  // what the upstream calls the reply is yet to be sent
	produced  tokens.Output
	requestID string
	err       error // how the call ended
}

// prepare makes the request such as the upstream of an endpoint takes it, and encodes it.
func (c *Call) prepare(e *Endpoint, req *llm.Request) error {
	c.endpoint, c.codec, c.counts, c.allowance = e, e.codec(), req.EstimateUsage, req.MaxTokens
	c.refers = e.References
	tooSmall := req.MaxTokens > 0 && req.MaxTokens < c.codec.least
	streams := e.AlwaysStream || e.Timings
	if streams && req.Whole || len(e.Refuses) > 0 || tooSmall {
		changed := *req
		if tooSmall {
			changed.MaxTokens = c.codec.least
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
	for i := range req.Tools {
		c.tools = append(c.tools, req.Tools[i].Name)
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
func (c *Call) giveUp() { c.cancel(nil) }

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

// roomy is the memory of batches of several events: a quiet stream has none, and a burst does not grow its own.
var roomy = sync.Pool{New: func() any {
	room := make([]llm.Event, 0, roomyBatch)
	return &room
}}

// clear begins a new batch.
func (c *Call) clear() {
	if c.room != nil {
		clear((*c.room)[:min(len(c.batch), roomyBatch)])
		roomy.Put(c.room)
		c.room = nil
	}
	c.batch = c.first[:0]
}

// add adds an event to the batch.
func (c *Call) add(ev llm.Event) {
	if c.room == nil && len(c.batch) == len(c.first) {
		c.room = roomy.Get().(*[]llm.Event)
		c.batch = append(*c.room, c.batch...)
	}
	c.batch = append(c.batch, ev)
}

// Each hands the events to send, up to the end: nil behind EventFinish, otherwise an error as of Recv, or what send
// returned, which ends it.
func (c *Call) Each(send func(llm.Event) error) error {
	for {
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
	if c.timer != nil {
		c.timer.Stop()
	}
	switch {
	case errors.Is(c.err, io.EOF):
		c.settled.Store(true)
		if c.events == nil || c.ending.ended {
			linger(c.resp.Body, c.giveUp) // it has been read to its end
		} else {
			go linger(c.resp.Body, c.giveUp)
		}
	default:
		c.giveUp()
		if c.resp != nil {
			_ = c.resp.Body.Close() // the reply is lost already
		}
		if c.caller.Err() != nil {
			c.err = left(c.caller)
		} else if failed, ok := errors.AsType[*llm.Error](c.err); ok && failed.RequestID == "" && c.name() != "" {
			named := *failed // which may be shared
			named.RequestID = c.name()
			c.err = &named
		}
	}
}

// left is the end of a call whose caller left, who knows why.
func left(ctx context.Context) error {
	return fmt.Errorf("calling the upstream: %w", context.Cause(ctx))
}

// open sends the request and takes the head of the reply. Where the upstream does not take the credential, a new one is
// asked for, once.
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
		if c.form, c.resp.Body = look(c.resp.Body); c.form != whole && c.form != streamed {
			return c.endpoint.webPage(c.resp.StatusCode)
		}
	}
	c.add(llm.Event{Kind: llm.EventAccepted, ID: c.requestID})
	if c.refers && c.endpoint.ReferenceHeader != "" {
		c.refer(c.resp.Header.Get(c.endpoint.ReferenceHeader))
	}
	event := c.event
	if c.allowance > 0 && c.allowance < c.codec.least {
		event = (&shorter{send: c.event, left: c.allowance}).event
	}
	c.decoder = c.codec.decoder(event, c.endpoint)
	c.decoder.Allowance(c.sent)
	if d, ok := c.decoder.(interface{ Tools(names []string) }); ok {
		d.Tools(c.tools)
	}
	return nil
}

// read takes what has come of the reply.
func (c *Call) read() error {
	if c.form == doubtful {
		if c.form, c.resp.Body = look(c.resp.Body); c.form == page {
			return c.endpoint.webPage(c.resp.StatusCode)
		}
		if c.form == doubtful { // its reader says what is wrong with it
			c.form = typeOf(c.resp.Header)
		}
	}
	if c.form == whole {
		return c.whole()
	}
	if c.events == nil {
		c.stream(c.resp.Body)
	}
	return c.take()
}

// stream makes an event stream of the reply.
func (c *Call) stream(body io.Reader) {
	c.ending.body = body
	c.events = sse.NewReader(&c.ending, maxEvent)
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
	c.limit(c.endpoint.Timeouts.FirstByte, errFirstByte)
	resp, err := c.post(to, sent)
	if c.timer != nil {
		c.timer.Stop()
	}
	if err != nil {
		if errors.Is(context.Cause(c.ctx), errFirstByte) {
			return c.endpoint.late()
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
	if to.plain != nil {
		return to.direct.Post(c.ctx, to.plain, sent.left, sent.giveBack)
	}
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "", nil)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host, req.Header = to.url, to.url.Host, to.header // which a transport does not change
	// What was sent is let go of, and encoded once more where a connection that was used before turns out to be closed
	// and nothing was sent.
	req.GetBody = func() (io.ReadCloser, error) { return newBody(c.endpoint, c.req) }
	req.ContentLength, req.Body = int64(sent.Len()), sent
	if sent.Len() <= writeBuffer {
		req.Body = sent.small()
	}
	return to.RoundTrip(req)
}

var (
	errFirstByte = errors.New("the upstream did not begin to answer")
	errIdle      = errors.New("the upstream sent nothing")
)

// limit breaks the connection off after d, if that is not 0, for that reason.
func (c *Call) limit(d time.Duration, reason error) {
	if d > 0 {
		c.timer = c.client.afterFunc(d, func() { c.cancel(reason) })
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

// take takes what has come of an event stream, at least one event. Behind that it takes no more than a batch has room
// for, of whatever comes: what says nothing holds up what has been said as long as anything else.
func (c *Call) take() error {
	c.fills = 0
	for taken, events := 0, 1; ; events++ {
		if c.decoder.Done() {
			return c.end(c.decoder.Close())
		}
		event, err := c.events.Next()
		if errors.Is(err, io.EOF) {
			return c.end(c.decoder.Close())
		}
		if err != nil {
			failed := c.endpoint.broke(c.ctx, err)
			if errors.Is(context.Cause(c.ctx), errStopped) {
				failed = stopped()
			}
			return c.cut(failed)
		}
		data := event.Data
		switch {
		case event.Name == nameOfError:
			data = reply.ErrorChunk(data)
		case event.Bare:
			if data = reply.BareChunk(data); data == nil {
				continue
			}
		}
		said := len(c.batch)
		if err := c.decoder.Data(data); err != nil {
			if c.ending.reached && llm.KindOf(err) == llm.ErrProtocol { // it was cut within this chunk
				err = llm.Errorf(llm.ErrBroken, "the upstream's stream ended in the middle of a chunk")
			}
			return c.end(err)
		}
		if c.idle += len(event.Data) + framing; len(c.batch) > said {
			c.idle = 0
		}
		if c.idle > maxEvent {
			return c.end(llm.Errorf(llm.ErrProtocol, "the upstream sent %d bytes of events that say nothing", c.idle))
		}
		if c.decoder.Done() {
			continue
		}
		if c.stop.noted(c.decoder) {
			return c.cut(stopped())
		}
		if c.refers {
			c.refer(c.decoder.ID())
		}
		taken += len(event.Data)
		if n := len(c.batch); n >= maxBatch || n > 0 && (taken > batchBytes || events >= maxBatch || !c.ready()) {
			return nil
		}
	}
}

// cut ends a stream before its end, with what is known of its usage.
func (c *Call) cut(why *llm.Error) error {
	c.broken = why
	_ = c.decoder.Close() // event keeps its EventFinish back
	return c.end(why)
}

// ready reports whether another event of the stream can be had without waiting for the upstream, as far as it is worth
// a look: where events come one at a time, the connection is rarely looked at.
func (c *Call) ready() bool {
	for !c.events.Ready() {
		if c.arrived == nil || c.fills >= batchFills {
			return false
		}
		look := c.vain < quietLooks || c.vain%quietLooks == 0
		if !look || !c.arrived.Ready() {
			c.vain++
			return false
		}
		c.vain = 0
		c.fills++
		_ = c.events.Fill() // what it returns, Next does
	}
	return true
}

// wholes are the bodies of replies in one piece, until they are decoded, which copies what it keeps.
var wholes = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keptWhole is the largest memory of a body that is used again.
const keptWhole = 64 << 10

// whole takes a reply in one piece, whether it was asked for or a stream was.
func (c *Call) whole() error {
	b := wholes.Get().(*bytes.Buffer)
	defer func() {
		if b.Cap() <= keptWhole {
			b.Reset()
			wholes.Put(b)
		}
	}()
	_, err := b.ReadFrom(io.LimitReader(c.resp.Body, c.most+1))
	switch {
	case err != nil:
		c.referCut(b.Bytes())
		return c.end(c.endpoint.broke(c.ctx, err))
	case int64(b.Len()) > c.most:
		c.referCut(b.Bytes())
		return c.end(llm.Errorf(llm.ErrUpstream, "the upstream's reply is larger than %d bytes, "+
			"many times what it was allowed to say; it is cut", c.most))
	}
	reply := bytes.TrimPrefix(b.Bytes(), byteOrderMark)
	if !isStream(reply) {
		return c.end(c.decoder.Whole(reply))
	}
	for c.stream(bytes.NewReader(reply)); err == nil; {
		err = c.take()
	}
	return err
}

// end makes the end of the call. What was produced before a failure was work too.
func (c *Call) end(err error) error {
	if err == nil {
		return io.EOF
	}
	c.refer(c.decoder.ID())
	if c.produced.Any() {
		c.count()
	}
	return err
}

// event takes an event of the reply into the batch.
func (c *Call) event(ev llm.Event) error {
	switch ev.Kind {
	case llm.EventUsage:
		c.usage = ev.Usage.Known()
	case llm.EventToolCall:
		ev = c.names.Client(ev)
	case llm.EventFinish:
		if c.broken != nil {
			return c.broken
		}
		c.refer(c.decoder.ID())
		c.count()
		if c.requestID == "" {
			ev.ID = c.name()
		}
	}
	if c.counts {
		c.produced.Add(ev)
	}
	c.add(ev)
	return nil
}

// count adds usage where the upstream reported none and the request says to count for oneself (GAP-108).
func (c *Call) count() {
	if c.usage || !c.counts {
		return
	}
	total, reasoning := c.produced.Count()
	usage := &llm.Usage{Input: &c.estimate, Output: &total, Estimated: true}
	if reasoning > 0 {
		usage.Reasoning = &reasoning
	}
	c.add(llm.Event{Kind: llm.EventUsage, Usage: usage})
}
