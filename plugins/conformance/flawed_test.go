package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fareway/fareway/plugins/internal/proto"
)

// TestMain makes this test binary a provider with one flaw when it is started as such.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "play" {
		play(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// flawed is a provider that is written by provider.proto alone, right in everything but its flaw.
type flawed struct {
	proto.UnimplementedProviderServer
	flaw       string
	settings   map[string]any
	configured atomic.Bool
	described  atomic.Int64
	replies    atomic.Int64
	running    atomic.Int64
	second     chan struct{} // closed when a second attempt runs
}

// play is the main of a provider.
func play(flaw string) {
	is := func(name string) bool { return flaw == name }
	if os.Getenv("FAREWAY_PROVIDER_PLUGIN") == "" {
		switch {
		case is("by hand it hangs"):
			time.Sleep(time.Hour) //nolint:forbidigo // this is the flaw
		case is("by hand it is content"):
			fmt.Println("hello")
			return
		case !is("by hand it is silent"):
			fmt.Fprintln(os.Stderr, "this is a provider plugin")
		}
		os.Exit(1)
	}
	switch {
	case is("prints first"):
		fmt.Println("starting up")
	case is("dies"):
		fmt.Fprintln(os.Stderr, "out of paper")
		os.Exit(3)
	case is("never speaks"):
		time.Sleep(time.Hour) //nolint:forbidigo // this is the flaw
	}
	signals := make(chan os.Signal, 1)
	if !is("dies of SIGTERM") {
		signal.Notify(signals, syscall.SIGTERM)
	}
	interrupts := signals
	if is("ends by SIGINT") { // also where the tests run in a shell's background, which ignores it
		interrupts = make(chan os.Signal, 1)
		go func() {
			<-interrupts
			os.Exit(1)
		}()
	}
	signal.Notify(interrupts, os.Interrupt)
	if !is("outlives its gateway") {
		host := os.Getenv("FAREWAY_HOST_PID")
		go func() {
			for range time.Tick(50 * time.Millisecond) {
				if fmt.Sprint(os.Getppid()) != host {
					os.Exit(1)
				}
			}
		}()
	}
	if err := serve(flaw); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(flaw string) error {
	is := func(name string) bool { return flaw == name }
	dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	if is("its socket is elsewhere") {
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, fmt.Sprint("s", os.Getpid()))
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	name := "localhost"
	if is("its certificate is of another") {
		name = "example.com"
	}
	der, certificate, err := selfSigned(name)
	if err != nil {
		return err
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	switch {
	case is("answers anybody"):
		config.ClientAuth = tls.NoClientCert
	case is("answers any certificate"):
		config.ClientAuth = tls.RequireAnyClientCert
	}
	options := []grpc.ServerOption{grpc.Creds(credentials.NewTLS(config))}
	if !is("takes small messages") {
		options = append(options, grpc.MaxRecvMsgSize(64<<20))
	}
	server := grpc.NewServer(options...)
	proto.RegisterProviderServer(server, &flawed{flaw: flaw, second: make(chan struct{})})
	checks := health.NewServer()
	if !is("has no health") {
		state := grpc_health_v1.HealthCheckResponse_SERVING
		if is("is not serving") {
			state = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		}
		checks.SetServingStatus("plugin", state)
	}
	grpc_health_v1.RegisterHealthServer(server, checks)
	if !is("has no Shutdown") {
		server.RegisterService(&controller, &ender{server, flaw})
	}
	version := "1"
	switch {
	case is("chooses the newest version") && strings.Contains(os.Getenv("PLUGIN_PROTOCOL_VERSIONS"), "3"):
		version = "3"
	case is("is of another version"):
		version = "99"
	}
	line := []string{"1", version, "unix", path, "grpc", base64.RawStdEncoding.EncodeToString(der)}
	switch {
	case is("speaks TCP"):
		line[2], line[3] = "tcp", "127.0.0.1:1"
	case is("speaks net/rpc"):
		line[4] = "netrpc"
	case is("has no certificate"):
		line = line[:5]
	case is("sends a PEM certificate"):
		line[5] = base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----"))
	case is("has no socket"):
		line[3] += "x"
	}
	fmt.Println(strings.Join(line, "|"))
	if is("prints after the handshake") {
		fmt.Println("1|1|unix|nonsense|grpc|\x00\xff", strings.Repeat("x", 1<<20))
	}
	return server.Serve(listener)
}

func selfSigned(name string) ([]byte, tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		DNSNames:  []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return der, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// ender serves plugin.GRPCController.
type ender struct {
	server *grpc.Server
	flaw   string
}

var controller = grpc.ServiceDesc{ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Shutdown", Handler: func(srv any, _ context.Context,
		decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		if e := srv.(*ender); e.flaw != "goes on after Shutdown" {
			go e.server.GracefulStop()
		}
		return new(emptypb.Empty), decode(new(emptypb.Empty))
	}}}}

func (f *flawed) is(names ...string) bool {
	for _, name := range names {
		if f.flaw == name {
			return true
		}
	}
	return false
}

func (f *flawed) Describe(_ context.Context, r *proto.DescribeRequest) (*proto.DescribeResponse, error) {
	if len(r.ProtoReflect().GetUnknown()) > 0 && f.is("refuses what it does not know") {
		return nil, status.Error(codes.InvalidArgument, "what is that?")
	}
	if f.is("cannot describe itself") {
		return nil, status.Error(codes.FailedPrecondition, "not configured")
	}
	about := &proto.DescribeResponse{Name: "flawed", Version: "1", Capabilities: &proto.Capabilities{},
		Schema: &proto.Schema{
			Attributes: []*proto.Attribute{
				{Name: "base_url", Type: "string", Required: true, Doc: "Where."},
				{Name: "api_key", Type: "string", Secret: true, Doc: "The key."},
				{Name: "time_limit", Type: "number", Doc: "How long. Default: 1."},
			},
			Blocks: []*proto.Block{{Name: "retry", Doc: "When to try again.", Schema: &proto.Schema{
				Attributes: []*proto.Attribute{{Name: "token", Type: "list(string)", Secret: true, Doc: "Tokens."}},
			}}},
		}}
	schema, can := about.GetSchema(), about.GetCapabilities()
	switch f.flaw {
	case "has no name":
		about.Name = ""
	case "is another each time":
		about.Version = fmt.Sprint(f.described.Add(1))
	case "has a setting of a wrong name":
		schema.Blocks[0].Schema.Attributes[0].Name = "Token-1"
	case "has a setting of an unknown type":
		schema.Attributes[2].Type = "int"
	case "has a setting twice":
		schema.Attributes[2].Name = "retry"
	case "has a setting without a doc":
		schema.Attributes[0].Doc = ""
	case "has a block without a doc":
		schema.Blocks[0].Doc = ""
	case "has a setting without its default":
		schema.Attributes[2].Doc = "How long."
	case "is told of attempts without cause":
		can.Attempted = true
	case "claims to count":
		can.CountTokens = true
	case "counts nothing", "fails to count":
		can.CountTokens = true
	case "invents receipts", "fails on receipts":
		can.Receipts = true
	case "has a model twice", "has a model without a name", "has a model of no size", "lists models":
		can.Models = true
	case "says nothing of a text", "repeats a text", "is lost for words", "only screens":
		can.Screen = true
	case "predicts too little", "predicts two routes of three", "predicts above 1", "is at a loss", "only predicts":
		can.Predict = true
	case "cannot cancel", "cancels with another failure", "cancels":
		can.CancelUsage = true
	case "has an endpoint to nowhere", "knows no endpoint", "has an endpoint":
		can.Endpoint = true
	case "has no secrets":
		schema.Attributes[1].Secret, schema.Attributes[1].Doc, schema.Blocks = false, "The key. Default: none.", nil
	}
	return about, nil
}

func (f *flawed) Configure(_ context.Context, r *proto.ConfigureRequest) (*proto.ConfigureResponse, error) {
	if json.Unmarshal(r.GetSettings(), &f.settings) != nil {
		return &proto.ConfigureResponse{Error: "the settings are no JSON object"}, nil
	}
	key := fmt.Sprint(f.settings["api_key"])
	switch f.flaw {
	case "logs its settings":
		fmt.Fprintln(os.Stderr, "settings:", f.settings)
	case "prints its settings":
		fmt.Println("settings:", base64.StdEncoding.EncodeToString([]byte(key)))
	case "repeats its settings":
		if _, ok := f.settings["no_such_setting"]; ok {
			return &proto.ConfigureResponse{Error: fmt.Sprintf("setting no_such_setting is unknown in %v", f.settings)}, nil
		}
	case "repeats a setting of a wrong type":
		if _, ok := f.settings["api_key"].([]any); ok {
			return &proto.ConfigureResponse{Error: fmt.Sprintf("setting api_key is %v", f.settings["api_key"])}, nil
		}
	}
	if _, ok := f.settings["no_such_setting"]; ok {
		switch f.flaw {
		case "takes any setting":
		case "does not name a wrong setting":
			return &proto.ConfigureResponse{Error: "a setting is wrong"}, nil
		default:
			return &proto.ConfigureResponse{Error: "setting no_such_setting is unknown"}, nil
		}
	}
	if f.is("refuses its settings") {
		return &proto.ConfigureResponse{Error: "setting base_url must be polite"}, nil
	}
	f.configured.Store(true)
	return &proto.ConfigureResponse{}, nil
}

func (f *flawed) Screen(ctx context.Context, r *proto.ScreenRequest) (*proto.ScreenResponse, error) {
	switch {
	case f.is("says nothing of a text"):
		return &proto.ScreenResponse{}, nil
	case f.is("repeats a text") && len(r.GetTexts()) > 0:
		text := r.GetTexts()[0].GetText()
		return &proto.ScreenResponse{Verdict: proto.ScreenResponse_BLOCK, Categories: []string{text}}, nil
	case f.is("is lost for words"):
		return nil, status.Error(codes.Internal, "what was that?")
	case f.is("only screens"):
		return &proto.ScreenResponse{Verdict: proto.ScreenResponse_FLAG, Categories: []string{"hate/threatening"}}, nil
	}
	return f.UnimplementedProviderServer.Screen(ctx, r)
}

func (f *flawed) Predict(ctx context.Context, r *proto.PredictRequest) (*proto.PredictResponse, error) {
	answer := new(proto.PredictResponse)
	for range r.GetRequests() {
		p := new(proto.Prediction)
		switch f.flaw {
		case "predicts two routes of three":
			p.Qualities = []float64{0.5, -1}
		case "predicts above 1":
			p.Qualities = []float64{1.01, 0.5}
		}
		answer.Predictions = append(answer.Predictions, p)
	}
	switch {
	case f.is("predicts too little"):
		answer.Predictions = nil
	case f.is("is at a loss"):
		return nil, status.Error(codes.Internal, "who knows?")
	case !f.is("only predicts") && !f.is("predicts above 1") && !f.is("predicts two routes of three"):
		return f.UnimplementedProviderServer.Predict(ctx, r)
	}
	return answer, nil
}

func (f *flawed) Health(context.Context, *proto.HealthRequest) (*proto.HealthResponse, error) {
	if f.is("is unwell") {
		return &proto.HealthResponse{Error: "feeling unwell"}, nil
	}
	if f.is("says its key is ill") {
		return &proto.HealthResponse{Error: fmt.Sprint("the key ", f.settings["api_key"], " is ill")}, nil
	}
	return &proto.HealthResponse{}, nil
}

func said(text string) *proto.Event { return &proto.Event{Kind: &proto.Event_Text{Text: text}} }

func used(u *proto.Usage) *proto.Event { return &proto.Event{Kind: &proto.Event_Usage{Usage: u}} }

func finished() *proto.Event {
	return &proto.Event{Kind: &proto.Event_Finish{Finish: &proto.Finish{Reason: "stop"}}}
}

func failed(kind proto.Failure_Kind, message string) *proto.Event {
	return &proto.Event{Kind: &proto.Event_Failure{Failure: &proto.Failure{Kind: kind, Message: message}}}
}

func accepted() *proto.Event {
	return &proto.Event{Kind: &proto.Event_Accepted{Accepted: &proto.Accepted{}}}
}

// Generate sends the events of a reply in messages of two.
func (f *flawed) Generate(r *proto.GenerateRequest, stream grpc.ServerStreamingServer[proto.Events]) error {
	events, err := f.events(r)
	for len(events) > 0 {
		n := min(2, len(events))
		if err := stream.Send(&proto.Events{Events: events[:n]}); err != nil {
			return err
		}
		if f.is("dies of who leaves") && n == 2 {
			<-stream.Context().Done()
			os.Exit(4)
		}
		events = events[n:]
	}
	return err
}

func (f *flawed) events(r *proto.GenerateRequest) ([]*proto.Event, error) {
	if !f.configured.Load() {
		switch f.flaw {
		case "answers before its settings":
		case "breaks without settings":
			return nil, status.Error(codes.FailedPrecondition, "not configured")
		case "blames the upstream for its settings":
			return []*proto.Event{failed(proto.Failure_UPSTREAM, "no upstream")}, nil
		default:
			return []*proto.Event{failed(proto.Failure_PROTOCOL, "not configured")}, nil
		}
	}
	if len(r.GetMessages()[0].ProtoReflect().GetUnknown()) > 0 && f.is("refuses what it does not know in messages") {
		return nil, status.Error(codes.InvalidArgument, "what is that?")
	}
	if len(r.GetTools()) > 0 && f.is("breaks on tools") {
		return nil, errors.New("tools?")
	}
	if f.is("answers one at a time") {
		switch f.running.Add(1) {
		case 1:
			<-f.second
		case 2:
			close(f.second)
			return []*proto.Event{failed(proto.Failure_CAPACITY, "busy")}, nil
		}
	}
	counts := &proto.Usage{Input: new(int64(10)), CacheRead: new(int64(0)), Output: new(int64(2)),
		Reasoning: new(int64(1))}
	text, usage, finish := said("Hello"), used(counts), finished()
	again := f.replies.Add(1) > 1
	switch f.flaw {
	case "speaks before accepted":
		return []*proto.Event{text, usage, finish}, nil
	case "never finishes":
		return []*proto.Event{accepted(), text, usage}, nil
	case "finishes twice":
		return []*proto.Event{accepted(), text, usage, finish, finish}, nil
	case "fails after its finish":
		return []*proto.Event{accepted(), text, usage, finish, failed(proto.Failure_UPSTREAM, "x")}, nil
	case "speaks after its failure":
		return []*proto.Event{accepted(), failed(proto.Failure_UPSTREAM, "x"), text}, nil
	case "ends with a status":
		return []*proto.Event{accepted(), text, usage, finish}, status.Error(codes.Aborted, "tired")
	case "fails":
		return []*proto.Event{accepted(), failed(proto.Failure_CAPACITY, "slow down")}, nil
	case "only screens", "only predicts":
		return []*proto.Event{failed(proto.Failure_REJECTED, "it only judges")}, nil
	case "refers twice":
		reference := &proto.Event{Kind: &proto.Event_Reference{Reference: "gen-1"}}
		return []*proto.Event{accepted(), reference, text, usage, reference, finish}, nil
	case "refers in a sentence":
		reference := &proto.Event{Kind: &proto.Event_Reference{Reference: "my own name"}}
		return []*proto.Event{accepted(), text, usage, reference, finish}, nil
	case "refers":
		reference := &proto.Event{Kind: &proto.Event_Reference{Reference: "gen-1"}}
		return []*proto.Event{accepted(), text, reference, usage, finish}, nil
	case "says nothing":
		return []*proto.Event{accepted(), usage, finish}, nil
	case "knows more events":
		return []*proto.Event{accepted(), {}, text, usage, finish}, nil
	case "reports no usage":
		return []*proto.Event{accepted(), text, finish}, nil
	case "reports half of its usage":
		counts.Input = nil
	case "takes usage back":
		less := used(&proto.Usage{Input: new(int64(9)), Output: new(int64(2))})
		return []*proto.Event{accepted(), text, usage, less, finish}, nil
	case "reasons more than it writes":
		counts.Reasoning = new(int64(3))
	case "writes without output":
		counts.Output, counts.Reasoning = new(int64(0)), nil
	case "estimates unasked":
		counts.Estimated = true
	case "counts what is cached twice", "caches":
		if again {
			counts.CacheRead = new(int64(8))
		}
		if again && f.is("caches") {
			counts.Input = new(int64(2))
		}
	case "repeats its key in a failure":
		return []*proto.Event{failed(proto.Failure_CREDENTIALS, fmt.Sprint("wrong key ", f.settings["api_key"]))}, nil
	case "cancels", "cancels with another failure":
		if !strings.Contains(r.GetAttempt(), "canceled") {
			break
		}
		return f.canceled()
	}
	return []*proto.Event{accepted(), text, usage, finish}, nil
}

func (f *flawed) canceled() ([]*proto.Event, error) {
	if f.is("cancels") {
		return []*proto.Event{accepted(), said("Hel"), used(&proto.Usage{Input: new(int64(1)), Output: new(int64(1))}),
			failed(proto.Failure_CANCELED, "asked to")}, nil
	}
	return []*proto.Event{accepted(), said("Hel"), failed(proto.Failure_BROKEN, "what happened?")}, nil
}

func (f *flawed) Cancel(context.Context, *proto.CancelRequest) (*proto.CancelResponse, error) {
	switch f.flaw {
	case "cancels", "cancels with another failure":
		return &proto.CancelResponse{}, nil
	case "cannot cancel":
		return nil, status.Error(codes.NotFound, "no such attempt")
	}
	return f.UnimplementedProviderServer.Cancel(context.Background(), nil)
}

func (f *flawed) CountTokens(context.Context, *proto.CountTokensRequest) (*proto.CountTokensResponse, error) {
	switch f.flaw {
	case "counts in secret", "counts nothing":
		return &proto.CountTokensResponse{}, nil
	case "fails to count":
		return &proto.CountTokensResponse{Failure: &proto.Failure{Message: "lost count"}}, nil
	}
	return f.UnimplementedProviderServer.CountTokens(context.Background(), nil)
}

func (f *flawed) Models(context.Context, *proto.ModelsRequest) (*proto.ModelsResponse, error) {
	one := &proto.Model{Id: "m", ContextWindow: 8192}
	switch f.flaw {
	case "has a model twice":
		return &proto.ModelsResponse{Models: []*proto.Model{one, one}}, nil
	case "has a model without a name":
		return &proto.ModelsResponse{Models: []*proto.Model{one, {}}}, nil
	case "has a model of no size":
		return &proto.ModelsResponse{Models: []*proto.Model{{Id: "m", MaxOutput: -1}}}, nil
	case "lists models":
		return &proto.ModelsResponse{Models: []*proto.Model{one}}, nil
	}
	return f.UnimplementedProviderServer.Models(context.Background(), nil)
}

func (f *flawed) Receipts(_ context.Context, r *proto.ReceiptsRequest) (*proto.ReceiptsResponse, error) {
	switch f.flaw {
	case "invents receipts":
		return &proto.ReceiptsResponse{Receipts: []*proto.Receipt{{Attempt: r.GetAttempts()[0], Usage: &proto.Usage{}}}}, nil
	case "fails on receipts":
		return &proto.ReceiptsResponse{Failure: &proto.Failure{Message: "the archive burned down"}}, nil
	}
	return f.UnimplementedProviderServer.Receipts(context.Background(), nil)
}

func (f *flawed) Endpoint(context.Context, *proto.EndpointRequest) (*proto.EndpointResponse, error) {
	switch f.flaw {
	case "has an endpoint to nowhere":
		return &proto.EndpointResponse{Endpoint: &proto.Endpoint{Dialect: "chat", Url: "http://127.0.0.1:1/v1"}}, nil
	case "has an endpoint":
		at := &proto.Endpoint{Dialect: "chat", Url: fmt.Sprint(f.settings["base_url"])}
		return &proto.EndpointResponse{Endpoint: at}, nil
	case "knows no endpoint":
		return &proto.EndpointResponse{Failure: &proto.Failure{Message: "who knows"}}, nil
	}
	return f.UnimplementedProviderServer.Endpoint(context.Background(), nil)
}
