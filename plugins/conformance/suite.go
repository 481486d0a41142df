package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// suite is one run of the rules.
type suite struct {
	o      Options
	shared *peer // configured with the test's settings; nil until somebody needs it
}

// peer is a provider that runs.
type peer struct {
	proto.ProviderClient
	conn    grpc.ClientConnInterface
	stop    func() error
	process *process // nil for one that is served in this process, as are the two below
	offer   offer
	id      *identity
}

// close ends what the rules share.
func (s *suite) close() {
	if s.shared != nil {
		_ = s.shared.stop() // how it ends is a rule of its own
	}
}

// bounded is a context for what should happen at once.
func (s *suite) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.o.Limit, fmt.Errorf("it took longer than %s", s.o.Limit))
}

// start starts a provider, not yet configured.
func (s *suite) start(ctx context.Context) (*peer, error) {
	if len(s.o.Command) > 0 {
		return s.launch(ctx)
	}
	conn, stop, err := s.o.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &peer{ProviderClient: proto.NewProviderClient(conn), conn: conn, stop: stop}, nil
}

// with starts a provider for one check and ends it.
func (s *suite) with(ctx context.Context, check func(ctx context.Context, p *peer) error) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	p, err := s.start(ctx)
	if err != nil {
		return err
	}
	return errors.Join(explain(ctx, check(ctx, p)), p.stop())
}

// configured is the provider that all rules about replies use.
func (s *suite) configured(ctx context.Context) (*peer, error) {
	if s.shared != nil {
		return s.shared, nil
	}
	p, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	s.shared = p
	return p, p.configure(ctx, s.o.Settings)
}

// ask is a check of the configured provider.
func (s *suite) ask(ctx context.Context, check func(ctx context.Context, p *peer) error) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	p, err := s.configured(ctx)
	if err != nil {
		return err
	}
	return explain(ctx, check(ctx, p))
}

// explain says of an error that came of the time limit that it did.
func explain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

// configure hands over settings, and asks for the health.
func (p *peer) configure(ctx context.Context, values settings.Values) error {
	answer, err := p.Configure(ctx, &proto.ConfigureRequest{Settings: values})
	if err != nil {
		return fmt.Errorf("Configure: %w", err)
	}
	if answer.GetError() != "" {
		return fmt.Errorf("Configure refuses the settings: %s", answer.GetError())
	}
	return p.healthy(ctx)
}

func (p *peer) healthy(ctx context.Context) error {
	health, err := p.Health(ctx, &proto.HealthRequest{})
	if err != nil {
		return fmt.Errorf("Health: %w", err)
	}
	if health.GetError() != "" {
		return fmt.Errorf("Health says: %s", health.GetError())
	}
	return nil
}

// about is what the provider says of itself.
func (p *peer) about(ctx context.Context) (*proto.DescribeResponse, error) {
	about, err := p.Describe(ctx, &proto.DescribeRequest{})
	if err != nil {
		return nil, fmt.Errorf("Describe: %w", err)
	}
	return about, nil
}

// request is the test's request, as an attempt of its own.
func (s *suite) request(attempt string) *llm.Request {
	req := *s.o.Request
	// Ids are unique for ever, and the upstream of one provider may be that of another.
	req.Attempt = fmt.Sprintf("conformance %s %d", attempt, time.Now().UnixNano())
	return &req
}

// attempt makes one and reads it to its end, and does each after every message. failure is how it ended, nil after a
// finish.
func attempt(ctx context.Context, p *peer, req *proto.GenerateRequest, each ...func() error) (
	events []llm.Event, failure *llm.Error, err error) {
	stream, err := p.Generate(ctx, req)
	if err != nil {
		return nil, nil, fmt.Errorf("Generate: %w", err)
	}
	var order wire.Order
	for {
		message, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			if !order.Finished() && failure == nil {
				return events, nil, errors.New("the stream ended without a finish and without a failure")
			}
			return events, failure, nil
		case err != nil:
			return events, failure, fmt.Errorf("the stream ended with a status other than OK: %w", err)
		}
		for _, do := range each {
			if err := do(); err != nil {
				return events, nil, err
			}
		}
		for _, e := range message.GetEvents() {
			if failure != nil || order.Finished() && e.GetFailure() != nil {
				return events, failure, errors.New("an event came after the last one, which a finish or a failure is")
			}
			if f := e.GetFailure(); f != nil {
				failure = wire.FailureFromProto(f)
				continue
			}
			ev := wire.EventFromProto(e)
			if ev.Kind == 0 {
				continue // of a later version
			}
			if err := order.Check(ev); err != nil {
				return events, nil, problem(err)
			}
			events = append(events, ev)
		}
	}
}

// problem is an error without its kind, which is the gateway's affair.
func problem(err error) error {
	if typed, ok := errors.AsType[*llm.Error](err); ok {
		return errors.New(typed.Message)
	}
	return err
}

// generate makes an attempt that must go well.
func (s *suite) generate(ctx context.Context, p *peer, name string) ([]llm.Event, error) {
	events, failure, err := attempt(ctx, p, wire.RequestToProto(s.request(name)))
	if err == nil && failure != nil {
		err = fmt.Errorf("it ended with a failure (%s): %s", failure.Kind, failure.Message)
	}
	return events, err
}

// replyOf puts events together.
func replyOf(events []llm.Event) *llm.Reply {
	reply := new(llm.Reply)
	for _, ev := range events {
		reply.Add(ev)
	}
	reply.Close()
	return reply
}
