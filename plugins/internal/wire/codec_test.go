package wire_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	goproto "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

func marshal(t require.TestingT, v any) []byte {
	data, err := wire.Codec().Marshal(v)
	require.NoError(t, err)
	return data.Materialize()
}

// unmarshal reads a message that came in two frames.
func unmarshal(t require.TestingT, b []byte, v any) {
	cut := len(b) / 3
	require.NoError(t, wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b[:cut]), mem.SliceBuffer(b[cut:])}, v))
}

// decoded is the request with its texts as they are without JSON.
func decoded(r *llm.Request) *llm.Request {
	out := *r
	out.Messages = slices.Clone(r.Messages)
	for i := range out.Messages {
		m := &out.Messages[i]
		m.Parts = slices.Clone(m.Parts)
		for j := range m.Parts {
			p := &m.Parts[j]
			p.Text = llm.Plain(p.Text.String())
			if p.Call != nil {
				call := *p.Call
				call.Arguments = llm.Plain(call.Arguments.String())
				p.Call = &call
			}
		}
	}
	return &out
}

// TestTheCodecOfRequests: what Codec writes protobuf reads, and the other way round.
func TestTheCodecOfRequests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quoted := rapid.SampledFrom([]string{"", "plain", `a\n\"b\"`, `\u00e9é`, `\\`, strings.Repeat("long ", 60)})
		req := drawRequest(t)
		for i := range req.Messages {
			for j := range req.Messages[i].Parts {
				p := &req.Messages[i].Parts[j]
				if !rapid.Bool().Draw(t, "quoted") {
					continue
				}
				if text := llm.Quoted(quoted.Draw(t, "text")); p.Call == nil {
					p.Text = text
				} else {
					p.Call.Arguments = text
				}
			}
		}
		var message proto.GenerateRequest
		written := marshal(t, &wire.Request{Request: req})
		require.NoError(t, goproto.Unmarshal(written, &message))
		require.Equal(t, decoded(req), decoded(wire.RequestFromProto(&message)))

		var read wire.Request
		unmarshal(t, written, &read)
		require.Equal(t, decoded(req), decoded(read.Request))
		require.Equal(t, wire.RequestFromProto(&message), read.Request, "in the same form")
		written, err := goproto.Marshal(wire.RequestToProto(req))
		require.NoError(t, err)
		var plain wire.Request
		unmarshal(t, written, &plain)
		require.Equal(t, decoded(req), plain.Request)
	})
}

// TestTextsCrossQuoted: a text in JSON form is not decoded on the way.
func TestTextsCrossQuoted(t *testing.T) {
	t.Parallel()
	text, arguments := llm.Quoted(`a\n`), llm.Quoted(`{\"b\":1}`)
	req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{
		{Text: text}, {Call: &llm.ToolCall{ID: "c", Name: "f", Arguments: arguments}}, {Text: llm.Quoted("")}, llm.Text(""),
	}}}}
	var read wire.Request
	unmarshal(t, marshal(t, &wire.Request{Request: req}), &read)
	require.Equal(t, req.Messages, read.Messages)
}

func drawSaid(t *rapid.T) wire.Said {
	text := rapid.OneOf(rapid.String(), rapid.Just(strings.Repeat("long ", 60)))
	said := wire.Said{Event: llm.Event{Kind: llm.EventKind(rapid.IntRange(int(llm.EventAccepted),
		int(llm.EventFinish)+1).Draw(t, "kind"))}}
	switch said.Kind {
	case llm.EventAccepted:
		said.Model = wire.Printable(text.Draw(t, "model"))
	case llm.EventText, llm.EventReasoning:
		said.Text = text.Draw(t, "text")
	case llm.EventToolCall:
		said.Index, said.ID, said.Name = 3, text.Draw(t, "id"), text.Draw(t, "name")
	case llm.EventToolArguments:
		said.Index, said.Text = 1, text.Draw(t, "arguments")
	case llm.EventToolEnd:
		said.Index = 2
	case llm.EventUsage:
		said.Usage = drawUsage(t)
	case llm.EventReference:
		said.ID = text.Draw(t, "reference")
	case llm.EventFinish:
		said.Finish, said.Model = llm.FinishLength, wire.Printable(text.Draw(t, "model"))
	default:
		said = wire.Said{Failure: &proto.Failure{Kind: proto.Failure_BROKEN, Message: text.Draw(t, "message"), Status: 502}}
	}
	return said
}

func toProto(list []wire.Said) *proto.Events {
	var out proto.Events
	for _, s := range list {
		if s.Failure != nil {
			out.Events = append(out.Events, &proto.Event{Kind: &proto.Event_Failure{Failure: s.Failure}})
		} else {
			out.Events = append(out.Events, wire.EventToProto(s.Event))
		}
	}
	return &out
}

