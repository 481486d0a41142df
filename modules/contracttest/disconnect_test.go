package contracttest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// Departure is closed when the server sees that the caller left its next request.
func (c *caller) Departure() <-chan struct{} {
	ch := make(chan struct{})
	c.left.Store("Bearer "+c.Key, ch)
	return ch
}

func requireClosed(t testing.TB, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-within(t).Done():
		require.Fail(t, "waited in vain")
	}
}

// TestClientLeaves proves GAP-47 for a provider that cannot prove usage after a cancel. That nothing of the
// request is left running is checked when the gateway ends.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `keepalive = "20ms"`, Routes: twoRoutes})
	long := func(c *caller) upstream.Reply {
		return script(used(10, 500), "stop", upstream.Text("Hel"), upstream.Text("lo"), upstream.Wait(c.Mark),
			upstream.Step{Do: upstream.StepText, Text: " and so on", Times: 200})
	}
	const cost = 10*300 + 500*1500
	// gone waits for the end of the caller's only request, and looks at what the upstream saw of it.
	gone := func(t *testing.T, c *caller, id string) map[string]any {
		t.Helper()
		line := c.Access(id)
		require.Equal(t, "client_left", line["reason"])
		seen := c.Seen()
		require.Len(t, seen, 1, "no further route is tried")
		record, err := c.Upstream.Ended(within(t), seen[0].N)
		require.NoError(t, err)
		require.Equal(t, upstream.OutcomeWhole, record.Outcome, "the upstream is read to its end")
		require.Zero(t, c.Balance().Held)
		return line
	}
	for _, sh := range shapes {
		t.Run("BILL-22 GAP-47 in the middle of a stream "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(long(c))
			left := c.Departure()
			ctx, leave := context.WithCancel(within(t))
			l := c.Send(t, ctx, sh, streamField).Live()
			l.Start(sh)
			require.Equal(t, "Hel", l.Text(sh))
			require.Equal(t, "lo", l.Text(sh))
			require.Positive(t, c.Balance().Held)
			leave()
			requireClosed(t, left)
			c.Upstream.Open(c.Mark)
			line := gone(t, c, l.Header.Get("X-Request-Id"))
			require.InDelta(t, cost, line["microcents"], 0)
			require.Equal(t, c.Credits*1_000_000-cost, c.Net())
		})
		t.Run("BILL-22 GAP-47 waiting for JSON "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(long(c))
			left := c.Departure()
			ctx, leave := context.WithCancel(within(t))
			s := c.Send(t, ctx, sh, `"stream":false`)
			require.NoError(t, c.Upstream.AtGate(ctx, c.Mark, 1))
			leave()
			require.ErrorIs(t, <-s.err, context.Canceled)
			requireClosed(t, left)
			c.Upstream.Open(c.Mark)
			line := c.Log.Await(t, func(line map[string]any) bool {
				return line["msg"] == "request" && line["account"] == c.Account.Name
			})
			gone(t, c, line["request_id"].(string))
			require.Equal(t, c.Credits*1_000_000-cost, c.Net())
		})
		t.Run("BILL-22 the route fails for nobody "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Wait(c.Mark),
				upstream.Fail(upstream.ServerError())}})
			left := c.Departure()
			ctx, leave := context.WithCancel(within(t))
			l := c.Send(t, ctx, sh, streamField).Live()
			l.Start(sh)
			leave()
			requireClosed(t, left)
			c.Upstream.Open(c.Mark)
			c.Access(l.Header.Get("X-Request-Id"))
			require.Len(t, c.Seen(), 1, "no other route is tried")
			require.Equal(t, c.Credits*1_000_000, c.Net())
		})
	}
}

// TestClientStopsSending has clients that close their half of the connection, which the gateway cannot tell from
// leaving, and go on reading: what they get must not look like a whole reply.
func TestClientStopsSending(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, sh := range shapes {
		for end, rest := range map[string]upstream.Step{
			"the reply is whole": upstream.Text("lo"), "the route fails": upstream.Fail(upstream.ServerError()),
		} {
			t.Run("GAP-47 SSE-30 "+end+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Wait(c.Mark), rest))
				left := c.Departure()
				conn, err := net.Dial("tcp", strings.TrimPrefix(c.URL, "http://"))
				require.NoError(t, err)
				defer conn.Close()
				body := sh.Body(c.Mark, streamField)
				_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: "+
					"%d\r\n\r\n%s",
					sh.Path, c.Key, len(body), body)
				require.NoError(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				defer resp.Body.Close()
				l := newLive(t, resp)
				l.Start(sh)
				require.Equal(t, "Hel", l.Text(sh))
				require.NoError(t, conn.(*net.TCPConn).CloseWrite())
				requireClosed(t, left)
				c.Upstream.Open(c.Mark)
				_, err = l.next()
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			})
		}
	}
}

// TestSlowClient proves that a client that does not read slows its upstream.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	const (
		piece  = 64 << 10
		pieces = 640 // 40 MiB, far more than all buffers on the way
	)
	permits := make(chan struct{})
	steps := []upstream.Step{upstream.Headers()}
	text := strings.Repeat("0123456789abcdef", piece/16)
	for range pieces {
		steps = append(steps, upstream.WaitFor(permits), upstream.Text(text))
	}
	steps = append(steps, upstream.Finish("stop"), upstream.ReportTokens(used(10, 20)), upstream.Done())
	sv := start(t, setup{Routes: []route{{Name: "standard", Max: 1_000_000, Window: 2_000_000}},
		Script: upstream.Options{Script: func(*upstream.Request) upstream.Reply { return upstream.Reply{Steps: steps} }}})

	sh := shapeOf("chat")
	body := sh.Body("hi", streamField, allowance(sh, 1_000_000))
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, sv.URL+sh.Path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+sv.Key)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()

	// Nobody reads. The upstream takes permits until it is stuck in a write; the last one may take its time.
	passed := 0
	for stuck := false; !stuck && passed < pieces; {
		patience := time.NewTimer(500 * time.Millisecond)
		select {
		case permits <- struct{}{}:
			passed++
		case <-patience.C:
			stuck = true
		}
		patience.Stop()
	}
	require.Less(t, passed, pieces, "the upstream wrote all of it while the client read nothing")

	go func() {
		for range pieces - passed {
			permits <- struct{}{}
		}
	}()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, pieces, bytes.Count(raw, []byte(text)), "all of it comes once it is read")
	require.True(t, bytes.HasSuffix(raw, []byte("data: [DONE]\n\n")))
}
