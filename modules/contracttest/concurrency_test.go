package contracttest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const concurrentReason = "tenant_concurrent_requests"

// requireBusy checks the 429 of an account that has enough requests in progress.
func requireBusy(t testing.TB, sh shape, a answer) {
	t.Helper()
	require.Equal(t, time.Second, requireLimited(t, sh, a, concurrentReason))
}

// TestConcurrentRequests proves concurrent_requests: how many charged requests an account has in progress.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("LIM-11 LIM-05 LIM-06 GAP-89 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				g := pace(t, limitedTo(0, 0, 0, "concurrent_requests = 2"), setup{})
				busy, other := g.rich(t), g.rich(t)
				busy.Blocked(hello)
				first := busy.Start(t, sh, mode.Field)
				second := make(chan answer, 1)
				go func() { second <- busy.withKey(t).Ask(sh, mode.Field) }()
				require.NoError(t, g.Upstream.AtGate(within(t), busy.Mark, 2))
				before := busy.Net()
				requireBusy(t, sh, busy.Ask(sh, mode.Field))
				require.Equal(t, before, busy.Net())
				require.Len(t, busy.Seen(), 2)

				outcomeOf(t, sh, other.Ask(sh, mode.Field))
				for _, p := range places {
					if p.Method == "GET" || p.Shape.Path != p.Path && strings.Contains(p.Path, "count_tokens") {
						require.Equal(t, 200, p.Send(busy).StatusCode, "%s is not charged", p.Path)
					}
				}
				g.Upstream.Open(busy.Mark)
				outcomeOf(t, sh, <-first)
				outcomeOf(t, sh, <-second)
				outcomeOf(t, sh, busy.Ask(sh, mode.Field))
			})
			t.Run("LIM-11 one after the other "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := pace(t, limitedTo(0, 0, 0, "concurrent_requests = 1"), setup{}).rich(t)
				long := hello
				long.Steps = append([]upstream.Step{{Do: upstream.StepText, Text: "a long reply ", Times: 500}}, hello.Steps...)
				c.Answers(long)
				for range 10 {
					endOf(t, c, sh, mode.Field)
				}
			})
		}
	}
}

// endOf asks for a reply and reads no further than to its last byte, as clients do that go by the end marker or by
// Content-Length. Then the next request may come.
func endOf(t *testing.T, c *caller, sh shape, field string) {
	t.Helper()
	resp := c.service.Send(within(t), "POST", sh.Path, sh.Body(c.Mark, field))
	defer resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
	if resp.ContentLength >= 0 {
		_, err := io.CopyN(io.Discard, resp.Body, resp.ContentLength)
		require.NoError(t, err)
		return
	}
	end := map[string]string{"chat": "[DONE]", "responses": "[DONE]", "messages": `{"type":"message_stop"}`}[sh.Name]
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if lines.Text() == "data: "+end {
			return
		}
	}
	require.Fail(t, "the reply has no end", "%v", lines.Err())
}

// TestConcurrentRequestsAndRates proves the order of both, and that what one refuses does not count for the other.
func TestConcurrentRequestsAndRates(t *testing.T) {
	t.Parallel()
	sh := shapeOf("responses")
	t.Run("GAP-89 GAP-16 LIM-11 the rates come first", func(t *testing.T) {
		t.Parallel()
		g := pace(t, limitedTo(3, 0, 0, "concurrent_requests = 1"), setup{})
		c := g.rich(t)
		c.Blocked(hello)
		done := c.Start(t, sh)
		for range 5 {
			requireBusy(t, sh, c.Ask(sh))
		}
		require.Equal(t, 200, c.Get("/v1/account").StatusCode)
		require.Equal(t, 200, c.Get("/v1/account").StatusCode, "the third that counts")
		requireLimited(t, sh, c.Ask(sh), "key_requests_per_minute")
		g.Upstream.Open(c.Mark)
		outcomeOf(t, sh, <-done)
		for range 3 {
			requireLimited(t, sh, c.Ask(sh), "key_requests_per_minute")
		}
		g.Advance(time.Minute)
		outcomeOf(t, sh, c.Ask(sh)) // the refused ones have left
	})
	t.Run("LIM-11 a reload neither forgets nor doubles what is in progress", func(t *testing.T) {
		t.Parallel()
		g := pace(t, limitedTo(0, 0, 0), setup{})
		c := g.rich(t)
		c.Blocked(hello)
		done := c.Start(t, sh)
		limit := func(from, to string) {
			g.Reload(func(hcl string) string { return strings.Replace(hcl, from, to, 1) })
		}
		limit("address = 0\n }", "address = 0\n }\n concurrent_requests = 1")
		requireBusy(t, sh, c.Ask(sh))
		limit("concurrent_requests = 1", "concurrent_requests = 2")
		second := make(chan answer, 1)
		go func() { second <- c.Ask(sh) }()
		require.NoError(t, g.Upstream.AtGate(within(t), c.Mark, 2))
		requireBusy(t, sh, c.Ask(sh))
		g.Upstream.Open(c.Mark)
		outcomeOf(t, sh, <-done)
		outcomeOf(t, sh, <-second)
		limit("concurrent_requests = 2", "concurrent_requests = 1")
		outcomeOf(t, sh, c.Ask(sh))
	})
}

