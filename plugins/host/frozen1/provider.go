// Package frozen1 is a provider of version 1 of the plugin protocol as it was in November 2026. It is frozen: neither
// it nor the provider.proto beside it is ever changed, and it uses nothing of this module. Tests of the host run it,
// for such providers are out there, in all languages, and a later gateway must run them as they are.
package frozen1

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	_ "embed" // of the protocol
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Protocol is the protocol of then.
//
//go:embed provider.proto
var Protocol string

// Compile reads a protocol.
func Compile(ctx context.Context, text string) (protoreflect.FileDescriptor, error) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"provider.proto": text}),
	}}
	files, err := compiler.Compile(ctx, "provider.proto")
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// provider does what the last message of a request says.
type provider struct {
	methods protoreflect.MethodDescriptors
	carried bool // it says where calls go
	end     func()

	mu       sync.Mutex
	settings map[string]any
	canceled map[string]chan struct{} // by attempt
	told     map[string]any           // attempts that the host made, by id
}

// Main is the main of the provider. carried is for one that says where calls go.
func Main(carried bool) error {
	if os.Getenv("FAREWAY_PROVIDER_PLUGIN") == "" {
		return fmt.Errorf("this is a provider plugin")
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, os.Interrupt)
	go func() {
		host := os.Getenv("FAREWAY_HOST_PID")
		for range time.Tick(time.Second) {
			if fmt.Sprint(os.Getppid()) != host {
				os.Exit(1)
			}
		}
	}()
	file, err := Compile(context.Background(), Protocol)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	p := &provider{methods: file.Services().ByName("Provider").Methods(), carried: carried,
		canceled: make(map[string]chan struct{}), told: make(map[string]any)}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.UnknownServiceHandler(p.call),
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			ClientCAs:    clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		})))
	p.end = server.GracefulStop
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "plugin.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	fmt.Printf("1|1|unix|%s|grpc|%s\n", path, base64.RawStdEncoding.EncodeToString(der))
	return server.Serve(listener)
}

// call serves every method.
func (p *provider) call(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	switch full {
	case "/grpc.health.v1.Health/Check":
		if err := stream.RecvMsg(new(grpc_health_v1.HealthCheckRequest)); err != nil {
			return err
		}
		return stream.SendMsg(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING})
	case "/plugin.GRPCController/Shutdown":
		go p.end()
		if err := stream.RecvMsg(new(emptypb.Empty)); err != nil {
			return err
		}
		return stream.SendMsg(new(emptypb.Empty))
	}
	name, ours := strings.CutPrefix(full, "/fareway.provider.v1.Provider/")
	method := p.methods.ByName(protoreflect.Name(name))
	if !ours || method == nil {
		return status.Error(codes.Unimplemented, full)
	}
	in := dynamicpb.NewMessage(method.Input())
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	request, err := fields(in)
	if err != nil {
		return err
	}
	send := func(text string) error {
		out := dynamicpb.NewMessage(method.Output())
		if err := protojson.Unmarshal([]byte(text), out); err != nil {
			return err
		}
		return stream.SendMsg(out)
	}
	if name == "Generate" {
		return p.generate(stream.Context(), request, send)
	}
	answer, err := p.answer(name, request)
	if err != nil {
		return err
	}
	return send(answer)
}

// fields is a message as JSON has it.
func fields(m proto.Message) (map[string]any, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var v map[string]any
	return v, json.Unmarshal(text, &v)
}

const usage = `{"input": "7", "cacheRead": "1", "cacheWrite": "0", "output": "2", "reasoning": "1"}`

