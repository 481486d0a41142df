package host

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	goproto "google.golang.org/protobuf/proto"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// foreign is a plugin that is made without the SDK. It answers nothing, and keeps what it was asked.
type foreign struct {
	proto.UnimplementedProviderServer
	asked chan *proto.GenerateRequest
}

func (f foreign) Generate(req *proto.GenerateRequest, _ grpc.ServerStreamingServer[proto.Events]) error {
	f.asked <- req
	return nil
}

// TestTextsGoAsThePluginTakesThem: in JSON form only to a plugin that says that it knows it.
func TestTextsGoAsThePluginTakesThem(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, plugin := grpc.NewServer(), foreign{asked: make(chan *proto.GenerateRequest, 1)}
	proto.RegisterProviderServer(server, plugin)
	go func() { _ = server.Serve(l) }() // until it is stopped
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })

	req := &llm.Request{Attempt: "a", MaxTokens: 5, Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{
		{Text: llm.Quoted(`a\nb`)}, {Call: &llm.ToolCall{ID: "c", Name: "f", Arguments: llm.Quoted(`{\"x\":1}`)}},
	}}}}
	for _, quoted := range []bool{false, true} {
		about := &proto.DescribeResponse{Capabilities: &proto.Capabilities{Quoted: quoted}}
		s := &Stream{proc: &process{conn: conn, about: about}}
		require.NoError(t, s.call(t.Context(), req))
		text := &proto.Part{Kind: &proto.Part_Text{Text: "a\nb"}}
		call := &proto.PastToolCall{Id: "c", Name: "f", Arguments: `{"x":1}`}
		if quoted {
			text = &proto.Part{Kind: &proto.Part_Quoted{Quoted: `a\nb`}}
			call = &proto.PastToolCall{Id: "c", Name: "f", QuotedArguments: `{\"x\":1}`}
		}
		want := &proto.GenerateRequest{Attempt: "a", MaxTokens: 5, Messages: []*proto.Message{{Role: "assistant",
			Parts: []*proto.Part{text, {Kind: &proto.Part_Call{Call: call}}}}}}
		require.True(t, goproto.Equal(want, <-plugin.asked))
	}
}
