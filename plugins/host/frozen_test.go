package host_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/host/frozen1"
	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// frozen is the spec of the provider of November 2026.
func frozen(t *testing.T, plugin, greeting string) host.Spec {
	t.Helper()
	values, err := json.Marshal(map[string]any{"greeting": greeting, "key": "sk-frozen",
		"limit": []map[string]any{{"tokens": 1}}})
	require.NoError(t, err)
	s := spec(plugin)
	s.Settings = values
	return s
}

// frozenUsage is what each of its replies has used.
var frozenUsage = &llm.Usage{Input: llm.Count(7), CacheRead: llm.Count(1), CacheWrite: llm.Count(0),
	Output: llm.Count(2), Reasoning: llm.Count(1)}

// A provider from today's protocol keeps working.
func TestAProviderOfNovember2026KeepsWorking(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	p := acquire(t, h, frozen(t, "frozen1", "Hello"))

	i := p.Info()
	require.Equal(t, "frozen", i.About.Name)
	require.Equal(t, "1.0.0", i.About.Version)
	require.Equal(t, host.Capabilities{CancelUsage: true, CountTokens: true, Receipts: true}, i.About.Capabilities)
	require.Equal(t, settings.Schema{
		Attributes: []settings.Attribute{
			{Name: "greeting", Type: settings.String, Required: true, Doc: "What to say."},
			{Name: "key", Type: settings.String, Secret: true, Doc: "A secret."},
		},
		Blocks: []settings.Block{{Name: "limit", Many: true, Doc: "Limits.", Schema: settings.Schema{
			Attributes: []settings.Attribute{{Name: "tokens", Type: settings.Number, Doc: "How many. Default: 1."}},
		}}},
	}, i.About.Schema)

	events, err := talk(t.Context(), p, "hi")
	require.NoError(t, err)
	require.Equal(t, []llm.Event{
		{Kind: llm.EventAccepted, Model: "m"},
		{Kind: llm.EventReasoning, Text: "hm"},
		{Kind: llm.EventText, Text: "Hello"}, {Kind: llm.EventText, Text: " there"},
		{Kind: llm.EventUsage, Usage: frozenUsage},
		{Kind: llm.EventFinish, Finish: llm.FinishStop, Model: "frozen-1"},
	}, events)
	events, err = talk(t.Context(), p, "tools")
	require.NoError(t, err)
	require.Equal(t, []llm.Event{
		{Kind: llm.EventAccepted, Model: "m"},
		{Kind: llm.EventToolCall, ID: "c1", Name: "look"},
		{Kind: llm.EventToolArguments, Text: "{}"},
		{Kind: llm.EventToolEnd},
		{Kind: llm.EventUsage, Usage: frozenUsage},
		{Kind: llm.EventFinish, Finish: llm.FinishToolCalls},
	}, events)
	_, err = talk(t.Context(), p, "refused")
	require.Equal(t, &llm.Error{Kind: llm.ErrCapacity, Message: "slow down", Status: 429,
		RetryAfter: 1500 * time.Millisecond}, err)

	tokens, err := p.CountTokens(t.Context(), ask("hi"))
	require.NoError(t, err)
	require.EqualValues(t, 12, tokens)
	receipts, err := p.Receipts(t.Context(), asked("a1"))
	require.NoError(t, err)
	require.Equal(t, []host.Receipt{{Attempt: "a1", Usage: *frozenUsage}}, receipts)

	stream := open(t, t.Context(), p, ask("wait"))
	require.NoError(t, stream.Cancel(t.Context()))
	events, err = rest(stream)
	require.Equal(t, llm.ErrCanceled, kindOf(t, err))
	require.Equal(t, frozenUsage, events[len(events)-1].Usage)

	_, err = h.Acquire(t.Context(), frozen(t, "frozen1", "rude"))
	require.ErrorContains(t, err, "setting greeting must be polite")
	_, err = talk(t.Context(), p, "die")
	require.Equal(t, llm.ErrDied, kindOf(t, err))
	require.ErrorContains(t, err, "out of paper")
}

