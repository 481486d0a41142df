package host_test

import (
	"context"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	plugin "github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

// rogue is a plugin without the SDK, which breaks the protocol as the last message says.
type rogue struct {
	plugin.NetRPCUnsupportedPlugin
	proto.UnimplementedProviderServer
}

func (r *rogue) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	proto.RegisterProviderServer(server, r)
	return nil
}

func (*rogue) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func rogueMain() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{wire.Version: {wire.PluginName: &rogue{}}},
		GRPCServer:       plugin.DefaultGRPCServer,
	})
}

func (*rogue) Describe(context.Context, *proto.DescribeRequest) (*proto.DescribeResponse, error) {
	return &proto.DescribeResponse{Name: "rogue", Version: "1",
		Capabilities: &proto.Capabilities{CountTokens: true, Receipts: true, Screen: true,
			Predict: true}}, nil
}

func (*rogue) Configure(context.Context, *proto.ConfigureRequest) (*proto.ConfigureResponse, error) {
	return &proto.ConfigureResponse{}, nil
}

func (*rogue) Health(context.Context, *proto.HealthRequest) (*proto.HealthResponse, error) {
	return &proto.HealthResponse{}, nil
}

func (*rogue) CountTokens(_ context.Context, in *proto.CountTokensRequest) (*proto.CountTokensResponse, error) {
	if in.GetRequest().GetMessages()[0].GetParts()[0].GetText() == "late" {
		forever()
	}
	return &proto.CountTokensResponse{Tokens: -1}, nil
}

func (*rogue) Screen(_ context.Context, in *proto.ScreenRequest) (*proto.ScreenResponse, error) {
	answer := &proto.ScreenResponse{Verdict: proto.ScreenResponse_BLOCK}
	switch text := in.GetTexts()[0].GetText(); text {
	case "none":
		answer.Verdict = 0
	case "of a later version":
		answer.Verdict = 99
	case "many":
		answer.Categories = []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}
	default:
		answer.Categories = []string{text}
	}
	return answer, nil
}

func (*rogue) Predict(_ context.Context, in *proto.PredictRequest) (*proto.PredictResponse, error) {
	answer := new(proto.PredictResponse)
	for _, r := range in.GetRequests() {
		p := new(proto.Prediction)
		for _, route := range r.GetRoutes() {
			p.Qualities = append(p.Qualities, route.GetQuality())
		}
		answer.Predictions = append(answer.Predictions, p)
	}
	return answer, nil
}

func (*rogue) Receipts(_ context.Context, in *proto.ReceiptsRequest) (*proto.ReceiptsResponse, error) {
	used := &proto.Usage{Output: new(int64(1))}
	if in.GetAttempts()[0] == "negative" {
		used.Output = new(int64(-1))
	}
	return &proto.ReceiptsResponse{Receipts: []*proto.Receipt{
		{Attempt: in.GetAttempts()[0], Usage: used}, {Attempt: in.GetAttempts()[0], Usage: used}}}, nil
}

