package endpoint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
)

// begun is how a reply begins in each dialect, with a text.
var begun = map[endpoint.Dialect]string{
	endpoint.Chat: `data: {"id":"c","choices":[{"index":0,"delta":{"content":"half"}}]}` + "\n\n",
	endpoint.Responses: `data: {"type":"response.output_text.delta","output_index":0,"delta":"half"}` +
		"\n\n",
	endpoint.Messages: `data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half"}}` + "\n\n",
	endpoint.Gemini: `data: {"candidates":[{"content":{"parts":[{"text":"half"}]}}]}` + "\n\n",
}

// ended is what some send behind an error, so that the reply looks whole.
var ended = map[endpoint.Dialect]string{
	endpoint.Chat:      "data: [DONE]\n\n",
	endpoint.Responses: `data: {"type":"response.completed","response":{"status":"completed"}}` + "\n\n",
	endpoint.Messages:  `data: {"type":"message_stop"}` + "\n\n",
	endpoint.Gemini:    `data: {"candidates":[{"finishReason":"STOP"}]}` + "\n\n",
}

// inAStream are the ways in which services say an error in a stream.
var inAStream = []string{"data: %s\n\n", "event: error\ndata: %s\n\n", "error: %s\n\n", "%s\n\n", "%s\n",
	": a comment\nid: 1\nerror: %s\n\n"}

// sameInAStream is a refusal as one line, with its status where only that decides; "" for what cannot come in a
// stream.
func sameInAStream(t *testing.T, status int, body string, wrap bool) string {
	t.Helper()
	if stream := regexp.MustCompile(`(?m)^(?:data|error): ?(.*)$`).FindStringSubmatch(body); stream != nil {
		body = stream[1]
	}
	var one bytes.Buffer
	if json.Compact(&one, []byte(body)) != nil || one.Bytes()[0] != '{' {
		return ""
	}
	var object map[string]any
	require.NoError(t, json.Unmarshal(one.Bytes(), &object))
	if inner, ok := object["error"].(map[string]any); ok && status >= 400 {
		inner["status_code"] = status
	} else if status >= 400 {
		object["status_code"] = status
	}
	if _, ok := object["error"]; !ok && wrap {
		object = map[string]any{"error": object}
	}
	if text, ok := object["error"].(string); ok {
		object["error"] = map[string]any{"message": text, "status_code": status, "code": object["code"]}
	}
	line, err := json.Marshal(object)
	require.NoError(t, err)
	return string(line)
}

// TestRefusalsEverywhere: the corpus of refusals means the same as a reply of its own, first in a stream and behind a
// text, in every dialect, and never ends as a whole reply.
func TestRefusalsEverywhere(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../internal/reply/testdata/refusals.jsonl")
	require.NoError(t, err)
	lines := 0
	for line := range bytes.Lines(raw) {
		lines++
		i := lines
		var r struct {
			Service string
			Status  int
			Kind    llm.ErrorKind
			Body    string
		}
		require.NoError(t, json.Unmarshal(line, &r))
		t.Run(fmt.Sprintf("GAP-126 line %d %s", i, r.Service), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex // between the requests, which a server's goroutines do not know of
			var status int
			var body string
			answer := func(with int, text string) {
				mu.Lock()
				defer mu.Unlock()
				status, body = with, text
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				mu.Lock()
				status, body := status, body
				mu.Unlock()
				if status == http.StatusOK {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body) // a client that has heard enough has left
			}))
			defer server.Close()
			for dialect, beginning := range begun {
				c := &caller{source: fixed(endpoint.Endpoint{URL: server.URL, Dialect: dialect})}
				defer c.client.CloseIdle()
				call := func(what string) {
					call, err := c.client.Call(withTimeout(t), &c.source, ask("x"))
					require.NoError(t, err)
					defer call.Close()
					for err == nil {
						_, err = call.Recv()
					}
					require.Equal(t, r.Kind, llm.KindOf(err), "%s %s: %s", dialect, what, body)
				}
				if r.Status/100 != 2 {
					answer(r.Status, r.Body)
					call("a refusal")
				}
				form := inAStream[i%len(inAStream)]
				said := sameInAStream(t, r.Status, r.Body, form[0] == '%') // a bare line has to say what it is
				if said == "" {
					continue
				}
				first := strings.Replace(form, "%s", said, 1) + ended[dialect]
				answer(http.StatusOK, first)
				call("first")
				answer(http.StatusOK, beginning+first)
				call("behind a text")
			}
		})
	}
	require.Greater(t, lines, 150)
}
