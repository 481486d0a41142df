package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

// generator is a provider made of one function.
type generator func(ctx context.Context, req *llm.Request, send func(llm.Event) error) error

func (g generator) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	return g(ctx, req, send)
}

// prover is a generator that can prove usage after a cancel.
type prover struct {
	generator
	prove func() (*llm.Usage, error)
}

func (p prover) CancelUsage(context.Context, string) (*llm.Usage, error) { return p.prove() }

// serve serves a provider and configures it.
func serve(t *testing.T, p Provider) proto.ProviderClient {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- ServeListener(ctx, listener, p) }()
	conn, err := grpc.NewClient("passthrough:provider", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		stop()
		require.NoError(t, <-served)
	})
	rpc := proto.NewProviderClient(conn)
	configured, err := rpc.Configure(t.Context(), &proto.ConfigureRequest{})
	require.NoError(t, err)
	require.Empty(t, configured.GetError())
	return rpc
}

// read reads an attempt to its end: its events, and its failure if it has one.
func read(t *testing.T, stream grpc.ServerStreamingClient[proto.Events]) ([]llm.Event, *llm.Error) {
	t.Helper()
	var events []llm.Event
	var failure *llm.Error
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events, failure
		}
		require.NoError(t, err)
		for _, ev := range message.GetEvents() {
			require.Nil(t, failure, "nothing comes after a failure")
			if f := ev.GetFailure(); f != nil {
				failure = wire.FailureFromProto(f)
				continue
			}
			events = append(events, wire.EventFromProto(ev))
		}
	}
}

func try(t *testing.T, p Provider) ([]llm.Event, *llm.Error) {
	t.Helper()
	stream, err := serve(t, p).Generate(t.Context(), &proto.GenerateRequest{Attempt: "a"})
	require.NoError(t, err)
	return read(t, stream)
}

var (
	accepted = llm.Event{Kind: llm.EventAccepted}
	finish   = llm.Event{Kind: llm.EventFinish, Finish: llm.FinishStop}
)

func say(s string) llm.Event { return llm.Event{Kind: llm.EventText, Text: s} }

func TestHowGenerateMayEnd(t *testing.T) {
	t.Parallel()
	policy := &llm.Error{Kind: llm.ErrPolicy, Message: "no", Status: 403}
	for _, test := range []struct {
		name   string
		run    generator
		events []llm.Event
		kind   llm.ErrorKind
	}{
		{"a whole reply", func(_ context.Context, _ *llm.Request, send func(llm.Event) error) error {
			return errors.Join(send(accepted), send(say("hi")), send(finish))
		}, []llm.Event{accepted, say("hi"), finish}, ""},
		{"a typed error", func(_ context.Context, _ *llm.Request, send func(llm.Event) error) error {
			return fmt.Errorf("calling: %w", policy)
		}, nil, llm.ErrPolicy},
		{"any other error", func(_ context.Context, _ *llm.Request, send func(llm.Event) error) error {
			return errors.Join(send(accepted), errors.New("broken pipe"))
		}, []llm.Event{accepted}, llm.ErrUpstream},
		{"no finish", func(_ context.Context, _ *llm.Request, send func(llm.Event) error) error {
			return send(accepted)
		}, []llm.Event{accepted}, llm.ErrProtocol},
		{"an error after the finish", func(_ context.Context, _ *llm.Request, send func(llm.Event) error) error {
			return errors.Join(send(accepted), send(finish), errors.New("closing the body"))
		}, []llm.Event{accepted, finish}, ""},
		{"an event after the finish", func(_ context.Context, _ *llm.Request, send func(llm.Event) error) error {
			return errors.Join(send(accepted), send(finish), send(say("more")))
		}, []llm.Event{accepted, finish}, ""},
		{"text before accepted", func(_ context.Context, _ *llm.Request, send func(llm.Event) error) error {
			return send(say("hi"))
		}, nil, llm.ErrProtocol},
		{"a panic of the runtime", func(_ context.Context, req *llm.Request, send func(llm.Event) error) error {
			return send(say(req.Messages[0].Text()))
		}, nil, llm.ErrProtocol},
		{"a panic with a value", func(context.Context, *llm.Request, func(llm.Event) error) error {
			panic("the prompt was: secret")
		}, nil, llm.ErrProtocol},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			events, failure := try(t, test.run)
			require.Equal(t, test.events, events)
			if test.kind == "" {
				require.Nil(t, failure)
				return
			}
			require.Equal(t, test.kind, failure.Kind)
			require.NotContains(t, failure.Message, "secret")
		})
	}
}

