package connect

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeGateway answers the self test as told.
func fakeGateway(t *testing.T, status int, bodies map[string]string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "req_1")
		w.WriteHeader(status)
		if r.Header.Get("Authorization") == "Bearer fwk_key" {
			_, _ = w.Write([]byte(bodies[r.URL.Path]))
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestAskReadsEachShape(t *testing.T) {
	t.Parallel()
	to := fakeGateway(t, 200, map[string]string{
		"/v1/chat/completions": `{"choices":[{"message":{"content":"Hello"}}],"usage":{"billed_microcents":7}}`,
		"/v1/responses": `{"output":[{"type":"message","content":[{"type":"output_text","text":"Hello"}]}],` +
			`"usage":{"billed_microcents":7}}`,
		"/v1/messages": `{"content":[{"type":"text","text":"Hello"}],"usage":{"billed_microcents":7}}`,
	})
	for _, s := range Shapes[:3] {
		require.Equal(t, s.Path, s.Name())
		got, err := Ask(t.Context(), to, "fwk_key", s, http.DefaultClient.Do)
		require.NoError(t, err, s.Path)
		require.Equal(t, Answer{ID: "req_1", Text: "Hello", Microcents: 7}, got)
	}
}

func TestAskReadsAStream(t *testing.T) {
	t.Parallel()
	const (
		hello = `data: {"choices":[{"delta":{"role":"assistant"}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"content":"Hel"}}]}` + "\r\n\r\n: keepalive\n\n" +
			`data: {"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}` + "\n\n"
		usage = `data: {"choices":[],"usage":{"billed_microcents":7}}` + "\n\n"
		done  = "data: [DONE]\n\n"
	)
	s := Shapes[len(Shapes)-1]
	require.True(t, s.Stream)
	require.Contains(t, s.Body, `"stream":true`)
	require.NotEqual(t, s.Path, s.Name())
	for name, c := range map[string]struct{ body, want string }{
		"whole":         {hello + usage + done, ""},
		"cut":           {hello + usage, "the stream has no end"},
		"broken off":    {hello + `data: {"error":{"message":"no usage"}}` + "\n\n", "broke off (req_1): no usage"},
		"not metered":   {hello + done, "does not say what it cost"},
		"no text":       {usage + done, "no text"},
		"not JSON":      {"data: {\n\n", "not JSON"},
		"no stream":     {`{"error":{"message":"no credits"}}`, "no credits"},
		"after its end": {hello + usage + done + "data: {\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := fakeGateway(t, 200, map[string]string{s.Path: c.body})
			got, err := Ask(t.Context(), url, "fwk_key", s, http.DefaultClient.Do)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, Answer{ID: "req_1", Text: "Hello", Microcents: 7}, got)
		})
	}
}

func TestAskFailures(t *testing.T) {
	t.Parallel()
	const path = "/v1/chat/completions"
	for name, tc := range map[string]struct {
		status     int
		body, want string
	}{
		"refused":      {402, `{"error":{"message":"no credits"}}`, "402 Payment Required (req_1): no credits"},
		"not JSON":     {200, `<html>`, "not JSON"},
		"no text":      {200, `{"usage":{"billed_microcents":1}}`, "no text"},
		"not metered":  {200, `{"choices":[{"message":{"content":"x"}}]}`, "does not say what it cost"},
		"not our site": {404, `{}`, "404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := fakeGateway(t, tc.status, map[string]string{path: tc.body})
			_, err := Ask(t.Context(), to, "fwk_key", Shapes[0], http.DefaultClient.Do)
			require.ErrorContains(t, err, tc.want)
		})
	}
	t.Run("left alone", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Ask(ctx, fakeGateway(t, 200, nil), "fwk_key", Shapes[0], http.DefaultClient.Do)
		require.ErrorIs(t, err, context.Canceled)
	})
}
