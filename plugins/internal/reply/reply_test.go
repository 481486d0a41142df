package reply_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

func view(t require.TestingT, text string) jsonview.View {
	v, err := jsonview.Parse([]byte(text), 10)
	require.NoError(t, err)
	return v
}

// TestSpoken: of a text that came in pieces and is said once more as a whole, only what is new is sent.
func TestSpoken(t *testing.T) {
	t.Parallel()
	s := reply.New(reply.Counting{}, func(llm.Event) error { return nil })
	for name, piece := range map[string]func(jsonview.View, *reply.Spoken) error{
		"text": s.TextOf, "reasoning": s.ReasoningOf,
	} {
		var of reply.Spoken
		require.NoError(t, piece(view(t, `"he"`), &of), name)
		require.NoError(t, piece(view(t, `"llo"`), &of), name)
		rest, ok := of.Rest("hello there")
		require.True(t, ok, name)
		require.Equal(t, " there", rest, name)
		for _, other := range []string{"hell", "help me out"} {
			_, ok := of.Rest(other)
			require.False(t, ok, "%s: %s", name, other)
		}
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]llm.FinishReason{
		"stop": llm.FinishStop, "STOP": llm.FinishStop, "eos": llm.FinishStop, "eos_token": llm.FinishStop,
		"end_turn":      llm.FinishStop,
		"stop_sequence": llm.FinishStop, "pause_turn": llm.FinishStop, "COMPLETE": llm.FinishStop,
		"length": llm.FinishLength, "model_length": llm.FinishLength, "max_tokens": llm.FinishLength,
		"MAX_TOKENS": llm.FinishLength,
		"tool_calls": llm.FinishToolCalls, "tool_use": llm.FinishToolCalls, "function_call": llm.FinishToolCalls,
		"content_filter": llm.FinishPolicy, "refusal": llm.FinishPolicy, "SAFETY": llm.FinishPolicy,
		"": llm.FinishUnknown,
		// What is no proper end stays as it is.
		"error": "error", "abort": "abort", "cancelled": "cancelled", "canceled": "canceled", "Tired": "Tired",
		"insufficient_system_resource": "insufficient_system_resource",
	} {
		t.Run("GAP-114 "+word, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, reply.Finish(word))
			require.Equal(t, want == "" || slices.Contains(llm.FinishReasons(), want), want.Known())
		})
	}
	t.Run("GAP-114 a long word is cut between characters", func(t *testing.T) {
		t.Parallel()
		got := string(reply.Finish(strings.Repeat("é", 40) + "x"))
		require.Equal(t, strings.Repeat("é", 32), got)
		got = string(reply.Finish("x" + strings.Repeat("é", 40)))
		require.Equal(t, "x"+strings.Repeat("é", 31), got)
		require.Len(t, string(reply.Finish(strings.Repeat("y", llm.MaxFinishReason))), llm.MaxFinishReason)
	})
	t.Run("GAP-114 a word that is not known stays", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct{ words, want string }{
			{"stop length", "length"}, {"error stop", "error"}, {"stop error", "error"}, {"tired error", "tired"},
		} {
			var last llm.Event
			s := reply.New(reply.Counting{Input: "in", Output: "out"}, func(ev llm.Event) error { last = ev; return nil })
			for word := range strings.FieldsSeq(tt.words) {
				s.Finished(reply.Finish(word))
			}
			require.NoError(t, s.End())
			require.Equal(t, llm.FinishReason(tt.want), last.Finish)
		}
	})
}