func TestASecondConfigureIsRefused(t *testing.T) {
	t.Parallel()
	answer, err := serve(t, generator(nil)).Configure(t.Context(), &proto.ConfigureRequest{})
	require.NoError(t, err)
	require.Contains(t, answer.GetError(), "configured before")
}

func TestACancelledAttempt(t *testing.T) {
	t.Parallel()
	wait := func(ctx context.Context, _ *llm.Request, send func(llm.Event) error) error {
		if err := send(accepted); err != nil {
			return err
		}
		<-ctx.Done()
		return send(say("too late")) // refused: the attempt is over
	}
	run := func(t *testing.T, p Provider) ([]llm.Event, *llm.Error) {
		rpc := serve(t, p)
		stream, err := rpc.Generate(t.Context(), &proto.GenerateRequest{Attempt: "a"})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		_, err = rpc.Cancel(t.Context(), &proto.CancelRequest{Attempt: "a"})
		require.NoError(t, err)
		return read(t, stream)
	}
	t.Run("GAP-47 proves its usage", func(t *testing.T) {
		t.Parallel()
		usage := &llm.Usage{Output: llm.Count(3)}
		events, failure := run(t, prover{wait, func() (*llm.Usage, error) { return usage, nil }})
		require.Equal(t, []llm.Event{{Kind: llm.EventUsage, Usage: usage}}, events)
		require.Equal(t, llm.ErrCanceled, failure.Kind)
	})
	t.Run("without proof", func(t *testing.T) {
		t.Parallel()
		events, failure := run(t, prover{wait, func() (*llm.Usage, error) { return nil, nil }})
		require.Empty(t, events)
		require.Equal(t, llm.ErrCanceled, failure.Kind)
	})
	t.Run("with a proof that panics", func(t *testing.T) {
		t.Parallel()
		_, failure := run(t, prover{wait, func() (*llm.Usage, error) { panic("no") }})
		require.Equal(t, llm.ErrCanceled, failure.Kind)
		require.Contains(t, failure.Message, "CancelUsage panicked")
	})
	t.Run("that finishes nevertheless", func(t *testing.T) {
		t.Parallel()
		done := make(chan struct{})
		p := prover{func(ctx context.Context, _ *llm.Request, send func(llm.Event) error) error {
			err := errors.Join(send(accepted), send(finish))
			close(done)
			<-ctx.Done()
			return errors.Join(err, ctx.Err())
		}, func() (*llm.Usage, error) { panic("must not be asked") }}
		_, failure := run(t, p)
		<-done
		require.Nil(t, failure)
	})
}

func TestAttemptsAreTheirOwn(t *testing.T) {
	t.Parallel()
	rpc := serve(t, generator(func(ctx context.Context, _ *llm.Request, send func(llm.Event) error) error {
		if err := send(accepted); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	first, err := rpc.Generate(ctx, &proto.GenerateRequest{Attempt: "a"})
	require.NoError(t, err)
	_, err = first.Recv()
	require.NoError(t, err)
	twice, err := rpc.Generate(ctx, &proto.GenerateRequest{Attempt: "a"})
	require.NoError(t, err)
	_, failure := read(t, twice)
	require.Equal(t, llm.ErrProtocol, failure.Kind)
	require.Contains(t, failure.Message, "already running")
}

func TestAnOutboxKeepsOrderAndItsLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, outboxBytes), 0, 600).Draw(t, "sizes")
		o := newOutbox()
		var producer sync.WaitGroup
		producer.Go(func() {
			defer o.close()
			for i, size := range sizes {
				ev := wire.Said{Event: llm.Event{Kind: llm.EventToolEnd, Index: i}}
				if o.put(context.Background(), ev, size) != nil {
					return
				}
			}
		})
		next := 0
		for batch := o.take(nil); batch != nil; batch = o.take(batch) {
			bytes := 0
			for _, ev := range batch {
				require.EqualValues(t, next, ev.Index)
				bytes += sizes[next]
				next++
			}
			require.LessOrEqual(t, len(batch), outboxEvents)
			require.Less(t, bytes, 2*outboxBytes)
		}
		producer.Wait()
		require.Equal(t, len(sizes), next)
	})
}

func TestAFullOutboxGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, o.put(ctx, wire.Said{}, outboxBytes))
	cancel()
	require.ErrorIs(t, o.put(ctx, wire.Said{}, 1), context.Canceled)
}

func TestTheLogKeepsLevelsAndNames(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	newLogger(&out).Warn("hello", "time", "noon", "n", 1)
	require.Regexp(t,
		`^\{"@timestamp":"[0-9-]+T[0-9:.]{15}(Z|[+-]\d\d:\d\d)","@level":"warn","@message":"hello","time":"noon","n":1\}\n$`,
		out.String())
}

// comparer is a provider that predicts by a function.
type comparer struct {
	PredictorOnly
	predict func([]llm.PredictRequest) ([]llm.Prediction, error)
}

func (c comparer) Predict(_ context.Context, r []llm.PredictRequest) ([]llm.Prediction, error) {
	return c.predict(r)
}

// A predictor of one's own, in Go.
func TestPredict(t *testing.T) {
	t.Parallel()
	asked := []llm.PredictRequest{{Texts: []llm.ScreenText{{Role: "user", Text: "Prove it."}}, InputTokens: 7, Tools: true,
		Routes: []llm.PredictRoute{{Name: "small", Model: "s-1", Quality: 0.5}, {Name: "large", Model: "l-1", Quality: 0.9}}}}
	ask := func(t *testing.T, predict func([]llm.PredictRequest) ([]llm.Prediction, error)) *proto.PredictResponse {
		t.Helper()
		rpc := serve(t, comparer{predict: predict})
		about, err := rpc.Describe(t.Context(), &proto.DescribeRequest{})
		require.NoError(t, err)
		require.True(t, about.GetCapabilities().GetPredict())
		answer, err := rpc.Predict(t.Context(), wire.PredictRequestsToProto(asked))
		require.NoError(t, err, "what goes wrong travels in the message")
		return answer
	}
	answer := ask(t, func(r []llm.PredictRequest) ([]llm.Prediction, error) {
		require.Equal(t, asked, r)
		return []llm.Prediction{{0.2, llm.Unknown}}, nil
	})
	require.Nil(t, answer.GetFailure())
	require.Equal(t, []llm.Prediction{{0.2, llm.Unknown}}, wire.PredictionsFromProto(answer))
	for name, predict := range map[string]func([]llm.PredictRequest) ([]llm.Prediction, error){
		"too few":     func([]llm.PredictRequest) ([]llm.Prediction, error) { return nil, nil },
		"no chance":   func([]llm.PredictRequest) ([]llm.Prediction, error) { return []llm.Prediction{{2, 0}}, nil },
		"an error":    func([]llm.PredictRequest) ([]llm.Prediction, error) { return nil, errors.New("no model") },
		"and a panic": func([]llm.PredictRequest) ([]llm.Prediction, error) { panic("no model") },
	} {
		answer := ask(t, predict)
		require.NotNil(t, answer.GetFailure(), name)
		require.Empty(t, answer.GetPredictions(), name)
	}
	require.ErrorContains(t, PredictorOnly{}.Generate(t.Context(), nil, nil), "compares routes and answers no requests")
	rpc := serve(t, generator(nil))
	_, err := rpc.Predict(t.Context(), &proto.PredictRequest{})
	require.ErrorContains(t, err, "does not predict")
}
