package ollama

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

// decoded reads a stream, checks what every reply must be, and returns its events.
func decoded(t *testing.T, body io.Reader) ([]llm.Event, error) {
	t.Helper()
	order := wire.Order{}
	require.NoError(t, order.Check(llm.Event{Kind: llm.EventAccepted}))
	var events []llm.Event
	resp := &http.Response{Header: http.Header{"Content-Type": {ndjson}}, Body: io.NopCloser(body)}
	err := read(resp, newDecoder(func(ev llm.Event) error {
		require.NoError(t, order.Check(ev))
		events = append(events, ev)
		return nil
	}))
	require.Equal(t, err == nil, order.Finished())
	if err != nil {
		var failed *llm.Error
		require.ErrorAs(t, err, &failed)
	}
	return events, err
}

// unnamed is events without the ids that were made here.
func unnamed(events []llm.Event) []llm.Event {
	for i := range events {
		if events[i].Kind == llm.EventToolCall {
			events[i].ID = ""
		}
	}
	return events
}

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"model":"m","message":{"role":"assistant","thinking":"hm"},"done":false}
{"model":"m","message":{"content":"a\ud83d"},"done":false}` + "\r\n" + `{"message":{"content":"\ude00"}}

{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},{"id":"c","function":{"name":"g"}}]}}
{"done":true,"done_reason":"stop","prompt_eval_count":9,"prompt_eval_cached_count":4,"eval_count":3}`))
	f.Add([]byte(`{"message":{"content":"half"}}` + "\n" + `{"error":"boom"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := decoded(t, bytes.NewReader(body))
		again, errAgain := decoded(t, iotest.OneByteReader(bytes.NewReader(body)))
		require.Equal(t, unnamed(events), unnamed(again), "however the bytes come")
		require.Equal(t, err, errAgain)
	})
}

// TestCallsOfLines is of Ollama's own API, whose calls come whole.
func TestCallsOfLines(t *testing.T) {
	t.Parallel()
	call := func(calls string) string { return `{"message":{"tool_calls":[` + calls + `]}}` + "\n" }
	one := func(arguments string) string {
		return `{"id":"a","function":{"name":"f","arguments":` + arguments + `}}`
	}
	for name, c := range map[string]struct {
		lines string
		want  []string // none: an error
	}{
		"an object":                {call(one(`{"q":1}`)), []string{`f(a) {"q":1}`}},
		"a JSON text of an object": {call(one(`"{\"q\":1}"`)), []string{`f(a) {"q":1}`}},
		"a text's text":            {call(one(`"\"{\\\"q\\\":1}\""`)), []string{`f(a) {"q":1}`}},
		"null":                     {call(one(`null`)), []string{`f(a) `}},
		"an array stays one":       {call(one(`[]`)), []string{`f(a) []`}},
		"one id for two calls":     {call(one(`{}`) + "," + one(`{"q":2}`)), []string{`f(a) {}`, `f(a_2) {"q":2}`}},
		"and in two lines":         {call(one(`{}`)) + call(one(`{"q":2}`)), []string{`f(a) {}`, `f(a_2) {"q":2}`}},
		"text between": {call(one(`{}`)) + `{"message":{"content":"x"}}` + "\n" + call(one(`{}`)),
			[]string{`f(a) {}`, `f(a_2) {}`}},
		"no name": {call(`{"id":"a","function":{"arguments":{}}}`), nil},
	} {
		t.Run("GAP-84 "+name, func(t *testing.T) {
			t.Parallel()
			events, err := decoded(t, strings.NewReader(c.lines+`{"done":true,"done_reason":"stop"}`))
			if c.want == nil {
				require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
				return
			}
			require.NoError(t, err)
			var folded llm.Reply
			for _, ev := range events {
				folded.Add(ev)
			}
			folded.Close()
			var got []string
			for _, call := range folded.Calls() {
				got = append(got, call.Name+"("+call.ID+") "+call.Arguments.String())
			}
			require.Equal(t, c.want, got)
			require.Equal(t, llm.FinishToolCalls, folded.Finish)
		})
	}
}

func TestLinesWithoutEnd(t *testing.T) {
	t.Parallel()
	endless := io.MultiReader(strings.NewReader(`{"message":{"content":"`), io.LimitReader(a{}, maxLine))
	_, err := decoded(t, endless)
	require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
	require.ErrorContains(t, err, "a line of more than")
}

// a is a reader of one letter.
type a struct{}

func (a) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// TestBrokenInTheLastLine: a reply that has said how it ends, but not that it has, is no whole one.
func TestBrokenInTheLastLine(t *testing.T) {
	t.Parallel()
	broken := llm.Errorf(llm.ErrBroken, "broken")
	for _, last := range []string{`{"done":true,"done_reason":"stop"`, `{"done":tr`, ""} {
		events, err := decoded(t, io.MultiReader(strings.NewReader(`{"message":{"content":"a"}}`+"\n"+last),
			iotest.ErrReader(broken)))
		require.True(t, errors.Is(err, broken), "%q: %v", last, err)
		require.Len(t, events, 1)
	}
}
