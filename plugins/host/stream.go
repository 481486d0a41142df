package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

// refusal says why the plugin takes no request now, nil if it does. The lock is held.
func (p *Plugin) refusal() error {
	switch p.state {
	case Ready:
		return nil
	case Unhealthy:
		return llm.Errorf(llm.ErrUpstream, "provider %q says that it cannot take requests", p.spec.Name)
	}
	return llm.Errorf(llm.ErrDied, "provider %q is %s", p.spec.Name, p.state)
}

// Generate makes an attempt. The stream must be closed. The attempt ends with ctx; the process does not. The
// error is an *llm.Error: of kind ErrDied when there is no process, so that another route may be tried.
func (p *Plugin) Generate(ctx context.Context, req *llm.Request) (*Stream, error) {
	proc, err := p.lease()
	if err != nil {
		return nil, err
	}
	s := &Stream{plugin: p, proc: proc, caller: ctx, attempt: req.Attempt}
	if req.Whole { // it comes at once
		s.message.List, s.events = make([]wire.Said, 0, usualReply), make([]llm.Event, 0, usualReply)
	}
	own, cancel := context.WithCancel(undated{withTrace(ctx)})
	s.abandon = cancel
	if err = s.call(own, req); err != nil {
		err = s.explain(err)
		s.Close()
		return nil, err
	}
	return s, nil
}

// usualReply is how many events a reply in one piece has, as a rule.
const usualReply = 4

// call asks the process. A request goes with its texts as they are in JSON where the plugin takes them so.
func (s *Stream) call(ctx context.Context, req *llm.Request) (err error) {
	var message any = &wire.Request{Request: req}
	if !s.proc.about.GetCapabilities().GetQuoted() {
		message = wire.RequestToProto(req)
	}
	generate := &grpc.StreamDesc{ServerStreams: true}
	s.rpc, err = s.proc.conn.NewStream(ctx, generate, proto.Provider_Generate_FullMethodName,
		grpc.ForceCodecV2(wire.Codec()))
	if err == nil {
		err = s.rpc.SendMsg(message)
	}
	if err == nil {
		err = s.rpc.CloseSend()
	}
	return err
}

// undated hides a context's deadline, which gRPC would hand on: the provider could see it a moment before we do,
// and the end of the attempt's time would look like a failure of its upstream.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// Stream is the reply of one attempt. Recv is for one goroutine; the other methods may be called from any.
type Stream struct {
	plugin  *Plugin
	proc    *process
	caller  context.Context // the caller's, to tell its end from others
	attempt string
	rpc     grpc.ClientStream
	message wire.Events // the last one
	events  []llm.Event // of it
	abandon context.CancelFunc

	order    wire.Order
	end      error       // what Recv answers from now on
	finished atomic.Bool // by EventFinish
	canceled atomic.Bool
	closed   atomic.Bool
	once     sync.Once
}

// Recv waits for the next events, which are valid until the next Recv: one, or several that came together. It
// returns io.EOF after EventFinish, and otherwise an *llm.Error: ErrDied when the process is gone, ErrCanceled when
// the caller left or when the attempt was stopped by Cancel, ErrProtocol when the provider broke the protocol, and
// every other kind as the provider gave it. When ctx ran into its deadline the kind is ErrUpstream: the attempt took
// too long.
func (s *Stream) Recv() ([]llm.Event, error) {
	for s.end == nil {
		if err := s.rpc.RecvMsg(&s.message); err != nil {
			s.end = s.explain(err)
			break
		}
		if events := s.read(); len(events) > 0 {
			return events, nil
		}
	}
	return nil, s.end
}

// read takes the events of the last message, up to the end of the stream if that is in it.
func (s *Stream) read() []llm.Event {
	events := s.events[:0]
	defer func() { s.events = events }()
	for i := range s.message.List {
		said := &s.message.List[i]
		if said.Failure != nil {
			s.end = s.failure(said.Failure)
			return events
		}
		if err := s.order.Check(said.Event); err != nil {
			s.end = err
			s.plugin.violated(s.proc, ViolationOrder, err)
			return events
		}
		events = append(events, said.Event)
		if s.order.Finished() {
			s.end = io.EOF
			s.finished.Store(true)
			if i < len(s.message.List)-1 {
				s.plugin.violated(s.proc, ViolationAfterFinish, errAfterFinish)
			}
			return events
		}
	}
	return events
}

// failure is the end that a provider gave.
func (s *Stream) failure(f *proto.Failure) error {
	err := s.proc.failure(f)
	if err.Kind == llm.ErrCanceled && !s.canceled.Load() {
		err := llm.Errorf(llm.ErrProtocol, "provider %q says that an attempt was cancelled, which it was not",
			s.plugin.spec.Name)
		s.plugin.violated(s.proc, ViolationEnd, err)
		return err
	}
	return err
}

