//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// shape is one of the three request shapes, as bytes: what the libraries' tests cannot see, these do.
type shape struct {
	name string
	path string
	body func(prompt string) map[string]any
	end  string // what only a complete stream ends with
}

var shapes = []shape{
	{"chat", "/v1/chat/completions", func(prompt string) map[string]any {
		return map[string]any{"messages": []any{map[string]any{"role": "user", "content": prompt}},
			"stream_options": map[string]any{"include_usage": true}}
	}, "data: [DONE]\n\n"},
	{"responses", "/v1/responses", func(prompt string) map[string]any {
		return map[string]any{"input": prompt}
	}, "data: [DONE]\n\n"},
	{"messages", "/v1/messages", func(prompt string) map[string]any {
		return map[string]any{"messages": []any{map[string]any{"role": "user", "content": prompt}}, "max_tokens": 1000}
	}, "data: {\"type\":\"message_stop\"}\n\n"},
}

// request makes a request of the shape.
func (s shape) request(t testing.TB, url, key, prompt string, stream bool) *http.Request {
	t.Helper()
	req, err := s.newRequest(withTimeout(t), url, key, prompt, stream)
	require.NoError(t, err)
	return req
}

func (s shape) newRequest(ctx context.Context, url, key, prompt string, stream bool) (*http.Request, error) {
	body := s.body(prompt)
	body["model"], body["stream"] = "service/auto", stream
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+s.path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	return req, nil
}

// live is a reply that is being read.
type live struct {
	*http.Response
	r    *bufio.Reader
	read strings.Builder
}

// send starts a request; the reply's body is read as the test goes on.
func (s shape) send(t testing.TB, c *http.Client, url, key, prompt string, stream bool) *live {
	t.Helper()
	return do(t, c, s.request(t, url, key, prompt, stream))
}

func do(t testing.TB, c *http.Client, req *http.Request) *live {
	t.Helper()
	resp, err := c.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return newLive(resp)
}

func newLive(resp *http.Response) *live { return &live{Response: resp, r: bufio.NewReader(resp.Body)} }

// until reads lines up to one that holds text.
func (l *live) until(t testing.TB, text string) {
	t.Helper()
	for {
		line, err := l.r.ReadString('\n')
		l.read.WriteString(line)
		require.NoError(t, err, "after %s", l.read.String())
		if strings.Contains(line, text) {
			return
		}
	}
}

// all reads the reply to its end and returns the whole of it.
func (l *live) all(t testing.TB) string {
	t.Helper()
	b, err := io.ReadAll(l.r)
	l.read.Write(b)
	require.NoError(t, err, "after %s", l.read.String())
	return l.read.String()
}

var billedUsage = regexp.MustCompile(`"billed_microcents":(\d+),"billing_pending":(true|false)`)

// billIn finds the bill in what was read of a reply, whole or not. ok is false when there is none yet.
func billIn(reply string) (b billing, ok bool) {
	m := billedUsage.FindStringSubmatch(reply)
	if m == nil {
		return b, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return billing{Microcents: n, Pending: m[2] == "true"}, err == nil
}

// whole sees that the reply ended as a complete stream does, and returns its bill.
func (l *live) whole(t testing.TB, s shape) billing {
	t.Helper()
	reply := l.all(t)
	require.True(t, strings.HasSuffix(reply, s.end), "%s", reply)
	require.NotContains(t, reply, `"error":{`)
	bill, ok := billIn(reply)
	require.True(t, ok, "%s", reply)
	require.False(t, bill.Pending)
	return bill
}

// halfway is a reply that says "one", waits at a gate, and says "two".
func halfway(gate string) upstream.Reply {
	return upstream.Reply{Steps: []upstream.Step{upstream.Text("one "), upstream.Wait(gate), upstream.Text("two"),
		upstream.Finish("stop"), upstream.ReportUsage(), upstream.Done()}}
}

// gated lets the service stop halfway where the prompt is "wait at GATE", and answer as model does otherwise.
func gated(req *upstream.Request) upstream.Reply {
	if gate, ok := strings.CutPrefix(req.LastUser(), "wait at "); ok {
		return halfway(gate)
	}
	return model(req)
}

// openAll starts a stream of each shape and returns them when each has shown its first half.
func openAll(t testing.TB, g *gateway, up *upstream.Server, key string) map[string]*live {
	t.Helper()
	streams := map[string]*live{}
	for _, s := range shapes {
		streams[s.name] = s.send(t, http.DefaultClient, g.URL, key, "wait at go", true)
		streams[s.name].until(t, "one ")
	}
	require.NoError(t, up.AtGate(withTimeout(t), "go", len(shapes)))
	return streams
}

// later runs f and gives what it returns.
func later[T any](f func() T) <-chan T {
	done := make(chan T, 1)
	go func() { done <- f() }()
	return done
}
