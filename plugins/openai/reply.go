package openai

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
	"github.com/fareway/fareway/plugins/tokens"
)

// maxEvent bounds one event of a stream, in bytes.
const maxEvent = 8 << 20

// reply reads the reply to one request.
type reply struct {
	ctx  context.Context // ends when the caller leaves
	req  *llm.Request
	send func(llm.Event) error

	// broken is set once the connection broke: a reply that had said how it ends, but not yet that it has
	// ended, is no whole reply, for its usage may be missing.
	broken *llm.Error
	// left is what send returned.
	left error

	usage    bool // usage was sent
	produced tokens.Output
}

// read takes a 2xx reply to its end. Errors are *llm.Error, or what send returned.
func (r *reply) read(resp *http.Response) error {
	stream, failed := streamed(resp.Header)
	if failed != nil {
		failed.Status = resp.StatusCode
		return failed
	}
	if err := r.event(llm.Event{Kind: llm.EventAccepted}); err != nil {
		return err
	}
	var err error
	if stream {
		err = r.readStream(resp.Body)
	} else {
		err = r.readWhole(resp.Body)
	}
	if err == nil || r.left != nil {
		return err
	}
	// What was produced before a failure was work too.
	if r.produced.Any() {
		if estimateErr := r.estimate(); estimateErr != nil {
			return estimateErr
		}
	}
	return err
}

// readStream takes an event stream.
func (r *reply) readStream(body io.Reader) error {
	var end ending
	events := sse.NewReader(io.MultiReader(body, &end), maxEvent)
	decoder := chat.NewDecoder(r.event)
	for !decoder.Done() {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.broken = broke(err)
			closeErr := decoder.Close() // sends the usage so far; event keeps its EventFinish back
			if r.left != nil {
				return closeErr
			}
			return r.broken
		}
		if err := decoder.Data(event.Data); err != nil {
			if end.reached && llm.KindOf(err) == llm.ErrProtocol { // it was cut within this chunk
				return llm.Errorf(llm.ErrBroken, "the upstream's stream ended in the middle of a chunk")
			}
			return err
		}
	}
	return decoder.Close()
}

// ending stands behind a body that ended well and completes its last event: some services leave out the
// blank line after their end marker, and without it an event does not count. A body that broke off returns
// its error first.
type ending struct {
	reached bool // the body has ended, and every whole event of it was read
	written int
}

func (e *ending) Read(p []byte) (int, error) {
	const blank = "\n\n"
	e.reached = true
	if e.written == len(blank) {
		return 0, io.EOF
	}
	n := copy(p, blank[e.written:])
	e.written += n
	return n, nil
}

// readWhole takes a reply in one piece, whether it was asked for or a stream was.
func (r *reply) readWhole(body io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(body, maxReply+1))
	switch {
	case err != nil:
		return broke(err)
	case len(b) > maxReply:
		return llm.Errorf(llm.ErrProtocol, "the upstream's reply is larger than %d bytes", maxReply)
	}
	return chat.DecodeReply(b, r.event)
}

// event passes an event on.
func (r *reply) event(ev llm.Event) error {
	switch ev.Kind {
	case llm.EventUsage:
		r.usage = ev.Usage.Known()
	case llm.EventFinish:
		if r.broken != nil {
			return r.broken
		}
		if err := r.estimate(); err != nil {
			return err
		}
	}
	if r.req.EstimateUsage {
		r.produced.Add(ev)
	}
	return r.pass(ev)
}

func (r *reply) pass(ev llm.Event) error {
	r.left = r.send(ev)
	return r.left
}

// estimate sends usage where the upstream sent none and the request says to count for oneself (GAP-108).
func (r *reply) estimate() error {
	if r.usage || !r.req.EstimateUsage {
		return nil
	}
	r.usage = true
	return r.pass(llm.Event{Kind: llm.EventUsage, Usage: estimated(r.req, &r.produced)})
}
