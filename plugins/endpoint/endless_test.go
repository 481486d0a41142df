package endpoint_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
)

// TestWhatComesWithoutEnd: an upstream that says something and then sends without end what says nothing. What it said
// is handed on at once, and what may come behind it is bounded.
func TestWhatComesWithoutEnd(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	const said = `data: {"choices":[{"index":0,"delta":{"content":"first"}}]}` + "\n\n"
	for name, tt := range map[string]struct {
		endless string
		bounded bool // it ends by itself, and not only where the caller leaves
	}{
		"a line":             {"x", true},
		"a comment":          {":", true},
		"comments":           {": keep-alive\n\n", true},
		"names":              {"event: ping\n\n", true},
		"data":               {"data: {\n", true},
		"empty data":         {"data:\n\n", true},
		"chunks of nothing":  {"data: {}\n\n", true},
		"deltas without any": {`data: {"choices":[{"index":0,"delta":{"content":""}}]}` + "\n\n", true},
		"no choices":         {`data: {"id":"c","choices":[]}` + "\n\n", true},
		"the same usage": {`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n",
			true},
		"one call once more": {`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":` +
			`{"name":"f","arguments":""}}]}}]}` + "\n\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			sent := make(chan int64, 1)
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 64<<10))
				_, _ = io.WriteString(conn, head+said)
				block, n := []byte(strings.Repeat(tt.endless, 64<<10/len(tt.endless))), int64(0)
				for err == nil {
					var written int
					written, err = conn.Write(block)
					n += int64(written)
				}
				sent <- n
			}()
			c := start(t, endpoint.Endpoint{URL: "http://" + l.Addr().String()})
			call, err := c.client.Call(withTimeout(t), &c.source, ask("x"))
			require.NoError(t, err)
			defer call.Close()
			events, err := call.Recv()
			require.NoError(t, err)
			require.Equal(t, llm.EventAccepted, events[0].Kind)
			events, err = call.Recv()
			require.NoError(t, err)
			require.Equal(t, []llm.Event{{Kind: llm.EventText, Text: "first"}}, events)
			if !tt.bounded {
				call.Close()
				<-sent
				return
			}
			for err == nil {
				events, err = call.Recv()
				require.Empty(t, events)
			}
			require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
			const most, onTheWay = 56 << 20, 16 << 20 // of data a line of seven bytes is one, and sockets hold some
			require.Less(t, <-sent, int64(most+onTheWay))
		})
	}
}