// requireSaid compares what was said; messages of protobuf have a state of their own.
func requireSaid(t require.TestingT, want, got []wire.Said) {
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Event, got[i].Event)
		require.True(t, goproto.Equal(want[i].Failure, got[i].Failure))
	}
}

func TestTheCodecOfEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(drawSaid), 0, 5).Draw(t, "said")
		written := marshal(t, &wire.Events{List: list})
		var message proto.Events
		require.NoError(t, goproto.Unmarshal(written, &message))
		require.True(t, goproto.Equal(toProto(list), &message))
		read := wire.Events{List: []wire.Said{{Event: llm.Event{Text: "of the last message"}}}}
		unmarshal(t, written, &read)
		requireSaid(t, list, read.List)
		theirs, err := goproto.Marshal(toProto(list))
		require.NoError(t, err)
		unmarshal(t, theirs, &read)
		requireSaid(t, list, read.List)
	})
}

// FuzzEvents: what a plugin sends, whatever it is, reads as protobuf reads it. Only the text of an event is looked at
// later: by Order, which says more of it.
func FuzzEvents(f *testing.F) {
	usage := int64(3)
	for _, list := range [][]wire.Said{
		{{Event: llm.Event{Kind: llm.EventAccepted, Model: "m"}}, {Event: llm.Event{Kind: llm.EventText, Text: "hi"}}},
		{{Event: llm.Event{Kind: llm.EventReasoning}}, {Event: llm.Event{Kind: llm.EventToolEnd, Index: 1}}},
		{{Event: llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Input: &usage}}},
			{Event: llm.Event{Kind: llm.EventReference, ID: "gen-1"}}, {Event: llm.Event{Kind: llm.EventFinish}}},
		{{Failure: &proto.Failure{Kind: proto.Failure_CAPACITY, RetryAfterMs: 5}}},
	} {
		f.Add(marshal(f, &wire.Events{List: list}))
	}
	// two texts in one event: the last one counts
	f.Add([]byte("\x0a\x04\x12\x02hi\x0a\x06\x12\x01a\x12\x01b"))
	// a text, and then reasoning
	f.Add([]byte("\x0a\x06\x12\x01a\x1a\x01b"))
	// empty, of a later version, cut short
	f.Add([]byte("\x0a\x00\x0a\x03\xa2\x06\x00\x0a\x02\x12\x05\x12\x01a"))
	// other types, and no UTF-8
	f.Add([]byte("\x0a\x04\x10\x01\x18\x01\x08\x01\x0a\x03\x12\x01\xff"))
	// long numbers, groups
	f.Add([]byte("\x0a\x05\x92\x80\x00\x01a\x0a\x04\x12\x81\x00a\x0a\x02\x13\x14"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var message proto.Events
		want := goproto.Unmarshal(b, &message)
		var read wire.Events
		got := wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes.Clone(b))}, &read)
		if (want == nil) != (got == nil) {
			require.ErrorContains(t, want, "UTF-8")
			return
		}
		if got != nil {
			return
		}
		var list []wire.Said
		for _, ev := range message.GetEvents() {
			if failure := ev.GetFailure(); failure != nil {
				list = append(list, wire.Said{Failure: failure})
			} else if ev := wire.EventFromProto(ev); ev.Kind != 0 {
				list = append(list, wire.Said{Event: ev})
			}
		}
		requireSaid(t, list, read.List)
	})
}

func TestTheCodecRefusesWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\xff", "\x0a", "\x0a\x05a", "\x1a\x02\x0a\x05", "\x1a\x04\x12\x02\x0a\x05",
		"\x1a\x06\x12\x04\x12\x02\x0a\x09", "\x0a\x01\xff"} {
		data := mem.BufferSlice{mem.SliceBuffer(text)}
		require.Error(t, wire.Codec().Unmarshal(data, &wire.Request{}), "%q", text)
	}
	require.Error(t, wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer("\x0a\x01\xff")}, &wire.Events{}))
}

// TestTheCodecWritesUTF8: protobuf refuses other strings, and so the message is.
func TestTheCodecWritesUTF8(t *testing.T) {
	t.Parallel()
	call := llm.Event{Kind: llm.EventToolCall, ID: "c", Name: "\xff"}
	text := llm.Event{Kind: llm.EventText, Text: "a"}
	_, err := wire.Codec().Marshal(&wire.Events{List: []wire.Said{{Event: text}, {Event: call}, {Event: text}}})
	require.ErrorContains(t, err, "UTF-8")
	_, err = wire.Codec().Marshal(&wire.Request{Request: &llm.Request{Model: "\xff", Messages: []llm.Message{{}}}})
	require.ErrorContains(t, err, "UTF-8")
}