// explain is the end that the connection gave.
func (s *Stream) explain(err error) error {
	name := s.plugin.spec.Name
	switch {
	case timedOut(s.caller, err):
		err := llm.Errorf(llm.ErrUpstream, "provider %q did not end the reply within the time limit of the attempt", name)
		s.plugin.violated(s.proc, ViolationLate, err)
		return err
	case s.caller.Err() != nil || s.closed.Load():
		return llm.Errorf(llm.ErrCanceled, "the caller left")
	case errors.Is(err, io.EOF):
		err := llm.Errorf(llm.ErrProtocol, "provider %q ended the stream without a finish and without a failure", name)
		s.plugin.violated(s.proc, ViolationEnd, err)
		return err
	}
	return s.plugin.callFailure(s.proc, err)
}

// timedOut reports whether a call ended by the deadline of its context. A plugin that is given the deadline, as
// in CountTokens, can see it a moment earlier.
func timedOut(ctx context.Context, err error) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// callFailure is the error of a call that the connection did not carry to its end.
func (p *Plugin) callFailure(proc *process, err error) error {
	st, name := status.Convert(err), p.spec.Name
	message := proc.child.scrub.clean(st.Message())
	violation := ViolationStatus
	var failure *llm.Error
	switch {
	case st.Code() == codes.ResourceExhausted && strings.Contains(message, overLimit):
		violation = ViolationMessage
		failure = llm.Errorf(llm.ErrProtocol, "provider %q: it sent a message that is too large for the plugin protocol: %s",
			name, message)
	case st.Code() == codes.ResourceExhausted: // it does not take one
		return llm.Errorf(llm.ErrRejected, "provider %q: a message is too large for the plugin protocol: %s", name, message)
	case st.Code() == codes.Unimplemented:
		failure = llm.Errorf(llm.ErrProtocol, "provider %q cannot do this: %s", name, message)
	default:
		if how := proc.death(err); how != "" {
			return llm.Errorf(llm.ErrDied, "provider %q: %s", name, how)
		}
		if st.Code() == codes.Unavailable || st.Code() == codes.Canceled {
			failure = llm.Errorf(llm.ErrDied, "provider %q: the connection to its process broke: %s", name, message)
		} else {
			failure = llm.Errorf(llm.ErrProtocol, "provider %q broke the plugin protocol: %s: %s", name, st.Code(), message)
		}
	}
	p.violated(proc, violation, failure)
	return failure
}

// overLimit is in the words of gRPC about a message that is over our own limit; a plugin has another one.
var overLimit = fmt.Sprintf("vs. %d)", wire.MaxResponse)

// Cancel asks the provider to stop the attempt and to prove what it used; it needs the capability
// CancelUsage, or an endpoint that proves it (Proves). The stream then goes on to its usage and its end: io.EOF if the
// reply ended first, otherwise an error of kind ErrCanceled.
func (s *Stream) Cancel(ctx context.Context) error {
	if c := s.plugin.Capabilities(); !c.CancelUsage && !c.Endpoint {
		return llm.Errorf(llm.ErrProtocol, "provider %q cannot prove usage after a cancel", s.plugin.spec.Name)
	}
	s.canceled.Store(true)
	if _, err := s.proc.rpc.Cancel(ctx, &proto.CancelRequest{Attempt: s.attempt}); err != nil {
		if ctx.Err() != nil {
			return llm.Errorf(llm.ErrCanceled, "provider %q was not asked to cancel in time", s.plugin.spec.Name)
		}
		return s.plugin.callFailure(s.proc, err)
	}
	return nil
}

// Close abandons the attempt, if it is still running, and gives the lease on the process back. It may be
// called more than once.
func (s *Stream) Close() {
	s.once.Do(func() {
		s.closed.Store(true)
		if s.finished.Load() {
			go s.awaitEnd()
		} else {
			s.abandon()
		}
		s.plugin.returned(s.proc)
	})
}

// endTimeout is how long a provider may take to end a stream behind its finish.
const endTimeout = 5 * time.Second

var errAfterFinish = errors.New("something came after the reply's finish; finish must be the last one")

// awaitEnd looks whether the provider ends the stream as it must, behind the finish. Nobody waits for it.
func (s *Stream) awaitEnd() {
	defer s.abandon()
	defer time.AfterFunc(endTimeout, s.abandon).Stop()
	if s.rpc.RecvMsg(new(wire.Events)) == nil {
		s.plugin.violated(s.proc, ViolationAfterFinish, errAfterFinish)
	}
}