func (*rogue) Generate(in *proto.GenerateRequest, stream grpc.ServerStreamingServer[proto.Events]) error {
	accepted := &proto.Event{Kind: &proto.Event_Accepted{Accepted: &proto.Accepted{}}}
	say := func(text string) *proto.Event { return &proto.Event{Kind: &proto.Event_Text{Text: text}} }
	used := func(output int64) *proto.Event {
		return &proto.Event{Kind: &proto.Event_Usage{Usage: &proto.Usage{Input: new(int64(3)), Output: &output}}}
	}
	finish := &proto.Event{Kind: &proto.Event_Finish{Finish: &proto.Finish{Reason: "stop"}}}
	send := func(events ...*proto.Event) error { return stream.Send(&proto.Events{Events: events}) }

	switch script := in.GetMessages()[0].GetParts()[0].GetText(); script {
	case "text first":
		return send(say("hello"), accepted, finish)
	case "negative usage":
		return send(accepted, used(-1), finish)
	case "usage twice":
		return send(accepted, say("hello"), used(5), used(5), finish)
	case "no finish":
		return send(accepted, say("hello"))
	case "cancelled by nobody":
		return send(accepted, &proto.Event{Kind: &proto.Event_Failure{Failure: &proto.Failure{
			Kind: proto.Failure_CANCELED}}})
	case "after the finish":
		return send(accepted, say("hello"), used(5), finish, used(500), say("more"))
	case "long after the finish":
		if err := send(accepted, say("hello"), used(5), finish); err != nil {
			return err
		}
		return send(used(500))
	case "100 MB":
		if err := send(accepted); err != nil {
			return err
		}
		return send(say(strings.Repeat("x", 100<<20)), finish)
	case "status":
		return status.Error(codes.DataLoss, "lost it")
	case "unavailable":
		return status.Error(codes.Unavailable, "not today")
	case "deaf":
		if err := send(accepted); err != nil {
			return err
		}
		<-stream.Context().Done()
		return send(say("still here"), finish)
	case "slow":
		if err := send(accepted, say("hel")); err != nil {
			return err
		}
		return slowly(stream.Context(), func() error { return send(say("x")) })
	}
	return send(accepted, say("hello"), used(5), finish)
}

// slowly sends until the caller leaves.
func slowly(ctx context.Context, send func() error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
			if err := send(); err != nil {
				return err
			}
		}
	}
}

// violations is a host with the violations and failures that it tells of.
func violations(t *testing.T) (*host.Host, *clock, <-chan host.Violation, <-chan host.Cause) {
	c, seen, causes := newClock(), make(chan host.Violation, 100), make(chan host.Cause, 100)
	h := newHost(t, func(o *host.Options) {
		o.Clock = c
		o.OnViolation = func(_ string, v host.Violation) { seen <- v }
		o.OnFailure = func(_ string, cause host.Cause) { causes <- cause }
	})
	return h, c, seen, causes
}

// Each way to break the protocol is counted by its provider, and ends the reply that it is in.
func TestViolationsAreCounted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script, text string
		violation    host.Violation
		kind         llm.ErrorKind // "" for a reply that is whole
		want         string
	}{
		{"text first", "", host.ViolationOrder, llm.ErrProtocol, "accepted must be the first"},
		{"negative usage", "", host.ViolationOrder, llm.ErrProtocol, "negative count"},
		{"no finish", "hello", host.ViolationEnd, llm.ErrProtocol, "without a finish"},
		{"cancelled by nobody", "", host.ViolationEnd, llm.ErrProtocol, "which it was not"},
		{"after the finish", "hello", host.ViolationAfterFinish, "", "finish must be the last one"},
		{"long after the finish", "hello", host.ViolationAfterFinish, "", "finish must be the last one"},
		{"100 MB", "", host.ViolationMessage, llm.ErrProtocol, "too large for the plugin protocol"},
		{"status", "", host.ViolationStatus, llm.ErrProtocol, "DataLoss: lost it"},
		{"unavailable", "", host.ViolationStatus, llm.ErrDied, "not today"},
	} {
		t.Run(test.script, func(t *testing.T) {
			t.Parallel()
			h, _, seen, _ := violations(t)
			p := acquire(t, h, spec("rogue"))
			other := open(t, t.Context(), p, ask("slow"))
			events, err := talk(t.Context(), p, test.script)
			require.Equal(t, test.text, text(events))
			if test.kind == "" {
				require.NoError(t, err)
			} else {
				require.Equal(t, test.kind, kindOf(t, err))
				require.ErrorContains(t, err, test.want)
			}
			require.Equal(t, test.violation, <-seen)
			i := p.Info()
			require.Equal(t, map[host.Violation]int{test.violation: 1}, i.Violations)
			require.Contains(t, i.Violation, test.want)
			require.Empty(t, i.Failures)

			// Nobody else has noticed.
			for range 3 {
				_, err = other.Recv()
				require.NoError(t, err)
			}
			events, err = talk(t.Context(), p, "hello")
			require.NoError(t, err)
			require.Equal(t, "hello", text(events))
			require.Empty(t, seen)
		})
	}
}