// answer is the answer to a call that has one.
func (p *provider) answer(name string, request map[string]any) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch name {
	case "Describe":
		can := `{"cancelUsage": true, "countTokens": true, "receipts": true}`
		if p.carried {
			can = `{"endpoint": true, "receipts": true, "attempted": true}`
		}
		return `{"name": "frozen", "version": "1.0.0", "capabilities": ` + can + `, "schema": {
			"attributes": [
				{"name": "greeting", "type": "string", "required": true, "doc": "What to say."},
				{"name": "key", "type": "string", "secret": true, "doc": "A secret."}],
			"blocks": [{"name": "limit", "many": true, "doc": "Limits.", "schema": {
				"attributes": [{"name": "tokens", "type": "number", "doc": "How many. Default: 1."}]}}]}}`, nil
	case "Configure":
		text, err := base64.StdEncoding.DecodeString(fmt.Sprint(request["settings"]))
		if err != nil || json.Unmarshal(text, &p.settings) != nil {
			return `{"error": "the settings are no JSON object"}`, nil
		}
		if p.settings["greeting"] == "rude" {
			return `{"error": "setting greeting must be polite"}`, nil
		}
		return `{}`, nil
	case "Health":
		return `{}`, nil
	case "CountTokens":
		return `{"tokens": "12"}`, nil
	case "Cancel":
		if c := p.canceled[fmt.Sprint(request["attempt"])]; c != nil {
			close(c)
		}
		return `{}`, nil
	case "Receipts":
		var receipts []string
		for _, attempt := range request["attempts"].([]any) {
			if _, told := p.told[fmt.Sprint(attempt)]; told || !p.carried {
				receipts = append(receipts, fmt.Sprintf(`{"attempt": %q, "usage": %s}`, attempt, usage))
			}
		}
		return `{"receipts": [` + strings.Join(receipts, ",") + `]}`, nil
	case "Endpoint":
		return fmt.Sprintf(`{"endpoint": {"dialect": "chat", "url": %q, "keySetting": "key",
			"headers": [{"name": "Authorization", "value": "Bearer %s"}]}}`, p.settings["greeting"], p.settings["key"]), nil
	case "Attempted":
		for _, a := range request["attempts"].([]any) {
			attempt := a.(map[string]any)
			p.told[fmt.Sprint(attempt["attempt"])] = attempt["replyId"]
		}
		return `{}`, nil
	}
	return "", status.Error(codes.Unimplemented, name)
}

func (p *provider) generate(ctx context.Context, request map[string]any, send func(string) error) error {
	messages := request["messages"].([]any)
	last := messages[len(messages)-1].(map[string]any)["parts"].([]any)[0].(map[string]any)["text"]
	p.mu.Lock()
	greeting := p.settings["greeting"]
	canceled := make(chan struct{})
	p.canceled[fmt.Sprint(request["attempt"])] = canceled
	p.mu.Unlock()
	accepted := fmt.Sprintf(`{"accepted": {"model": %q}}`, request["model"])
	switch last {
	case "refused":
		return send(`{"events": [{"failure":
			{"kind": "CAPACITY", "message": "slow down", "status": 429, "retryAfterMs": "1500"}}]}`)
	case "wait":
		if err := send(`{"events": [` + accepted + `, {"text": "waiting"}]}`); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-canceled:
			return send(`{"events": [{"usage": ` + usage + `}, {"failure": {"kind": "CANCELED", "message": "asked to"}}]}`)
		}
	case "tools":
		return send(`{"events": [` + accepted + `, {"toolCall": {"index": 0, "id": "c1", "name": "look"}},
			{"toolArguments": {"index": 0, "text": "{}"}}, {"toolEnd": {"index": 0}}, {"usage": ` + usage + `},
			{"finish": {"reason": "tool_calls"}}]}`)
	case "die":
		fmt.Fprintln(os.Stderr, "out of paper")
		os.Exit(5)
	}
	if err := send(`{"events": [` + accepted + `, {"reasoning": "hm"}]}`); err != nil {
		return err
	}
	if err := send(fmt.Sprintf(`{"events": [{"text": %q}, {"text": " there"}]}`, greeting)); err != nil {
		return err
	}
	return send(`{"events": [{"usage": ` + usage + `}, {"finish": {"reason": "stop", "model": "frozen-1"}}]}`)
}