// A provider of then that says where calls go keeps working, too.
func TestAnEndpointOfNovember2026KeepsWorking(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{APIKey: "sk-frozen"})
	h := newHost(t)
	p := acquire(t, h, frozen(t, "frozen1-carried", up.BaseURL()+"/chat/completions"))
	require.True(t, p.Carries())
	req := ask("carried hello")
	events, err := carry(t.Context(), p, req)
	require.NoError(t, err)
	require.Contains(t, text(events), "carried hello")
	question := append(asked("another"), host.Attempt{ID: req.Attempt, Reference: reference(t, events)})
	receipts, err := p.Receipts(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, []host.Receipt{{Attempt: req.Attempt, Usage: *frozenUsage}}, receipts,
		"it was told of the attempt that has a reference")
}

// What was promised to providers stays: fields, methods and values are only added (COMPATIBILITY).
func TestTheProtocolOnlyGrows(t *testing.T) {
	t.Parallel()
	then, err := frozen1.Compile(t.Context(), frozen1.Protocol)
	require.NoError(t, err)
	now := proto.File_provider_proto
	require.Equal(t, then.Package(), now.Package())
	requireMessages(t, then.Messages(), now.Messages())
	for i := range then.Services().Len() {
		was := then.Services().Get(i)
		is := now.Services().ByName(was.Name())
		require.NotNil(t, is, was.FullName())
		for j := range was.Methods().Len() {
			a := was.Methods().Get(j)
			b := is.Methods().ByName(a.Name())
			require.NotNil(t, b, a.FullName())
			require.Equal(t, a.Input().FullName(), b.Input().FullName(), a.FullName())
			require.Equal(t, a.Output().FullName(), b.Output().FullName(), a.FullName())
			require.Equal(t, a.IsStreamingClient(), b.IsStreamingClient(), a.FullName())
			require.Equal(t, a.IsStreamingServer(), b.IsStreamingServer(), a.FullName())
		}
	}
}

// requireMessages looks for each message of the protocol of then, with its fields and values, in that of now.
func requireMessages(t *testing.T, then, now protoreflect.MessageDescriptors) {
	t.Helper()
	for i := range then.Len() {
		was := then.Get(i)
		is := now.ByName(was.Name())
		require.NotNil(t, is, was.FullName())
		for j := range was.Fields().Len() {
			a := was.Fields().Get(j)
			b := is.Fields().ByNumber(a.Number())
			require.NotNil(t, b, a.FullName())
			require.Equal(t, shapeOf(a), shapeOf(b), a.FullName())
		}
		for j := range was.Enums().Len() {
			values := was.Enums().Get(j).Values()
			is := is.Enums().ByName(was.Enums().Get(j).Name())
			require.NotNil(t, is, was.Enums().Get(j).FullName())
			for k := range values.Len() {
				value := is.Values().ByNumber(values.Get(k).Number())
				require.NotNil(t, value, values.Get(k).FullName())
				require.Equal(t, values.Get(k).Name(), value.Name())
			}
		}
		requireMessages(t, was.Messages(), is.Messages())
	}
}

// shape is what a field looks like on the wire, and its name, which authors use.
type shape struct {
	name        protoreflect.Name
	kind        protoreflect.Kind
	cardinality protoreflect.Cardinality
	presence    bool
	oneof, of   protoreflect.FullName
}

func shapeOf(f protoreflect.FieldDescriptor) shape {
	s := shape{name: f.Name(), kind: f.Kind(), cardinality: f.Cardinality(), presence: f.HasPresence()}
	if o := f.ContainingOneof(); o != nil {
		s.oneof = o.FullName()
	}
	if m := f.Message(); m != nil {
		s.of = m.FullName()
	}
	if e := f.Enum(); e != nil {
		s.of = e.FullName()
	}
	return s
}