func TestCallsOfAStream(t *testing.T) {
	t.Parallel()
	var events []llm.Event
	s := reply.New(reply.Counting{Input: "in", Output: "out"},
		func(ev llm.Event) error { events = append(events, ev); return nil })
	require.NoError(t, s.Text(view(t, `"a\ud83d"`)))
	first, err := s.Call("c1", "f")
	require.NoError(t, err)
	second, err := s.Call("", "g")
	require.NoError(t, err)
	require.NoError(t, second.Piece(view(t, `{"q":1}`)))
	require.NoError(t, first.Piece(view(t, `"{\ud83d"`)))
	require.NoError(t, second.End())
	require.NoError(t, second.End())
	require.NoError(t, s.Reasoning(view(t, `"h"`)), "reasoning ends no call")
	require.NoError(t, s.Text(view(t, `"b"`)))
	require.NoError(t, first.End(), "text has ended it")
	require.Equal(t, llm.ErrProtocol, llm.KindOf(first.Arguments("}")))
	require.Equal(t, 2, s.Calls())
	require.Len(t, events, 10)
	require.NotEmpty(t, events[3].ID, "the client needs an id")
	events[3].ID = ""
	require.Equal(t, []llm.Event{{Kind: llm.EventText, Text: "a"}, {Kind: llm.EventText, Text: "\uFFFD"},
		{Kind: llm.EventToolCall, ID: "c1", Name: "f"}, {Kind: llm.EventToolCall, Index: 1, Name: "g"},
		{Kind: llm.EventToolArguments, Index: 1, Text: `{"q":1}`}, {Kind: llm.EventToolArguments, Text: "{"},
		{Kind: llm.EventToolEnd, Index: 1},
		{Kind: llm.EventReasoning, Text: "h"}, {Kind: llm.EventToolArguments, Text: "\uFFFD"},
		{Kind: llm.EventText, Text: "b"}}, events)
}

// TestTheEndThatSaysMoreStays: of several ends, in whatever order they come.
func TestTheEndThatSaysMoreStays(t *testing.T) {
	t.Parallel()
	ends := []llm.FinishReason{llm.FinishUnknown, llm.FinishStop, llm.FinishToolCalls, llm.FinishLength, llm.FinishPolicy,
		"a_word_that_is_not_known"}
	for i, one := range ends {
		for j, other := range ends {
			var got llm.FinishReason
			s := reply.New(reply.Counting{Input: "in", Output: "out"}, func(ev llm.Event) error {
				if ev.Kind == llm.EventFinish {
					got = ev.Finish
				}
				return nil
			})
			s.Finished(one)
			s.Finished(other)
			require.NoError(t, s.End())
			require.Equal(t, ends[max(i, j)], got, "%q, and then %q", one, other)
		}
	}
}

func TestEndsOfAStream(t *testing.T) {
	t.Parallel()
	left := errors.New("the caller left")
	for _, tt := range []struct {
		name string
		end  func(*reply.Stream) error
		want []llm.EventKind
	}{
		{"whole", (*reply.Stream).End, []llm.EventKind{llm.EventUsage, llm.EventFinish}},
		{"broken", (*reply.Stream).Broken, []llm.EventKind{llm.EventUsage}},
		{"failed", func(s *reply.Stream) error { return s.Fail(left) }, []llm.EventKind{llm.EventUsage}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var kinds []llm.EventKind
			s := reply.New(reply.Counting{Input: "in", Output: "out"},
				func(ev llm.Event) error { kinds = append(kinds, ev.Kind); return nil })
			s.Used(view(t, `{"in":1,"input_tokens":1,"output_tokens":1}`))
			err := tt.end(s)
			require.Equal(t, err, s.Err())
			require.Equal(t, tt.want, kinds)
			require.Equal(t, err, s.End(), "an ended reply ends once")
			require.Equal(t, tt.want, kinds)
		})
	}
	t.Run("nil is no failure", func(t *testing.T) {
		t.Parallel()
		s := reply.New(reply.Counting{Input: "in", Output: "out"}, func(llm.Event) error { return left })
		require.NoError(t, s.Fail(nil))
		require.NoError(t, s.Err())
		require.ErrorIs(t, s.Fail(s.Text(view(t, `"a"`))), left)
		require.Error(t, s.Fail(errors.New("another")))
		require.ErrorIs(t, s.Err(), left, "the first one says why")
	})
}
