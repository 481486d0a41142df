package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	endpointwire "github.com/fareway/fareway/plugins/endpoint/wire"
	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// service is the plugin's side of the protocol: it serves a Provider. What each call means is written in
// provider.proto.
type service struct {
	proto.UnimplementedProviderServer

	provider Provider
	schema   settings.Schema
	onCall   func() // before the first call, which is Describe

	mu         sync.Mutex
	configured bool              // Configure was called
	ready      bool              // and succeeded
	running    map[string]func() // attempts by id: what stops each, see Cancel
}

// newService checks what can be checked before anyone calls. Its error is for the plugin's author.
func newService(p Provider) (*service, error) {
	if err := check(p); err != nil {
		return nil, err
	}
	s := &service{provider: p, onCall: func() {}, running: make(map[string]func())}
	if c, ok := p.(Configurable); ok {
		schema, err := SettingsSchema(c.Settings())
		if err != nil {
			return nil, err
		}
		s.schema = schema
	}
	return s, nil
}

// streamWorkers is how many goroutines are kept for calls. Each has grown its stack once and for all, which is a tenth
// of what a call costs here.
const streamWorkers = 64

// newServer makes a gRPC server with the limits of the protocol.
func newServer(options []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(options,
		grpc.ForceServerCodecV2(wire.Codec()),
		grpc.MaxRecvMsgSize(wire.MaxRequest),
		grpc.MaxSendMsgSize(wire.MaxResponse),
		// A window of a fixed size: to find one, gRPC would answer every request with a ping.
		grpc.NumStreamWorkers(streamWorkers), // beyond them a goroutine is made
		grpc.InitialWindowSize(wire.Window),
		grpc.InitialConnWindowSize(4*wire.Window),
	)...)
}

func (s *service) Describe(context.Context, *proto.DescribeRequest) (*proto.DescribeResponse, error) {
	s.onCall()
	return &proto.DescribeResponse{
		Name:         nameOf(s.provider),
		Version:      version(),
		Schema:       wire.SchemaToProto(s.schema),
		Capabilities: s.capabilities(),
		KnownModels:  wire.ModelsToProto(s.known()),
	}, nil
}

// capabilities are what the provider has methods for.
func (s *service) capabilities() *proto.Capabilities {
	_, canCancel := s.provider.(CancelProver)
	_, canCount := s.provider.(TokenCounter)
	_, hasReceipts := s.provider.(Receipter)
	_, hasEndpoint := s.provider.(Endpointer)
	_, lists := s.provider.(ModelLister)
	_, screens := s.provider.(Screener)
	_, predicts := s.provider.(Predictor)
	return &proto.Capabilities{
		CancelUsage: canCancel, CountTokens: canCount, Receipts: hasReceipts,
		Endpoint: hasEndpoint, Quoted: true, Models: lists, Screen: screens, Predict: predicts,
	}
}

func (s *service) Configure(ctx context.Context, req *proto.ConfigureRequest) (*proto.ConfigureResponse, error) {
	if err := s.configure(ctx, req.GetSettings()); err != nil {
		return &proto.ConfigureResponse{Error: err.Error()}, nil
	}
	out := &proto.ConfigureResponse{}
	if r, ok := s.provider.(SometimesReceipter); ok && !r.GivesReceipts() {
		out.Capabilities = s.capabilities()
		out.Capabilities.Receipts = false
	}
	return out, nil
}

func (s *service) configure(ctx context.Context, values settings.Values) error {
	s.mu.Lock()
	again := s.configured
	s.configured = true
	s.mu.Unlock()
	if again {
		return errors.New("the provider was configured before; start another process for other settings")
	}
	if err := Configure(ctx, s.provider, values); err != nil {
		return err
	}
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
	return nil
}

func (s *service) Health(ctx context.Context, _ *proto.HealthRequest) (*proto.HealthResponse, error) {
	err := s.usable()
	if checker, ok := s.provider.(HealthChecker); ok && err == nil {
		err = guard("Health", func() error { return checker.Health(ctx) })
	}
	if err != nil {
		return &proto.HealthResponse{Error: err.Error()}, nil
	}
	return &proto.HealthResponse{}, nil
}

// register makes the service one of the server's, with Generate in the form that wire.Codec has for it.
func (s *service) register(server *grpc.Server) {
	desc := proto.Provider_ServiceDesc
	desc.Streams = slices.Clone(desc.Streams)
	for i := range desc.Streams {
		if desc.Streams[i].StreamName == "Generate" {
			desc.Streams[i].Handler = func(_ any, stream grpc.ServerStream) error { return s.generate(stream) }
		}
	}
	server.RegisterService(&desc, s)
}

// generate runs the provider, whose events are written as it sends them.
func (s *service) generate(stream grpc.ServerStream) error {
	var req wire.Request
	if err := stream.RecvMsg(&req); err != nil {
		return err
	}
	ctx, endSpan := traced(stream.Context())
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &attempt{provider: s.provider, write: stream.SendMsg, stream: stream.Context(), running: running, cancel: cancel}
	stop := func() { cancel(errCanceled) }
	if _, proves := s.provider.(CancelProver); !proves {
		stop = a.carry()
	}
	err := s.begin(req.Attempt, stop)
	if err != nil {
		a.fail(err)
	} else {
		err = a.run(req.Request)
		s.end(req.Attempt)
	}
	endSpan(err)
	return a.end()
}

