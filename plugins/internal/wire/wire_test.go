package wire_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	goproto "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// across sends a message over the wire.
func across[M goproto.Message](t require.TestingT, m, into M) M {
	b, err := goproto.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, goproto.Unmarshal(b, into))
	return into
}

// maybe draws nil or a pointer to a value.
func maybe[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	if rapid.Bool().Draw(t, label+" present") {
		v := g.Draw(t, label)
		return &v
	}
	return nil
}

func drawMessage(t *rapid.T) llm.Message {
	text := rapid.String()
	m := llm.Message{
		Role:    rapid.SampledFrom([]llm.Role{llm.RoleSystem, llm.RoleUser, llm.RoleAssistant, llm.RoleTool}).Draw(t, "role"),
		CallID:  text.Draw(t, "call id"),
		IsError: rapid.Bool().Draw(t, "is error"),

		Changing: rapid.Uint16().Draw(t, "changing"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		if rapid.Bool().Draw(t, "call") {
			m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{
				ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Arguments: llm.Plain(text.Draw(t, "arguments")),
			}})
		} else {
			m.Parts = append(m.Parts, llm.Text(text.Draw(t, "text")))
		}
	}
	return m
}

func drawRequest(t *rapid.T) *llm.Request {
	text := rapid.String()
	schema := rapid.SliceOfN(rapid.Byte(), 1, 20)
	r := &llm.Request{
		Attempt:       text.Draw(t, "attempt"),
		Model:         text.Draw(t, "model"),
		MaxTokens:     rapid.Int64().Draw(t, "max tokens"),
		Window:        rapid.Int64().Draw(t, "window"),
		Temperature:   maybe(t, rapid.Float64(), "temperature"),
		EstimateUsage: rapid.Bool().Draw(t, "estimate"),

		BillsPastAllowance: rapid.Bool().Draw(t, "bills past allowance"),
		ToolChoice: llm.ToolChoice{
			Mode: rapid.SampledFrom([]llm.ToolMode{llm.ToolAuto, llm.ToolNone, llm.ToolRequired, llm.ToolNamed}).Draw(t, "mode"),
			Name: text.Draw(t, "choice"),
		},
	}
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		r.Messages = append(r.Messages, drawMessage(t))
	}
	for range rapid.IntRange(0, 3).Draw(t, "tools") {
		r.Tools = append(r.Tools, llm.Tool{
			Name: text.Draw(t, "name"), Description: text.Draw(t, "description"), Schema: schema.Draw(t, "schema"),
			Strict: rapid.Bool().Draw(t, "strict tool"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "stops") {
		r.Stop = append(r.Stop, text.Draw(t, "stop"))
		r.Unsupported = append(r.Unsupported, text.Draw(t, "unsupported"))
	}
	if rapid.Bool().Draw(t, "format present") {
		r.Format = &llm.Format{
			Kind: rapid.SampledFrom([]llm.FormatKind{llm.FormatJSONObject, llm.FormatJSONSchema}).Draw(t, "format"),
			Name: text.Draw(t, "name"), Description: text.Draw(t, "description"),
			Schema: schema.Draw(t, "schema"), Strict: maybe(t, rapid.Bool(), "strict"),
		}
	}
	return r
}

func TestRequestsCrossUnchanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawRequest(t)
		require.Equal(t, want, wire.RequestFromProto(across(t, wire.RequestToProto(want), &proto.GenerateRequest{})))
	})
}

func drawUsage(t *rapid.T) *llm.Usage {
	count := rapid.Int64Range(0, 1<<40)
	return &llm.Usage{
		Input: maybe(t, count, "input"), CacheRead: maybe(t, count, "cache read"), CacheWrite: maybe(t, count, "cache write"),
		Output: maybe(t, count, "output"), Reasoning: maybe(t, count, "reasoning"),
		Estimated: rapid.Bool().Draw(t, "estimated"),
		Flaw:      rapid.SampledFrom([]string{"", "output_tokens is negative"}).Draw(t, "flaw"),
		Doubt:     rapid.SampledFrom([]string{"", "a later report has a smaller prompt"}).Draw(t, "doubt"),
	}
}

func TestEventsCrossUnchanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		want := llm.Event{Kind: llm.EventKind(rapid.IntRange(int(llm.EventAccepted), int(llm.EventFinish)).Draw(t, "kind"))}
		switch want.Kind {
		case llm.EventAccepted:
			want.Model = wire.Printable(text.Draw(t, "model"))
			want.ID = rapid.StringMatching(`[!-~]{0,40}`).Draw(t, "request id")
		case llm.EventText, llm.EventReasoning:
			want.Text = text.Draw(t, "text")
		case llm.EventToolCall:
			want.Index, want.ID, want.Name = rapid.IntRange(0, 99).Draw(t, "index"), text.Draw(t, "id"), text.Draw(t, "name")
			if state := rapid.SliceOf(rapid.Byte()).Draw(t, "state"); len(state) > 0 {
				want.State = state
			}
		case llm.EventToolArguments:
			want.Index, want.Text = rapid.IntRange(0, 99).Draw(t, "index"), text.Draw(t, "text")
		case llm.EventToolEnd:
			want.Index = rapid.IntRange(0, 99).Draw(t, "index")
		case llm.EventUsage:
			want.Usage = drawUsage(t)
		case llm.EventReference:
			want.ID = text.Draw(t, "reference")
		case llm.EventFinish:
			want.Finish = llm.FinishReason(text.Draw(t, "finish"))
			want.Model = wire.Printable(text.Draw(t, "model"))
			want.ID = rapid.StringMatching(`[!-~]{0,40}`).Draw(t, "reply id")
		}
		require.Equal(t, want, wire.EventFromProto(across(t, wire.EventToProto(want), &proto.Event{})))
	})
}

func TestGAP109UsageKeepsZeroApartFromAbsent(t *testing.T) {
	t.Parallel()
	t.Run("GAP-109 explicit zero is zero, absent is absent", func(t *testing.T) {
		t.Parallel()
		want := &llm.Usage{Input: llm.Count(7), CacheRead: llm.Count(0)}
		got := wire.UsageFromProto(across(t, wire.UsageToProto(want), &proto.Usage{}))
		require.Equal(t, want, got)
		require.Nil(t, got.CacheWrite)
		require.NotNil(t, got.CacheRead)
	})
}

func TestFailuresCross(t *testing.T) {
	t.Parallel()
	for _, kind := range []llm.ErrorKind{
		llm.ErrUpstream, llm.ErrRejected, llm.ErrPolicy, llm.ErrContext, llm.ErrCapacity,
		llm.ErrCredentials, llm.ErrQuota, llm.ErrAllowance, llm.ErrProtocol, llm.ErrBroken, llm.ErrCanceled,
	} {
		want := &llm.Error{Kind: kind, Message: "why", Status: 429, RetryAfter: 1500 * time.Millisecond,
			Basis: llm.Basis(len(kind) % 3), Unreached: kind == llm.ErrUpstream, RequestID: "req_1"}
		require.Equal(t, want, wire.FailureFromProto(across(t, wire.FailureToProto(want), &proto.Failure{})))
	}
	t.Run("GAP-126 an older gateway takes a request that is too large for one that was refused", func(t *testing.T) {
		t.Parallel()
		f := wire.FailureToProto(&llm.Error{Kind: llm.ErrAllowance})
		require.Equal(t, proto.Failure_REJECTED, f.GetKind())
		require.Equal(t, llm.ErrRejected, wire.FailureFromProto(&proto.Failure{Kind: f.GetKind()}).Kind)
		require.Equal(t, llm.ErrUpstream, wire.FailureFromProto(&proto.Failure{Kind: proto.Failure_UPSTREAM,
			About: proto.Failure_ALLOWANCE}).Kind, "it says more of no other kind")
	})
	t.Run("how it is known, of tomorrow, is not known", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, llm.ByStatus, wire.FailureFromProto(&proto.Failure{Basis: 7}).Basis)
	})
	require.Nil(t, wire.FailureToProto(nil))
	require.Nil(t, wire.FailureFromProto(nil))
	for _, err := range []error{
		errors.New("plain"),                                     // not typed
		&llm.Error{Kind: llm.ErrDied, Message: "plain"},         // a provider cannot say this
		&llm.Error{Kind: "of tomorrow", Message: "plain"},       // nor this
		errors.Join(llm.Errorf(llm.ErrUpstream, "%s", "plain")), // wrapped
	} {
		require.Equal(t, &llm.Error{Kind: llm.ErrUpstream, Message: "plain"}, wire.FailureFromProto(wire.FailureToProto(err)))
	}
}

