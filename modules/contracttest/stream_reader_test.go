package contracttest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
)

// liveReply is a streamed reply that is read as it comes.
type liveReply struct {
	*http.Response
	t      testing.TB
	in     *bufio.Reader
	Raw    strings.Builder // what was read
	Frames []frame
}

func newLive(t testing.TB, resp *http.Response) *liveReply {
	t.Helper()
	t.Cleanup(func() { _ = resp.Body.Close() }) // it may be closed already
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	return &liveReply{Response: resp, t: t, in: bufio.NewReader(resp.Body)}
}

// next reads a block. At the end of the body it returns io.EOF, where the connection breaks another error.
func (l *liveReply) next() (frame, error) {
	var block strings.Builder
	for {
		line, err := l.in.ReadString('\n')
		l.Raw.WriteString(line)
		if err != nil {
			if errors.Is(err, io.EOF) && block.String()+line != "" {
				return frame{}, io.ErrUnexpectedEOF // a block that is not whole
			}
			return frame{}, err
		}
		if line == "\n" {
			text := strings.TrimSuffix(block.String(), "\n")
			f := wire.ReadFrame(l.t, text)
			require.Equal(l.t, f.String(), text, "GAP-67")
			l.Frames = append(l.Frames, f)
			return f, nil
		}
		block.WriteString(line)
	}
}

// Next waits for the next block.
func (l *liveReply) Next() frame {
	l.t.Helper()
	f, err := l.next()
	require.NoError(l.t, err, "stream so far: %s", l.Raw.String())
	return f
}

// Text waits for the next block that is not a keep-alive and returns the piece of text in it.
func (l *liveReply) Text(sh shape) string {
	l.t.Helper()
	for {
		f := l.Next()
		switch {
		case f.IsKeepAlive():
			continue
		case sh.Name == "chat":
			return str(f.At("choices", 0, "delta", "content"))
		case f.Event == "response.output_text.delta":
			return str(f.At("delta"))
		case f.Event == "content_block_delta":
			return str(f.At("delta", "text"))
		case f.Event == "response.output_item.added", f.Event == "response.content_part.added",
			f.Event == "content_block_start":
			continue // they announce the text
		}
		require.Failf(l.t, "no text", "%+v", f)
	}
}

// Start waits for the first events, which say that the request was admitted.
func (l *liveReply) Start(sh shape) {
	l.t.Helper()
	f := l.Next()
	for f.IsKeepAlive() {
		f = l.Next()
	}
	switch sh.Name {
	case "chat":
		require.Equal(l.t, "assistant", f.At("choices", 0, "delta", "role"))
	case "responses":
		require.Equal(l.t, "response.created", f.Event)
		require.Equal(l.t, "response.in_progress", l.Next().Event)
	case "messages":
		require.Equal(l.t, "message_start", f.Event)
	}
}

// End reads to the end of the body, which must not break.
func (l *liveReply) End() {
	l.t.Helper()
	for {
		if _, err := l.next(); err != nil {
			require.ErrorIs(l.t, err, io.EOF, "stream so far: %s", l.Raw.String())
			return
		}
	}
}

// streamField asks for a stream; chat also for the usage in it.
const streamField = `"stream":true,"stream_options":{"include_usage":true}`

// sent is a request whose reply has not begun.
type sent struct {
	t    testing.TB
	resp chan *http.Response
	err  chan error
}

// Send sends the smallest request of a shape, with more members, and does not wait.
func (c *caller) Send(t testing.TB, ctx context.Context, sh shape, fields ...string) *sent {
	t.Helper()
	body := strings.ReplaceAll(sh.Body("PROMPT", fields...), "PROMPT", c.Mark)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+sh.Path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+c.Key)
	s := &sent{t: t, resp: make(chan *http.Response, 1), err: make(chan error, 1)}
	go func() {
		resp, err := client.Do(req)
		if err != nil {
			s.err <- err
			return
		}
		s.resp <- resp
	}()
	return s
}

// Live waits for the beginning of the reply, which must be a stream.
func (s *sent) Live() *liveReply {
	s.t.Helper()
	select {
	case resp := <-s.resp:
		return newLive(s.t, resp)
	case err := <-s.err:
		require.NoError(s.t, err)
		return nil
	}
}

// Answer waits for the whole reply.
func (s *sent) Answer() answer {
	s.t.Helper()
	select {
	case resp := <-s.resp:
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		require.NoError(s.t, err)
		return answer{resp, raw}
	case err := <-s.err:
		require.NoError(s.t, err)
		return answer{}
	}
}

// Open sends a streamed request and waits for the beginning of its reply.
func (c *caller) Open(t testing.TB, sh shape, fields ...string) *liveReply {
	t.Helper()
	return c.Send(t, within(t), sh, append([]string{streamField}, fields...)...).Live()
}

// Stream asks for a stream and judges it whole.
func (c *caller) Stream(t testing.TB, sh shape, fields ...string) verdict {
	t.Helper()
	l := c.Open(t, sh, fields...)
	l.End()
	return judge(t, sh, l)
}

// judge reads a whole stream by the rules of its shape.
func judge(t testing.TB, sh shape, l *liveReply) verdict {
	t.Helper()
	return sh.Judge(t, l.Frames)
}
