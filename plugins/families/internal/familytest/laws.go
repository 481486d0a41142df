package familytest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

// RoundTrips checks that the two directions of a family agree: what the one writes the other reads as the same.
func RoundTrips(t *testing.T, f Family, d Draws) {
	t.Run("a request", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			want := f.Asked
			want.LLM = d.Requests.Draw(t, "request")
			body, err := f.EncodeRequest(nil, want.LLM)
			require.NoError(t, err)
			got := f.Accepted(t, string(body))
			got.Echo, got.LLM.Messages = nil, Plain(got.LLM.Messages)
			require.Equal(t, &want, got)
		})
	})
	t.Run("a format", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			want := d.Formats.Draw(t, "format")
			body, err := f.EncodeRequest(nil, &llm.Request{Model: "m", Messages: []llm.Message{Text(llm.RoleUser, "hi")},
				MaxTokens: 10, Format: want})
			require.NoError(t, err)
			req, refusal := f.Decode(t, string(body), families.Rules{StructuredOutput: true})
			require.Nil(t, refusal)
			require.Equal(t, want, req.LLM.Format)
		})
	})
	t.Run("a reply, streamed and whole", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			events := DrawReply(t, d.Arguments)
			reply := fold(events)
			end := drawEnd(t, reply.Items, d.Usage)
			end.Usage = billed(end.Usage)
			check := func(got []llm.Event, err error) {
				require.NoError(t, err)
				requireOrder(t, got)
				again := fold(got)
				require.Equal(t, f.seen(reply), f.seen(again))
				require.Equal(t, end.Finish, again.Finish)
				require.Equal(t, end.Usage, again.Usage)
			}
			check(f.ReadStream(f.Stream(events, end)))
			check(f.ReadWhole(f.Whole(events, end)))
		})
	})
}

// billed is a usage of no smaller prompt than a stream begins with (GAP-124), and with some output (GAP-108).
func billed(u *llm.Usage) *llm.Usage {
	if u == nil || u.Input == nil {
		return u
	}
	more := *u
	more.Input = llm.Count(*u.Input + Head.InputEstimate())
	more.Output = llm.Count(max(1, llm.Tokens(u.Output)))
	return &more
}

// seen is what a reader makes of a reply. On the wire no arguments are {} (GAP-84), and a text of nothing is none.
func (f Family) seen(reply *llm.Reply) []llm.Item {
	var items []llm.Item
	for _, item := range reply.Items {
		if item.Call != nil && item.Call.Arguments.Blank() {
			item.Call.Arguments = llm.Plain("{}")
		}
		if item.Call != nil || item.Text != "" {
			items = append(items, item)
		}
	}
	if f.Seen == nil {
		return items
	}
	return f.Seen(items)
}

func fold(events []llm.Event) *llm.Reply {
	reply := new(llm.Reply)
	for _, ev := range events {
		reply.Add(ev)
	}
	reply.Close()
	return reply
}

// requireOrder fails for events that a provider must not send in this order, and for those without a finish.
func requireOrder(t require.TestingT, events []llm.Event) {
	order := accepted(t)
	for _, ev := range events {
		require.NoError(t, order.Check(ev))
	}
	require.True(t, order.Finished())
}

// accepted is the order of the events after EventAccepted, which decoders do not send.
func accepted(t require.TestingT) *wire.Order {
	order := new(wire.Order)
	require.NoError(t, order.Check(llm.Event{Kind: llm.EventAccepted}))
	return order
}

// Streams checks how the decoder of a family ends: with its stream, with a stream that is cut, and with the
// caller.
func Streams(t *testing.T, f Family) {
	stream := f.Stream(append(Say("a", "b"), Begin(0, "c", "f"), Arguments(0, `{"q":1}`), End(0)),
		families.End{Finish: llm.FinishToolCalls, Usage: Used(10, 2)})
	t.Run("cut at every byte", func(t *testing.T) {
		t.Parallel()
		ending := strings.Index(stream, f.Ending)
		require.Positive(t, ending)
		ending += strings.Index(stream[ending:], "\n\n") + len("\n\n")
		for at := range len(stream) {
			events, err := f.ReadStream(stream[:at])
			if at >= ending {
				require.NoError(t, err)
				continue
			}
			require.Equal(t, llm.ErrBroken, llm.KindOf(err), "cut after %d bytes", at)
			for _, ev := range events {
				require.NotEqual(t, llm.EventFinish, ev.Kind)
			}
		}
	})
	t.Run("an error of send ends the decoding", func(t *testing.T) {
		t.Parallel()
		left := errors.New("the caller left")
		d := f.NewDecoder(func(llm.Event) error { return left })
		var err error
		for _, s := range data(t, stream) {
			if err = d.Data([]byte(s)); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, left)
		require.ErrorIs(t, d.Close(), left)
	})
	t.Run("nothing counts after the end, and nothing is sent after the finish", func(t *testing.T) {
		t.Parallel()
		var sent []llm.Event
		d := f.NewDecoder(func(ev llm.Event) error { sent = append(sent, ev); return nil })
		for _, s := range append(data(t, stream), "no JSON") {
			require.NoError(t, d.Data([]byte(s)))
		}
		require.True(t, d.Done())
		require.NoError(t, d.Close())
		before := slices.Clone(sent)
		requireOrder(t, before)
		require.NoError(t, d.Close())
		require.Equal(t, before, sent)
	})
}