// begin notes an attempt, so that Cancel finds it.
func (s *service) begin(id string, stop func()) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.running[id]; twice {
		return llm.Errorf(llm.ErrProtocol, "attempt %q is already running; attempt ids must be unique", id)
	}
	s.running[id] = stop
	return nil
}

func (s *service) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
}

// usable is an error of kind ErrProtocol until Configure has succeeded.
func (s *service) usable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		return llm.Errorf(llm.ErrProtocol, "the provider is not configured; call Configure first")
	}
	return nil
}

func (s *service) Cancel(_ context.Context, req *proto.CancelRequest) (*proto.CancelResponse, error) {
	_, proves := s.provider.(CancelProver)
	if _, carries := s.provider.(carrier); !proves && !carries {
		return nil, status.Error(codes.Unimplemented, "this provider cannot prove usage after a cancel")
	}
	s.mu.Lock()
	stop := s.running[req.GetAttempt()]
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	return &proto.CancelResponse{}, nil
}

func (s *service) Endpoint(ctx context.Context, req *proto.EndpointRequest) (*proto.EndpointResponse, error) {
	e, ok := s.provider.(Endpointer)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "this provider carries its traffic itself")
	}
	var out proto.EndpointResponse
	err := s.usable()
	if err == nil {
		err = guard("Endpoint", func() error {
			answer, err := e.Endpoint(ctx, Target{Model: req.GetModel(), Refused: req.GetRefused()})
			out.Endpoint = endpointwire.ToProto(answer)
			return err
		})
	}
	out.Failure = wire.FailureToProto(err)
	return &out, nil
}

func (s *service) CountTokens(ctx context.Context, req *proto.CountTokensRequest) (*proto.CountTokensResponse, error) {
	counter, ok := s.provider.(TokenCounter)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "this provider does not count tokens")
	}
	var out proto.CountTokensResponse
	err := s.usable()
	if err == nil {
		err = guard("CountTokens", func() (err error) {
			out.Tokens, err = counter.CountTokens(ctx, wire.RequestFromProto(req.GetRequest()))
			return err
		})
	}
	out.Failure = wire.FailureToProto(err)
	return &out, nil
}

func (s *service) Receipts(ctx context.Context, req *proto.ReceiptsRequest) (*proto.ReceiptsResponse, error) {
	receipter, ok := s.provider.(Receipter)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "this provider has no receipts")
	}
	attempts := make([]Attempt, len(req.GetAttempts()))
	for i, id := range req.GetAttempts() {
		attempts[i] = Attempt{ID: id, Reference: req.GetReferences()[id]}
	}
	var receipts []Receipt
	err := s.usable()
	if err == nil {
		err = guard("Receipts", func() (err error) {
			receipts, err = receipter.Receipts(ctx, attempts)
			return err
		})
	}
	out := &proto.ReceiptsResponse{Failure: wire.FailureToProto(err)}
	for _, r := range receipts {
		out.Receipts = append(out.Receipts, &proto.Receipt{Attempt: r.Attempt, Usage: wire.UsageToProto(&r.Usage)})
	}
	return out, nil
}

func (s *service) Screen(ctx context.Context, req *proto.ScreenRequest) (*proto.ScreenResponse, error) {
	screener, ok := s.provider.(Screener)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "this provider does not screen")
	}
	var verdict llm.Verdict
	err := s.usable()
	if err == nil {
		err = guard("Screen", func() (err error) {
			verdict, err = screener.Screen(ctx, wire.TextsFromProto(req.GetTexts()))
			return err
		})
	}
	return wire.VerdictToProto(verdict, err), nil
}

func (s *service) Predict(ctx context.Context, req *proto.PredictRequest) (*proto.PredictResponse, error) {
	predictor, ok := s.provider.(Predictor)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "this provider does not predict")
	}
	requests := wire.PredictRequestsFromProto(req)
	var predictions []llm.Prediction
	err := s.usable()
	if err == nil {
		err = guard("Predict", func() (err error) {
			predictions, err = predictor.Predict(ctx, requests)
			return err
		})
	}
	return wire.PredictionsToProto(requests, predictions, err), nil
}

// known are the models that the provider knows without asking.
func (s *service) known() []llm.Model {
	if k, ok := s.provider.(ModelKnower); ok {
		return k.KnownModels()
	}
	return nil
}

func (s *service) Models(ctx context.Context, _ *proto.ModelsRequest) (*proto.ModelsResponse, error) {
	lister, ok := s.provider.(ModelLister)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "this provider does not list models")
	}
	var models []llm.Model
	err := s.usable()
	if err == nil {
		err = guard("Models", func() (err error) {
			models, err = lister.Models(ctx)
			return err
		})
	}
	return &proto.ModelsResponse{Models: wire.ModelsToProto(models), Failure: wire.FailureToProto(err)}, nil
}

// nameOf is what the plugin calls itself in logs: the package of its provider, or, for one that is written
// in package main, the name of its file.
func nameOf(p Provider) string {
	t := reflect.TypeOf(p)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name := path.Base(t.PkgPath()); name != "main" && name != "." {
		return name
	}
	return strings.TrimPrefix(filepath.Base(os.Args[0]), "fareway-provider-")
}

// version is the version of the module that the plugin's binary was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return fmt.Sprintf("protocol %d", wire.Version)
}

var _ proto.ProviderServer = (*service)(nil)