// TestConcurrentRequestsAreGivenBack ends a request in every way, one after the other, on an account that may have
// one in progress.
func TestConcurrentRequestsAreGivenBack(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		t.Run("LIM-11 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := pace(t, limitedTo(0, 0, 0, "concurrent_requests = 1"),
				setup{Gateway: "max_body = \"16KiB\"\n request_timeout = \"1h\"",
					Families: []families.Server{faulty{chat.Server{}}, faulty{responses.Server{}}, faulty{messages.Server{}}}})
			c := g.rich(t)
			free := func(what string) {
				t.Helper()
				c.Answers(hello)
				a := c.Ask(sh)
				require.Equal(t, 200, a.StatusCode, "after %s: %s", what, a.Raw)
			}
			for body, status := range map[string]int{
				"": 400, `{"model":`: 400, strings.Repeat(" ", 20<<10): 413, sh.Body("PROMPT", `"api_key":"x"`): 400,
				sh.Body("PROMPT", `"model":"none"`): 404, sh.Body("PROMPT" + faultAtOnce): 500,
			} {
				require.Equal(t, status, c.Post(sh.Path, body).StatusCode, body)
				free(body)
			}
			for name, reply := range map[string]upstream.Reply{
				"a refusal":      upstream.Refuse(upstream.ServerError()),
				"capacity":       upstream.Refuse(upstream.RateLimited("1")),
				"policy":         upstream.Refuse(upstream.ContentFilter()),
				"a cut":          {Steps: []upstream.Step{upstream.Text("Hel"), upstream.Cut()}},
				"a reset":        {Steps: []upstream.Step{upstream.Headers(), upstream.Reset()}},
				"no answer":      script(used(10, 5), "stop"),
				"what is no SSE": {Steps: []upstream.Step{upstream.Headers(), upstream.Raw("nonsense"), upstream.Done()}},
			} {
				for _, mode := range modes {
					c.Answers(reply)
					c.Ask(sh, mode.Field)
					free(name + " " + mode.Name)
				}
			}
			c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}})
			limit := func(from, to string) {
				g.Reload(func(hcl string) string { return strings.Replace(hcl, from, to, 1) })
			}
			limit(`request_timeout = "1h"`, `request_timeout = "300ms"`)
			requireError(t, sh, c.Ask(sh), 504, "upstream_error")
			limit(`request_timeout = "300ms"`, `request_timeout = "1h"`)
			free("the time limit")
			c.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Wait(c.Mark), upstream.Text("lo")))
			l := c.service.Send(within(t), "POST", sh.Path, sh.Body(c.Mark+faultLater, streamField))
			defer l.Body.Close()
			require.NoError(t, g.Upstream.AtGate(within(t), c.Mark, 1))
			g.Upstream.Open(c.Mark)
			_, err := io.ReadAll(l.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			free("a fault in mid-reply")

			poor := g.caller(t, 1)
			requireError(t, sh, poor.Ask(sh, allowance(sh, 10_000)), 402, "budget_exceeded")
			outcomeOf(t, sh, poor.Ask(sh, allowance(sh, 10)))
		})
		t.Run("LIM-11 the client leaves while it sends its body "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := pace(t, limitedTo(0, 0, 0, "concurrent_requests = 1"), setup{})
			c := g.rich(t)
			conn, err := net.Dial("tcp", strings.TrimPrefix(c.URL, "http://"))
			require.NoError(t, err)
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: "+
				"1000\r\nExpect: 100-continue\r\n\r\n", sh.Path, c.Key)
			require.NoError(t, err)
			asked, err := bufio.NewReader(conn).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 100 Continue\r\n", asked, "the body is being read")
			requireBusy(t, sh, c.Ask(sh))
			_, err = io.WriteString(conn, `{"model":`)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			c.Log.Await(t, func(line map[string]any) bool {
				return line["msg"] == "request" && line["account"] == c.Account.Name && line["status"] == 400.0
			})
			outcomeOf(t, sh, c.Ask(sh))
		})
		t.Run("LIM-11 GAP-47 a client that left counts until its reply has been read to the end "+sh.Name,
			func(t *testing.T) {
				t.Parallel()
				g := pace(t, limitedTo(0, 0, 0, "concurrent_requests = 1"), setup{})
				c := g.rich(t)
				c.Blocked(hello)
				gone := c.Departure()
				ctx, leave := context.WithCancel(within(t))
				l := c.Send(t, ctx, sh, streamField).Live()
				l.Start(sh)
				leave()
				requireClosed(t, gone)
				c.left.Delete("Bearer " + c.Key)
				requireBusy(t, sh, c.Ask(sh))
				g.Upstream.Open(c.Mark)
				c.Access(l.Header.Get("X-Request-Id"))
				outcomeOf(t, sh, c.Ask(sh))
			})
	}
}
