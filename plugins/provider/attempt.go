package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

// errCanceled ends the context of an attempt that the gateway cancelled by the Cancel call.
var errCanceled = errors.New("the gateway cancelled the attempt")

// attempt is one call of Generate.
type attempt struct {
	provider Provider
	write    func(message any) error // of the gRPC stream; one goroutine calls it at a time
	order    wire.Order

	// stream lives as long as the gateway listens, running until the attempt is cancelled or over.
	stream  context.Context
	running context.Context
	cancel  context.CancelCauseFunc // of running

	mu   sync.Mutex // of what follows
	over bool       // nothing is taken any more

	// A Carried says when it is about to wait: until then its events gather here, and it writes them itself.
	gathers bool
	message wire.Events // the outbox's writer's alone, once there is one; so is lost
	size    int         // bytes of text in it

	out     *outbox       // of what others send; nil until they do
	written chan struct{} // closed when all of that has been written
	lost    error         // why nothing can be written any more
}

var errOver = errors.New("send was called after Generate had returned")

// carry makes the attempt one that a Carried can be told to stop, as the gateway stops calls of its own.
func (a *attempt) carry() (stop func()) {
	c := &carriage{attempt: a}
	a.running = context.WithValue(a.running, carriageKey{}, c)
	return c.stop
}

// put sends an event, with size bytes of text in it, or has it sent. It gives up when ctx ends.
func (a *attempt) put(ctx context.Context, ev wire.Said, size int) error {
	out, err := a.take(ev, size)
	if out != nil {
		return out.put(ctx, ev, size) // which may wait
	}
	return err
}

// take has an event gather, or returns the outbox that it is to be put into.
func (a *attempt) take(ev wire.Said, size int) (*outbox, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over: // nobody would close the outbox
		return nil, errOver
	case !a.gathers:
		if a.out == nil {
			a.out, a.written = newOutbox(), make(chan struct{})
			go a.writeOutbox()
		}
		return a.out, nil
	}
	if a.message.List == nil {
		a.message.List = make([]wire.Said, 0, usualReply)
	}
	a.message.List, a.size = append(a.message.List, ev), a.size+size
	if len(a.message.List) >= outboxEvents || a.size >= outboxBytes {
		a.writeGathered()
	}
	return nil, nil
}

// usualReply is how many events a reply in one piece has, as a rule.
const usualReply = 4

// gather says whether the events to come gather until flush. They do not once the outbox is used.
func (a *attempt) gather(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeGathered()
	a.gathers = on && a.out == nil
}

// flush writes the events that have gathered.
func (a *attempt) flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeGathered()
}

// writeGathered is flush, with the lock held.
func (a *attempt) writeGathered() {
	if a.out == nil && len(a.message.List) > 0 {
		a.writeMessage()
		clear(a.message.List)
		a.message.List, a.size = a.message.List[:0], 0
	}
}

// writeOutbox writes what comes into the outbox.
func (a *attempt) writeOutbox() {
	defer close(a.written)
	for batch := a.out.take(nil); batch != nil; batch = a.out.take(batch) {
		a.message.List = batch
		a.writeMessage()
	}
}

// writeMessage writes the message, if anybody listens; otherwise the provider is on its way out.
func (a *attempt) writeMessage() {
	if a.lost == nil {
		if a.lost = a.write(&a.message); a.lost != nil {
			a.cancel(a.lost)
		}
	}
}

// end waits until all that was sent has been written, or cannot be.
func (a *attempt) end() error {
	a.mu.Lock()
	a.over = true
	a.writeGathered()
	out := a.out
	a.mu.Unlock()
	if out != nil {
		out.close()
		<-a.written
	}
	return a.lost
}

// run makes the attempt, and says its end: what Generate returned, nil where the reply is whole.
func (a *attempt) run(req *llm.Request) error {
	err := guard("Generate", func() error { return a.provider.Generate(a.running, req, a.send) })
	switch {
	case a.order.Finished():
		// The reply is whole. An error now says that the caller left between the end and the return.
		return nil
	case errors.Is(context.Cause(a.running), errCanceled):
		a.proveCanceled(req.Attempt)
	case err == nil:
		a.fail(llm.Errorf(llm.ErrProtocol, "Generate returned without a finish event and without an error"))
	default:
		a.fail(err)
	}
	return err
}

// send is what the provider sends with.
func (a *attempt) send(ev llm.Event) error {
	if a.running.Err() != nil {
		return context.Cause(a.running)
	}
	if err := a.order.Check(ev); err != nil {
		return err
	}
	// A huge piece is cut: the host takes messages of a limited size.
	for len(ev.Text) > wire.MaxText {
		end := wire.MaxText
		for !utf8.RuneStart(ev.Text[end]) {
			end--
		}
		piece := ev
		piece.Text, ev.Text = ev.Text[:end], ev.Text[end:]
		if err := a.put(a.running, wire.Said{Event: piece}, end); err != nil {
			return err
		}
	}
	return a.put(a.running, wire.Said{Event: ev}, len(ev.Text))
}

// isOwn reports whether a function is an attempt's own send, and not one that a provider has put before it.
func isOwn(send func(llm.Event) error) bool { return reflect.ValueOf(send).Pointer() == ownSend }

// ownSend is where the code of any attempt's send begins.
var ownSend = reflect.ValueOf((*attempt)(nil).send).Pointer()

// proveCanceled ends a cancelled attempt with what the provider can prove.
func (a *attempt) proveCanceled(id string) {
	var usage *llm.Usage
	err := guard("CancelUsage", func() error {
		var err error
		usage, err = a.provider.(CancelProver).CancelUsage(a.stream, id)
		if err == nil && usage != nil {
			err = wire.CheckUsage(usage)
		}
		return err
	})
	if err != nil {
		a.fail(llm.Errorf(llm.ErrCanceled, "proving the usage of a cancelled attempt: %v", err))
		return
	}
	if usage != nil {
		if a.put(a.stream, wire.Said{Event: llm.Event{Kind: llm.EventUsage, Usage: usage}}, 0) != nil {
			return // the gateway has left
		}
	}
	a.fail(llm.Errorf(llm.ErrCanceled, "%v", errCanceled))
}

// fail ends the attempt with a failure. An outbox that does not take it has lost its reader.
func (a *attempt) fail(err error) {
	_ = a.put(a.stream, wire.Said{Failure: wire.FailureToProto(err)}, 0)
}

// guard calls a method of the provider and turns a panic into an error: one request must not end the
// process, with the streams of all others.
func guard(method string, call func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		// A panic of the runtime says what went wrong; any other value may hold a piece of a prompt.
		what := fmt.Sprintf("a %T", v)
		if e, ok := v.(runtime.Error); ok {
			what = e.Error()
		}
		slog.Error("provider panicked", "method", method, "panic", what, "stack", string(debug.Stack()))
		err = llm.Errorf(llm.ErrProtocol, "%s panicked (%s); the provider's log has the stack", method, what)
	}()
	return call()
}
