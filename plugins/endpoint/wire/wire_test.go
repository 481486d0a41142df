package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	goproto "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/endpoint/wire"
	"github.com/fareway/fareway/plugins/internal/proto"
)

func TestEndpointsCrossUnchanged(t *testing.T) {
	t.Parallel()
	require.Nil(t, wire.FromProto(wire.ToProto(nil)))
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		wait := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1<<30).Draw(t, name)) * time.Millisecond
		}
		e := &endpoint.Endpoint{
			Dialect: endpoint.Dialect(text("dialect")), URL: text("url"), Proxy: text("proxy"),
			AlwaysStream: rapid.Bool().Draw(t, "always"), CacheControl: text("cache control"),
			TLS: endpoint.TLS{
				CA:          text("ca"),
				Certificate: text("certificate"),
				Key:         text("key"),
				ServerName:  text("server"),
			},
			ThinkingBudget: rapid.Ptr(rapid.Int64(), true).Draw(t, "budget"), ThinkingLevel: text("level"),
			ReturnReasoning: rapid.Bool().Draw(t, "returns"), StrictTools: rapid.Bool().Draw(t, "strict tools"),
			LostCall:   text("lost call"),
			References: rapid.Bool().Draw(t, "references"), ReferenceHeader: text("reference header"),
			Timings:  rapid.Bool().Draw(t, "timings"),
			Settings: endpoint.Settings{Address: text("address"), Key: text("key setting")},
			Timeouts: endpoint.Timeouts{Connect: wait("connect"), FirstByte: wait("first byte"), Whole: wait("whole"),
				Idle: wait("idle")},
		}
		if ms := rapid.Int64Range(0, 1<<42).Draw(t, "expires"); ms > 0 {
			e.Expires = time.UnixMilli(ms)
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			e.Headers = append(e.Headers, endpoint.Header{Name: text("name"), Value: text("value")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "refuses") {
			e.Refuses = append(e.Refuses, text("refuses"))
		}
		raw, err := goproto.Marshal(wire.ToProto(e))
		require.NoError(t, err)
		var back proto.Endpoint
		require.NoError(t, goproto.Unmarshal(raw, &back))
		require.Equal(t, e, wire.FromProto(&back))
	})
}