func TestALongFailureIsCut(t *testing.T) {
	t.Parallel()
	f := wire.FailureToProto(errors.New("\xff" + strings.Repeat("ü", 10<<10)))
	require.Less(t, len(f.GetMessage()), 5<<10)
	require.True(t, utf8.ValidString(f.GetMessage()))
}

// TestWhatPeopleReadIsPrintable: no word of a plugin or an upstream that people read does something to their terminal,
// nor fills their log.
func TestWhatPeopleReadIsPrintable(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"plain, ümlaut,\n\ta second line": "plain, ümlaut,\n\ta second line",
		"a\r\nb":                          "a\nb",
		"\x1b[2J\x07\r\x00\x7f":           `\x1b[2J\x07\x0d\x00\x7f`,
		"\u009b31m and \u202etxt.exe":     `\u009b31m and \u202etxt.exe`,
	} {
		require.Equal(t, want, wire.Printable(given))
		require.Equal(t, want, wire.Clip(given))
	}
	evil := "\x1b[2J" + strings.Repeat("ü", 1<<20)
	event := func(ev *proto.Event) llm.Event { return wire.EventFromProto(ev) }
	failed := wire.FailureFromProto(&proto.Failure{Message: evil, RequestId: evil, RetryAfterMs: math.MaxInt64})
	require.Equal(t, 365*24*time.Hour, failed.RetryAfter)
	require.Zero(t, wire.FailureFromProto(&proto.Failure{RetryAfterMs: -1}).RetryAfter)
	accepted := event(&proto.Event{Kind: &proto.Event_Accepted{Accepted: &proto.Accepted{Model: evil, RequestId: evil}}})
	finish := event(&proto.Event{Kind: &proto.Event_Finish{Finish: &proto.Finish{Model: evil, ReplyId: evil}}})
	models := wire.ModelsFromProto([]*proto.Model{{}, {Id: evil}, {Id: "m\x1b"}, {Id: "m", Source: evil, Date: evil,
		ContextWindow: -5, MaxOutput: -1}})
	require.Len(t, models, 1)
	model := models[0]
	require.Equal(t, "m", model.ID)
	require.Zero(t, model.ContextWindow)
	require.Zero(t, model.MaxOutput)
	schema := wire.SchemaFromProto(&proto.Schema{Attributes: []*proto.Attribute{{Doc: evil}},
		Blocks: []*proto.Block{{Doc: evil}}})
	for _, text := range []string{failed.Message, failed.RequestID, accepted.Model, accepted.ID, finish.Model, finish.ID,
		model.Source, model.Date, schema.Attributes[0].Doc, schema.Blocks[0].Doc,
		wire.UsageFromProto(&proto.Usage{Flaw: evil}).Flaw} {
		require.Less(t, len(text), 5<<10)
		require.Equal(t, `\x1b[2Jü`, text[:9])
		require.True(t, utf8.ValidString(text))
	}
}

func TestSchemasCrossUnchanged(t *testing.T) {
	t.Parallel()
	want := settings.Schema{
		Attributes: []settings.Attribute{{Name: "a", Type: settings.ListString, Required: true, Secret: true, Doc: "d"}},
		Blocks: []settings.Block{{Name: "b", Many: true, Doc: "e", Schema: settings.Schema{
			Attributes: []settings.Attribute{{Name: "c", Type: settings.String, OneOf: []string{"x", "y"}, Duration: true}},
		}}},
	}
	require.Equal(t, want, wire.SchemaFromProto(across(t, wire.SchemaToProto(want), &proto.Schema{})))
}