// Usage that comes twice is no more than once, for a later one is the state and not more of it.
func TestUsageThatComesTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	events, err := talk(t.Context(), acquire(t, newHost(t), spec("rogue")), "usage twice")
	require.NoError(t, err)
	var reply llm.Reply
	for _, ev := range events {
		reply.Add(ev)
	}
	require.Equal(t, &llm.Usage{Input: llm.Count(3), Output: llm.Count(5)}, reply.Usage)
}

// What comes after the deadline is lost, and its stream is over at the deadline.
func TestAnAnswerAfterTheDeadlineIsLate(t *testing.T) {
	t.Parallel()
	h, _, seen, causes := violations(t)
	p := acquire(t, h, spec("rogue"))
	for range 2 * 10 { // it may well be its upstream
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := talk(ctx, p, "deaf")
		cancel()
		require.Equal(t, llm.ErrUpstream, kindOf(t, err))
		require.Equal(t, host.ViolationLate, <-seen)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := p.CountTokens(ctx, ask("late"))
	require.Equal(t, llm.ErrUpstream, kindOf(t, err))
	require.Equal(t, host.ViolationLate, <-seen)
	require.Empty(t, causes)
	require.Equal(t, host.Ready, p.State())
}

func TestAnswersThatCannotBeAreViolations(t *testing.T) {
	t.Parallel()
	h, _, seen, _ := violations(t)
	p := acquire(t, h, spec("rogue"))
	_, err := p.CountTokens(t.Context(), ask("hello"))
	require.Equal(t, llm.ErrProtocol, kindOf(t, err))
	require.Equal(t, host.ViolationAnswer, <-seen)
	for _, attempt := range []string{"negative", "twice"} {
		_, err = p.Receipts(t.Context(), asked(attempt))
		require.Equal(t, llm.ErrProtocol, kindOf(t, err))
		require.Equal(t, host.ViolationAnswer, <-seen)
	}
	require.Equal(t, 3, p.Info().Violations[host.ViolationAnswer])
}

// What screens answers a verdict, and no text.
func TestAVerdictIsNoText(t *testing.T) {
	t.Parallel()
	h, _, seen, _ := violations(t)
	p := acquire(t, h, spec("rogue"))
	judge := func(text string) (llm.Verdict, error) {
		return p.Screen(t.Context(), []llm.ScreenText{{Role: "user", Text: text}})
	}
	verdict, err := judge("violence/graphic_2.1-x")
	require.NoError(t, err)
	require.Equal(t, llm.Verdict{Action: llm.VerdictBlock, Categories: []string{"violence/graphic_2.1-x"}}, verdict)
	for _, text := range []string{"none", "of a later version", "many", "how do I do that", "", strings.Repeat("x", 65),
		"höflich"} {
		verdict, err = judge(text)
		require.Equal(t, llm.ErrProtocol, kindOf(t, err), text)
		require.NotContains(t, err.Error(), "how do I")
		require.Zero(t, verdict)
		require.Equal(t, host.ViolationAnswer, <-seen)
	}
	_, err = judge("\xff is no UTF-8") // it arrives nevertheless
	require.Equal(t, llm.ErrProtocol, kindOf(t, err))
}

// What predicts answers from 0 to 1, or that it does not know.
func TestAPredictionIsAProbability(t *testing.T) {
	t.Parallel()
	h, _, seen, _ := violations(t)
	p := acquire(t, h, spec("rogue"))
	predict := func(qualities ...float64) ([]llm.Prediction, error) {
		r := llm.PredictRequest{Texts: []llm.ScreenText{{Role: "user", Text: "\xff is no UTF-8"}}}
		for _, q := range qualities {
			r.Routes = append(r.Routes, llm.PredictRoute{Model: "\xff", Quality: q})
		}
		return p.Predict(t.Context(), []llm.PredictRequest{r, {}})
	}
	predictions, err := predict(0, 1, llm.Unknown, 0.25)
	require.NoError(t, err)
	require.Equal(t, []llm.Prediction{{0, 1, llm.Unknown, 0.25}, nil}, predictions)
	for _, q := range []float64{-0.5, -1.5, 1.0001, math.NaN(), math.Inf(1), math.Inf(-1)} {
		predictions, err = predict(0.5, q)
		require.Equal(t, llm.ErrProtocol, kindOf(t, err), q)
		require.Nil(t, predictions)
		require.Equal(t, host.ViolationAnswer, <-seen)
	}
}

// A process that breaks the protocol again and again is replaced: another one takes over when it is ready, and what
// the first one does well goes on.
func TestViolationsOverAndOverReplaceTheProcess(t *testing.T) {
	t.Parallel()
	h, c, seen, causes := violations(t)
	s := spec("rogue")
	s.DrainTimeout = time.Hour
	p := acquire(t, h, s)
	first := p.Info().PID
	other := open(t, t.Context(), p, ask("slow"))
	for i := range 10 {
		require.Empty(t, causes, i)
		_, err := talk(t.Context(), p, "text first")
		require.Error(t, err)
		require.Equal(t, host.ViolationOrder, <-seen)
	}
	require.Equal(t, host.CauseProtocol, <-causes)
	require.Equal(t, host.Ready, p.State(), "it serves until then")
	require.Equal(t, first, p.Info().PID)
	c.next(t, 80*time.Millisecond, 100*time.Millisecond).fire()
	require.Eventually(t, func() bool { return p.Info().PID != first }, time.Minute, time.Millisecond)
	require.Equal(t, host.Ready, p.State())
	i := p.Info()
	require.Equal(t, 1, i.Restarts)
	require.Equal(t, map[host.Cause]int{host.CauseProtocol: 1}, i.Failures)
	require.Equal(t, host.CauseProtocol, i.Crash.Cause)
	require.Regexp(t, `^it broke the plugin protocol 10 times within 1m0s, the last time so: an event came before`,
		i.Crash.Why)
	require.Equal(t, 1, i.Streams, "of the old process")
	for range 100 {
		_, err := other.Recv()
		require.NoError(t, err)
	}
	_, err := talk(t.Context(), p, "hello")
	require.NoError(t, err)

	// The new one has broken nothing so far.
	for range 9 {
		_, err := talk(t.Context(), p, "text first")
		require.Error(t, err)
		require.Equal(t, host.ViolationOrder, <-seen)
	}
	require.Empty(t, causes)

	// The pause is longer now.
	_, err = talk(t.Context(), p, "text first")
	require.Error(t, err)
	require.Equal(t, host.CauseProtocol, <-causes)
	c.next(t, 160*time.Millisecond, 200*time.Millisecond)
}

// One that dies while its successor is being started is waited for no longer than that.
func TestAProcessThatDiesBeforeItsSuccessorServes(t *testing.T) {
	t.Parallel()
	h, c, seen, causes := violations(t)
	p := acquire(t, h, spec("rogue"))
	for range 10 {
		_, err := talk(t.Context(), p, "status")
		require.Error(t, err)
		require.Equal(t, host.ViolationStatus, <-seen)
	}
	require.Equal(t, host.CauseProtocol, <-causes)
	successor := c.next(t, 80*time.Millisecond, 100*time.Millisecond)
	first := p.Info().PID
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.Equal(t, host.CauseCrash, <-causes)
	require.Eventually(t, func() bool { return p.State() == host.Restarting }, time.Minute, time.Millisecond)
	successor.fire()
	require.Eventually(t, p.Ready, time.Minute, time.Millisecond)
	require.NotEqual(t, first, p.Info().PID)
	require.Equal(t, map[host.Cause]int{host.CauseProtocol: 1, host.CauseCrash: 1}, p.Info().Failures)
}
