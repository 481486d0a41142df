package endpoint

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// calling makes a call of a service whose reply in one piece has the size that is said of a request's.
func calling(t *testing.T, size func(asked int) int, req *llm.Request) *Call {
	t.Helper()
	const said = `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, said+strings.Repeat(" ", max(0, size(len(asked))-len(said))))
	}))
	t.Cleanup(s.Close)
	client := new(Client)
	t.Cleanup(client.CloseIdle)
	source := &Source{Ask: func(context.Context, string, bool) (*Endpoint, error) {
		return &Endpoint{Dialect: Chat, URL: s.URL}, nil
	}}
	call, err := client.Call(t.Context(), source, req)
	require.NoError(t, err)
	t.Cleanup(call.Close)
	return call
}

// TestLargestReply: a reply in one piece may be as large as its allowance and its request let it, to the byte.
func TestLargestReply(t *testing.T) {
	t.Parallel()
	const tokens = 3
	for beyond, want := range map[int]llm.ErrorKind{0: "", 1: llm.ErrUpstream} {
		call := calling(t, func(asked int) int { return floorOfReply + 2*asked + tokens*bytesPerToken + beyond },
			&llm.Request{Model: "m", MaxTokens: tokens, Whole: true,
				Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("x")}}}})
		text := ""
		err := call.Each(func(ev llm.Event) error { text += ev.Text; return nil })
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, "a", text)
			continue
		}
		require.Equal(t, want, llm.KindOf(err))
		require.ErrorContains(t, err, "it is cut")
	}
}

// TestEndedCallsLetGoOfTheirCaller: a call that has ended is nothing that its caller's leaving ends, closed or not.
func TestEndedCallsLetGoOfTheirCaller(t *testing.T) {
	t.Parallel()
	call := calling(t, func(int) int { return 0 }, &llm.Request{Model: "m", MaxTokens: 3, Whole: true,
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("x")}}}})
	require.NoError(t, call.Each(func(llm.Event) error { return nil }))
	require.False(t, call.unhook(), "it has been")
}
