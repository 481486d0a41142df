package upstream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const streamed = `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`

// post sends a chat body as it is.
func post(ctx context.Context, t *testing.T, s *upstream.Server, body string) *http.Response {
	t.Helper()
	return postTo(ctx, t, s, "/chat/completions", body)
}

// postTo sends a body as it is to a path of any family.
func postTo(ctx context.Context, t *testing.T, s *upstream.Server, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.BaseURL()+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// read reads a reply's body to its end, as far as it goes.
func read(resp *http.Response) (string, error) {
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/chat/completions": streamed,
		"/responses":        `{"model":"m","stream":true,"input":"x"}`,
		"/messages":         `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
	} {
		for name, body := range map[string]string{
			"streamed":     body,
			"not streamed": strings.Replace(body, "true", "false", 1),
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				t.Parallel()
				cutAtEveryByte(t, path, body)
			})
		}
	}
}

func cutAtEveryByte(t *testing.T, path, body string) {
	t.Helper()
	cut := func(at int64, how upstream.End) upstream.Reply {
		r := upstream.Say("a b")
		r.Wire = upstream.Wire{Break: &upstream.Break{At: at, How: how}}
		return r
	}
	s := upstream.Start(t, upstream.Options{})
	post := func() *http.Response { return postTo(withTimeout(t), t, s, path, body) }
	s.Enqueue(upstream.Say("a b"))
	whole, err := read(post())
	require.NoError(t, err)
	n := int64(0)
	for at := 0; at <= len(whole); at += step(path) {
		for _, how := range []upstream.End{upstream.EndAbort, upstream.EndClean} {
			n++
			s.Enqueue(cut(int64(at), how))
			got, err := read(post())
			if how == upstream.EndAbort {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut after %d bytes", at)
			} else {
				require.NoError(t, err)
			}
			require.Len(t, got, at)
			rec, err := s.Ended(withTimeout(t), n+1)
			require.NoError(t, err)
			require.Equal(t, upstream.OutcomeCut, rec.Outcome)
			require.EqualValues(t, at, rec.Bytes)
		}
	}
}

// step is how many bytes lie between two cuts: the breaking is the same code for all families, so the long replies
// of responses need not be cut at every byte.
func step(path string) int {
	if path == "/responses" {
		return 17
	}
	return 1
}

func TestResetByStepAndByBreak(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	broken := upstream.Say("a b")
	broken.Wire.Break = &upstream.Break{At: 20, How: upstream.EndReset}
	s.Enqueue(broken, upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Wait("header seen"),
		upstream.Reset()}})

	_, err := http.Post(s.BaseURL()+"/chat/completions", "application/json", strings.NewReader(streamed))
	if err == nil { // a reset may overtake the header
		rec, err := s.Ended(withTimeout(t), 1)
		require.NoError(t, err)
		require.EqualValues(t, 20, rec.Bytes)
	}
	resp := post(withTimeout(t), t, s, streamed)
	s.Open("header seen")
	_, err = read(resp)
	require.ErrorContains(t, err, "connection reset")
}

func TestBytesOnTheWire(t *testing.T) {
	t.Parallel()
	reply := func(w upstream.Wire) upstream.Reply {
		return upstream.Reply{Wire: w, Steps: []upstream.Step{upstream.Comment("PROCESSING"), upstream.Text("häh"),
			upstream.Raw("data: raw\n\n"), upstream.Finish("stop"), upstream.Done()}}
	}
	read := func(t *testing.T, w upstream.Wire) string {
		s := upstream.Start(t, upstream.Options{Script: func(*upstream.Request) upstream.Reply { return reply(w) }})
		body, err := read(post(withTimeout(t), t, s, streamed))
		require.NoError(t, err)
		created := strings.Index(body, `"created":`)
		require.Positive(t, created)
		stamp := body[created : created+20]
		return strings.ReplaceAll(body, stamp, `"created":1111111111`)
	}
	lf := read(t, upstream.Wire{})
	require.True(t, strings.HasPrefix(lf, ": PROCESSING\n\n"))
	require.True(t, strings.HasSuffix(lf, "data: [DONE]\n\n"))
	for name, c := range map[string]struct {
		wire upstream.Wire
		line string
	}{
		"crlf":                  {upstream.Wire{LineEnd: "crlf"}, "\r\n"},
		"cr":                    {upstream.Wire{LineEnd: "cr"}, "\r"},
		"a byte a write":        {upstream.Wire{Piece: 1}, "\n"},
		"events in one write":   {upstream.Wire{Piece: 4000}, "\n"},
		"writes across events":  {upstream.Wire{Piece: 37}, "\n"},
		"crlf, a byte a write ": {upstream.Wire{LineEnd: "crlf", Piece: 1}, "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := "data: raw\n\n" // raw bytes stay as they are
			before, after, _ := strings.Cut(lf, raw)
			want := strings.ReplaceAll(before, "\n", c.line) + raw + strings.ReplaceAll(after, "\n", c.line)
			require.Equal(t, want, read(t, c.wire))
		})
	}
}

func TestSlowHeadersAndSlowFirstToken(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	released := make(chan struct{})
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.WaitFor(released), upstream.Headers(), upstream.Wait("token"),
		upstream.Text("now"), upstream.Silence()}})
	came := make(chan *http.Response, 1)
	go func() { came <- post(t.Context(), t, s, streamed) }()
	require.NoError(t, s.Arrived(withTimeout(t), 1))
	require.Empty(t, came, "no header before the channel is closed")
	close(released)
	resp := <-came
	require.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	require.NoError(t, s.AtGate(withTimeout(t), "token", 1))
	s.Open("token")
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, `"role":"assistant"`)

	require.NoError(t, resp.Body.Close())
	rec, err := s.Ended(withTimeout(t), 1)
	require.NoError(t, err)
	require.Equal(t, upstream.OutcomeLeft, rec.Outcome, "the client left during the silence")
	require.EqualValues(t, 1, rec.Used.Completion)
	require.Nil(t, rec.Reported)
}

func TestStreamWithoutEndMarker(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("a")}})
	body, err := read(post(withTimeout(t), t, s, streamed))
	require.NoError(t, err, "it closes cleanly")
	require.NotContains(t, body, "DONE")
	rec, err := s.Ended(withTimeout(t), 1)
	require.NoError(t, err)
	require.Equal(t, upstream.OutcomeCut, rec.Outcome)
}

func TestErrorAsA200(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	e := upstream.Overloaded()
	e.Status = http.StatusOK
	s.Enqueue(upstream.Refuse(e), upstream.Reply{Header: map[string]string{"X-More": "yes"},
		Steps: []upstream.Step{upstream.Headers(), upstream.Fail(upstream.Overloaded())}})

	resp := post(withTimeout(t), t, s, streamed)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	body, err := read(resp)
	require.NoError(t, err)
	require.JSONEq(t,
		`{"error":{"message":"The server is overloaded.","type":"server_error","param":null,"code":"overloaded"}}`, body)

	resp = post(withTimeout(t), t, s, streamed)
	require.Equal(t, "yes", resp.Header.Get("X-More"))
	framed, err := read(resp)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("data: %s\n\n", body), framed)
}

func TestCloseLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	s, err := upstream.Listen("127.0.0.1:0", upstream.Options{})
	require.NoError(t, err)
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}})
	resp := post(t.Context(), t, s, streamed)
	s.Close()
	_, err = read(resp)
	require.Error(t, err)
	require.Len(t, s.Records(), 1, "the reply had ended when Close returned")
}
