package contracttest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// OpenNarrow is Open over a protocol with small buffers.
func (c *caller) OpenNarrow(t testing.TB, protocol string, sh shape, fields ...string) *liveReply {
	t.Helper()
	url, narrow := c.Narrow(t, protocol)
	return c.openAt(t, url, narrow, sh, fields...)
}

// openAt is Open with a client of one's own.
func (c *caller) openAt(t testing.TB, url string, client *http.Client, sh shape, fields ...string) *liveReply {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	t.Cleanup(cancel)
	body := sh.Body(c.Mark, append([]string{streamField}, fields...)...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+sh.Path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+c.Key)
	resp, err := client.Do(req)
	require.NoError(t, err)
	return newLive(t, resp)
}

// long is a reply of so many pieces of 16 KiB, which begin when the first text was read. Before the last one it waits
// at the gate of the caller.
func (c *caller) long(pieces int, u upstream.Usage) upstream.Reply {
	text := strings.Repeat("0123456789abcdef", 1<<10)
	return script(u, "stop", upstream.Text("Hel"), upstream.Wait(c.begun()),
		upstream.Step{Do: upstream.StepText, Text: text, Times: pieces}, upstream.Wait(c.Mark), upstream.Text("the end"))
}

// begun is the gate at which a long reply waits for its first text to be read: the end of a stream of HTTP/3 takes
// what was not read before.
func (c *caller) begun() string { return c.Mark + "begun" }

// startLong reads the beginning of a long reply.
func (c *caller) startLong(t testing.TB, l *liveReply, sh shape) {
	t.Helper()
	defer c.Upstream.Open(c.begun())
	l.Start(sh)
	require.Equal(t, "Hel", l.Text(sh))
}

// TestClientStalls has clients that read the beginning of a reply and then nothing. What they got is charged: nobody
// gets a reply for nothing by not reading it (GAP-112).
func TestClientStalls(t *testing.T) {
	t.Parallel()
	const (
		quick = `client_stall = "200ms"`
		cost  = 10*300 + 500*1500
		ample = 64_000 // tokens
	)
	g := startScripted(t, setup{Gateway: quick})
	brief := startScripted(t, setup{Gateway: quick + "\nrequest_timeout = \"3s\"",
		Plan: "fair", Extra: capped("fair", "fair_use_microcents = 1000000000")})
	for i, protocol := range protocols {
		sh := shapes[i]
		for name, pieces := range map[string]int{
			"with little ahead of it": 30, // fills the buffers on the way
			"with more than is kept":  150,
		} {
			t.Run("GAP-112 BILL-22 "+name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(c.long(pieces, used(10, 500)))
				l := c.OpenNarrow(t, protocol, sh, allowance(sh, ample))
				c.startLong(t, l, sh)
				if pieces < 100 { // the upstream goes on once the client is gone
					c.Log.Await(t, func(line map[string]any) bool {
						return line["request_id"] == l.Header.Get("X-Request-Id") &&
							strings.HasPrefix(str(line["msg"]), "a client took nothing")
					})
				}
				c.Upstream.Open(c.Mark)
				line := c.Access(l.Header.Get("X-Request-Id"))
				require.Equal(t, "client_left", line["reason"])
				require.InDelta(t, cost, line["microcents"], 0)
				require.Equal(t, false, line["pending"])
				record, err := c.Upstream.Ended(within(t), c.Seen()[0].N)
				require.NoError(t, err)
				require.Equal(t, upstream.OutcomeWhole, record.Outcome, "the upstream is read to its end")
				require.Zero(t, c.Balance().Held)
				// Read on, the reply breaks off.
				_, err = io.Copy(io.Discard, l.in)
				require.Error(t, err)
			})
		}
		t.Run("GAP-112 GAP-113 an upstream that proves nothing by the end of the time "+protocol, func(t *testing.T) {
			t.Parallel()
			c := brief.rich(t)
			c.Answers(c.long(30, used(10, 500))) // and waits
			l := c.OpenNarrow(t, protocol, sh, allowance(sh, ample))
			c.startLong(t, l, sh)
			r := c.Record(t, answer{Response: l.Response})
			require.Equal(t, 504, r.Status)
			require.False(t, r.Pending)
			require.False(t, r.ServiceLimit, "without fair use")
			require.True(t, r.Attempts[0].Usage.Estimated)
			require.Greater(t, r.Microcents, int64(ample*1500), "all that was sent, up to the allowance")
			require.Zero(t, r.Waived)
		})
	}
}

// reading is what a client does with a reply.
type reading struct {
	shape  shape
	pieces int    // of 16 KiB that the upstream sends
	silent bool   // the upstream then says nothing any more; otherwise it ends, and proves what it used
	bytes  int    // that the client reads at first
	then   string // what it does then
}

var readings = rapid.Custom(func(t *rapid.T) reading {
	return reading{
		shape:  rapid.SampledFrom(shapes).Draw(t, "shape"),
		pieces: rapid.SampledFrom([]int{0, 1, 10, 40, 120}).Draw(t, "pieces"),
		silent: rapid.Bool().Draw(t, "silent"),
		bytes:  rapid.IntRange(0, 300<<10).Draw(t, "bytes"),
		then:   rapid.SampledFrom([]string{"reads on", "pauses", "stalls", "leaves"}).Draw(t, "then"),
	}
})

// TestWhoeverGotTextPays: without fair use, a reply of which something was delivered is never free, whatever upstream
// and client do (GAP-47, GAP-112, GAP-113); and a whole one costs what it says.
func TestWhoeverGotTextPays(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: "client_stall = \"200ms\"\nrequest_timeout = \"3s\"",
		Routes: []route{{Name: "standard", Timeout: "1500ms"}},
		Plan:   "strict", Extra: capped("strict", "fair_use_microcents = 0")})
	url, narrow := g.Narrow(t, "HTTP/1.1")
	for seed := range 32 {
		t.Run(fmt.Sprintf("GAP-112 GAP-113 BILL-22 %d", seed), func(t *testing.T) {
			t.Parallel()
			r := readings.Example(seed)
			t.Logf("%+v", r)
			c := g.rich(t)
			reply := c.long(r.pieces, used(10, 500))
			if c.Upstream.Open(c.Mark); r.silent {
				reply.Steps = append(reply.Steps[:3:3], upstream.Silence())
			}
			c.Answers(reply)
			l := c.openAt(t, url, narrow, r.shape, allowance(r.shape, 64_000))
			c.startLong(t, l, r.shape)
			_, err := io.CopyN(io.Discard, l.in, int64(r.bytes))
			id := answer{Response: l.Response}
			switch r.then {
			case "pauses":
				select {
				case <-time.After(300 * time.Millisecond): // it is the time itself that is tried
				case <-within(t).Done():
				}
			case "stalls":
				c.Record(t, id)
			case "leaves":
				require.NoError(t, l.Body.Close())
			}
			var rest []byte
			if err == nil {
				rest, _ = io.ReadAll(l.in) // it may break off
			}
			record := c.Record(t, id)
			require.Positive(t, record.Microcents)
			require.Zero(t, record.Waived)
			require.False(t, record.Pending)
			if !r.silent {
				require.EqualValues(t, 10*300+500*1500, record.Microcents)
			} else {
				require.NotContains(t, string(rest), `"billing_pending":false`)
			}
		})
	}
}
