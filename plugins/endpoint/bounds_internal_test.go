package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
	"github.com/fareway/fareway/plugins/tokens"
)

// TestRepliesAreCut: what is left of a reply is its beginning, of whole characters, with no more tokens than allowed
// and, of ASCII, no fewer than fit; a call's name is whole or missing, and nothing empty is sent.
func TestRepliesAreCut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "a", "the quick brown fox jumps over the lazy dog", "日本語のテキスト", "👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "é", "\xbf\xbf\xbf\xbf",
		strings.Repeat(" ", 5000), strings.Repeat("a", 5000), strings.Repeat("👍", 500),
	} {
		for left := range int64(12) {
			for _, kind := range []llm.EventKind{llm.EventText, llm.EventReasoning, llm.EventToolArguments} {
				var got []llm.Event
				s := &shorter{left: left, send: func(ev llm.Event) error { got = append(got, ev); return nil }}
				require.NoError(t, s.event(llm.Event{Kind: kind, Text: text}))
				require.NoError(t, s.event(llm.Event{Kind: kind, Text: "more"}))
				said := ""
				for _, ev := range got {
					require.True(t, ev.Text != "" || text == "")
					said += ev.Text
				}
				about := fmt.Sprintf("%d tokens of %.40q", left, text)
				whole := text + "more"
				require.True(t, strings.HasPrefix(whole, said), about)
				require.LessOrEqual(t, tokens.Text(said), left, about)
				if said != whole && utf8.ValidString(text) {
					require.True(t, utf8.ValidString(said), about)
				}
				if said != whole && strings.HasPrefix(text, "the quick") {
					require.Greater(t, tokens.Text(whole[:len(said)+1]), left, "%s: one more fits", about)
				}
			}
			var got []llm.Event
			s := &shorter{left: left, send: func(ev llm.Event) error { got = append(got, ev); return nil }}
			require.NoError(t, s.event(llm.Event{Kind: llm.EventToolCall, Name: text}))
			fits := tokens.Text(text) <= left
			require.Equal(t, fits, len(got) == 1, "%d tokens of the name %.40q", left, text)
			if fits {
				require.Equal(t, text, got[0].Name)
			}
		}
	}
}

// TestRepliesAreCutAsAWhole: what is left of a reply of several kinds of pieces has no more tokens than allowed, over
// all of them.
func TestRepliesAreCutAsAWhole(t *testing.T) {
	t.Parallel()
	kinds := []llm.EventKind{llm.EventReasoning, llm.EventText, llm.EventToolArguments, llm.EventText}
	for left := range int64(20) {
		counted, sent, ended := int64(0), 0, llm.FinishReason("")
		s := &shorter{left: left, send: func(ev llm.Event) error {
			counted += tokens.Text(ev.Text)
			if ended = ev.Finish; ev.Text != "" {
				sent++
			}
			return nil
		}}
		for i := range 8 {
			require.NoError(t, s.event(llm.Event{Kind: kinds[i%4], Index: i / 4, Text: "hello there"}))
		}
		require.NoError(t, s.event(llm.Event{Kind: llm.EventFinish, Finish: llm.FinishStop}))
		require.LessOrEqual(t, counted, left)
		require.GreaterOrEqual(t, counted, min(left, 8*tokens.Text("hello there"))-1, "%d: as much as fits", left)
		require.Equal(t, counted < 8*tokens.Text("hello there"), ended == llm.FinishLength)
	}
}

// TestWhyAReplyBroke: the time-out that ended it is what the operator reads, whatever the connection says.
func TestWhyAReplyBroke(t *testing.T) {
	t.Parallel()
	e := &Endpoint{Timeouts: Timeouts{FirstByte: time.Minute, Whole: 2 * time.Minute, Idle: time.Hour}}
	_, stream := e.headTimeout(streamed)
	_, reply := e.headTimeout(whole)
	for name, tt := range map[string]struct {
		cause, err error
		kind       llm.ErrorKind
		says       string
	}{
		"silence":         {errIdle, io.ErrUnexpectedEOF, llm.ErrBroken, "idle_timeout (1h0m0s)"},
		"just as it came": {stream, io.ErrUnexpectedEOF, llm.ErrUpstream, "first_byte_timeout (1m0s)"},
		"whole, late":     {reply, io.ErrUnexpectedEOF, llm.ErrUpstream, "whole_reply_timeout (2m0s)"},
		"a large event":   {nil, fmt.Errorf("reading: %w", sse.ErrTooLarge), llm.ErrProtocol, sse.ErrTooLarge.Error()},
		"a cut":           {nil, io.ErrUnexpectedEOF, llm.ErrBroken, "broke in mid-reply: unexpected EOF"},
		"another error":   {nil, errors.New("a prompt"), llm.ErrBroken, "could not be read (*errors.errorString)"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if tt.cause != nil {
			cancel(tt.cause)
		}
		failed := e.broke(context.Cause(ctx), tt.err)
		require.Equal(t, tt.kind, failed.Kind, name)
		require.ErrorContains(t, failed, tt.says, name)
		require.NotContains(t, failed.Error(), "prompt")
		cancel(nil)
	}
}

// TestKeysToSet: who has sent no key is told to set one, and who has, to check it (GAP-126).
func TestKeysToSet(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		e    Endpoint
		says string
	}{
		"no key":          {Endpoint{}, "; set api_key"},
		"a key":           {Endpoint{Headers: []Header{{Name: "Authorization", Value: "x"}}}, "; check api_key"},
		"a signature":     {Endpoint{Settings: Settings{Signs: true}}, "; check api_key"},
		"another setting": {Endpoint{Settings: Settings{Key: "token"}}, "; set token"},
	} {
		t.Run("GAP-126 "+name, func(t *testing.T) {
			t.Parallel()
			resp := &http.Response{StatusCode: http.StatusUnauthorized, Body: io.NopCloser(strings.NewReader(""))}
			failed := new(Client).refused(&tt.e, resp)
			require.Equal(t, llm.ErrCredentials, failed.Kind)
			require.True(t, strings.HasSuffix(failed.Message, tt.says), failed.Message)
		})
	}
}

// TestKeptEndpointsAreBounded: however many models clients name, no more than so many endpoints are kept.
func TestKeptEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	var s Source
	first := s.entry("0")
	for n := range maxModels {
		s.entry(fmt.Sprint(n))
	}
	require.Len(t, s.models, maxModels)
	require.Same(t, first, s.entry("0"), "as many have room")
	for n := range 3 * maxModels {
		s.entry(fmt.Sprint("another ", n))
		require.LessOrEqual(t, len(s.models), maxModels)
	}
}