func TestOrder(t *testing.T) {
	t.Parallel()
	accepted := llm.Event{Kind: llm.EventAccepted}
	finish := llm.Event{Kind: llm.EventFinish}
	call := func(i int) llm.Event { return llm.Event{Kind: llm.EventToolCall, Index: i, ID: "i", Name: "n"} }
	args := func(i int) llm.Event { return llm.Event{Kind: llm.EventToolArguments, Index: i, Text: "{"} }
	end := func(i int) llm.Event { return llm.Event{Kind: llm.EventToolEnd, Index: i} }
	say := func(s string) llm.Event { return llm.Event{Kind: llm.EventText, Text: s} }
	refer := func(s string) llm.Event { return llm.Event{Kind: llm.EventReference, ID: s} }
	used := func(u *llm.Usage) llm.Event { return llm.Event{Kind: llm.EventUsage, Usage: u} }
	for _, test := range []struct {
		name   string
		events []llm.Event
		want   string // "" for a legal sequence, otherwise a part of the last event's error
	}{
		{"all kinds", []llm.Event{accepted, {Kind: llm.EventReasoning, Text: "hm"}, say("a"), call(0), args(0), call(1),
			args(1), args(0), end(0), end(1), used(&llm.Usage{}), say("b"), used(&llm.Usage{}), refer("gen-1"), finish}, ""},
		{"no text", []llm.Event{accepted, finish}, ""},
		{"text first", []llm.Event{say("a")}, "before accepted"},
		{"finish first", []llm.Event{finish}, "before accepted"},
		{"accepted twice", []llm.Event{accepted, accepted}, "twice"},
		{"after the finish", []llm.Event{accepted, finish, say("a")}, "after the reply's finish"},
		{"finished twice", []llm.Event{accepted, finish, finish}, "after the reply's finish"},
		{"a call is left out", []llm.Event{accepted, call(1)}, "call 0 was due"},
		{"a call twice", []llm.Event{accepted, call(0), call(0)}, "call 1 was due"},
		{"a call without a name", []llm.Event{accepted, {Kind: llm.EventToolCall, ID: "i"}}, "without a name"},
		{"arguments of no call", []llm.Event{accepted, args(0)}, "not open"},
		{"arguments of an ended call", []llm.Event{accepted, call(0), end(0), args(0)}, "not open"},
		{"arguments after text", []llm.Event{accepted, call(0), say("a"), args(0)}, "not open"},
		{"a negative index", []llm.Event{accepted, args(-1)}, "not open"},
		{"an end twice", []llm.Event{accepted, call(0), end(0), end(0)}, "not open"},
		{"half a character", []llm.Event{accepted, say("\xc3")}, "UTF-8"},
		{"usage without usage", []llm.Event{accepted, used(nil)}, "empty"},
		{"negative usage", []llm.Event{accepted, used(&llm.Usage{Output: llm.Count(-1)})}, "negative"},
		{"GAP-111 no such count", []llm.Event{accepted, used(&llm.Usage{CacheRead: llm.Count(llm.MaxCount + 1)})},
			"above 2^53"},
		{"GAP-111 the largest count", []llm.Event{accepted, used(&llm.Usage{CacheRead: llm.Count(llm.MaxCount)})}, ""},
		{"GAP-111 usage that is none", []llm.Event{accepted, used(&llm.Usage{Flaw: "x"}), finish}, ""},
		{"GAP-114 a word of the upstream's", []llm.Event{accepted, {Kind: llm.EventFinish, Finish: "tired"}}, ""},
		{"a reference first", []llm.Event{refer("gen-1")}, "before accepted"},
		{"a reference twice", []llm.Event{accepted, refer("gen-1"), say("a"), refer("gen-1")}, "a reference came twice"},
		{"an empty reference", []llm.Event{accepted, refer("")}, "is not 1 to 256 signs"},
		{"the longest reference", []llm.Event{accepted, refer(strings.Repeat("~", 256)), finish}, ""},
		{"a longer reference", []llm.Event{accepted, refer(strings.Repeat("~", 257))}, "is not 1 to 256 signs"},
		{"a reference with a blank", []llm.Event{accepted, refer("gen 1")}, "is not 1 to 256 signs"},
		{"a reference beyond ASCII", []llm.Event{accepted, refer("gén")}, "is not 1 to 256 signs"},
		{"a reference with what cannot be seen", []llm.Event{accepted, refer("gen\x7f")}, "is not 1 to 256 signs"},
		{"an unknown kind", []llm.Event{{Kind: 99}}, "unknown kind"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var order wire.Order
			for i, ev := range test.events {
				err := order.Check(ev)
				if i < len(test.events)-1 || test.want == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, test.want)
				require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
			}
		})
	}
}
