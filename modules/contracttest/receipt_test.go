package contracttest

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/later"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// provenLater is a gateway whose provider tells afterwards what it used, when the test's desk lets it. Its clock runs
// so fast that the gateway asks for receipts all the time.
type provenLater struct {
	*scripted
	*later.Desk
}

func startLater(t testing.TB, s setup) provenLater {
	t.Helper()
	desk := later.NewDesk()
	server := httptest.NewServer(desk)
	t.Cleanup(server.Close)
	s.Plugin, s.Settings = "later", fmt.Sprintf("desk = %q", server.URL)
	if s.Clock == nil {
		s.Clock = newClock(500)
	}
	return provenLater{startScripted(t, s), desk}
}

// record waits for what the ledger has of a request to be as wanted.
func (s *service) record(t testing.TB, request string, wanted func(ledger.RequestRecord) bool) ledger.RequestRecord {
	t.Helper()
	var r ledger.RequestRecord
	require.Eventually(t, func() bool {
		var err error
		r, err = s.Engine.Store().Request(within(t), request)
		return err == nil && wanted(r)
	}, 20*time.Second, 5*time.Millisecond)
	return r
}

func proven(r ledger.RequestRecord) bool { return !r.Pending }

// TestReceipts proves charges that come later, for what no reply proved.
func TestReceipts(t *testing.T) {
	t.Parallel()
	g := startLater(t, setup{Gateway: `keepalive = "20ms"`})
	const rest = 1_000_000 * 1_000_000 // NET of a rich caller
	for _, sh := range shapes {
		t.Run("USE-03 BILL-28 BILL-29 JSON does not wait "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			o := c.Ask(sh)
			got := outcomeOf(t, sh, o)
			require.Equal(t, "Hello", got.Text)
			require.Zero(t, got.Billed(t), "what is proven so far")
			require.Equal(t, true, got.Usage["billing_pending"])
			require.EqualValues(t, rest, c.Net())
			require.Zero(t, c.Balance().Held, "the hold is released")

			request := o.Header.Get("X-Request-Id")
			attempt := ledger.AttemptID(request, 1)
			require.NoError(t, g.Asked(within(t), attempt, 2)) // in vain
			g.HandOut(attempt)
			r := g.record(t, request, proven)
			require.EqualValues(t, helloCost, r.Microcents)
			require.False(t, r.Attempts[0].Receipt.IsZero())
			require.EqualValues(t, rest-helloCost, c.Net())

			// The receipt again: by the store's own word, and for as long as the gateway may ask.
			charge, applied, err := g.Engine.Store().AddReceipt(within(t), attempt,
				llm.Usage{Input: llm.Count(10), Output: llm.Count(2)})
			require.NoError(t, err)
			require.False(t, applied)
			require.EqualValues(t, helloCost, charge.Microcents)
			other := g.rich(t)
			pending := other.Ask(sh).Header.Get("X-Request-Id")
			g.HandOut(ledger.AttemptID(pending, 1))
			g.record(t, pending, proven) // a whole round of questions later
			require.EqualValues(t, rest-helloCost, c.Net())
			require.Len(t, r.Entries, 2)
			require.Zero(t, r.Entries[0].Microcents, "the settlement")
			require.Equal(t, ledger.Receipt, r.Entries[1].Kind)
		})
		t.Run("USE-03 SSE-48 GAP-57 the end of a stream waits "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			l := c.Open(t, sh)
			l.Start(sh)
			require.Equal(t, "Hel", l.Text(sh))
			require.Equal(t, "lo", l.Text(sh))
			for keepAlives := 0; keepAlives < 3; { // what else comes before the charge is final, judge knows
				if f := l.Next(); f.IsKeepAlive() {
					keepAlives++
				}
			}
			require.Positive(t, c.Balance().Held)
			request := l.Header.Get("X-Request-Id")
			g.HandOut(ledger.AttemptID(request, 1))
			l.End()
			v := judge(t, sh, l)
			require.True(t, v.Complete)
			require.EqualValues(t, helloCost, v.Billed(t))
			require.Equal(t, false, v.Usage["billing_pending"])
			require.EqualValues(t, rest-helloCost, c.Net())
			r := g.record(t, request, proven)
			require.Equal(t, ledger.Finished, r.Attempts[0].Outcome)
			require.True(t, r.Attempts[0].Receipt.IsZero(), "the settlement had it")
		})
		t.Run("GAP-57 BILL-22 BILL-29 nobody waits for a client that left "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			left := c.Departure()
			l := c.Open(t, sh)
			l.Start(sh)
			require.Equal(t, "Hel", l.Text(sh))
			require.NoError(t, l.Body.Close())
			requireClosed(t, left)
			request := l.Header.Get("X-Request-Id")
			line := c.Access(request)
			require.Equal(t, "client_left", line["reason"])
			require.Equal(t, true, line["pending"])
			require.EqualValues(t, rest, c.Net())
			g.HandOut(ledger.AttemptID(request, 1))
			require.EqualValues(t, helloCost, g.record(t, request, proven).Microcents)
			require.EqualValues(t, rest-helloCost, c.Net())
		})
		for _, mode := range modes {
			t.Run("BILL-28 BILL-29 BILL-21 BILL-33 a failed request "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(worked(used(100, 0)))
				a := c.Ask(sh, mode.Field, askForCalls(sh))
				if mode.Name == "json" {
					requireError(t, sh, a, 502, "upstream_error")
				}
				request := a.Header.Get("X-Request-Id")
				c.Access(request)
				require.EqualValues(t, rest, c.Net())
				require.Zero(t, c.Balance().Held)
				g.HandOut(ledger.AttemptID(request, 1))
				require.EqualValues(t, 100*300, g.record(t, request, proven).Microcents)
				require.EqualValues(t, rest-100*300, c.Net())
			})
		}
	}
}

// TestReceiptsThatDoNotCome ends streams whose usage is not proven in time.
func TestReceiptsThatDoNotCome(t *testing.T) {
	t.Parallel()
	g := startLater(t, setup{Gateway: `
keepalive       = "20ms"
request_timeout = "700ms"
`})
	never := startScripted(t, setup{})
	for _, sh := range shapes {
		t.Run("GAP-57 SSE-48 BILL-28 BILL-29 up to the time limit "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			var l *liveReply
			v := reached(t, func() verdict {
				l = c.Open(t, sh)
				l.End()
				return judge(t, sh, l)
			}, func(v verdict) bool { return len(v.Pieces) == 2 && v.KeepAlives > 0 })
			require.Equal(t, "stream_error", v.Error.Code)
			require.Equal(t, []string{"Hel", "lo"}, v.Pieces)
			require.Equal(t, c.Credits*1_000_000, c.Net())
			require.Zero(t, c.Balance().Held)
			request := l.Header.Get("X-Request-Id")
			g.HandOut(ledger.AttemptID(request, 1))
			require.EqualValues(t, helloCost, g.record(t, request, proven).Microcents, "a later receipt adds it")
			require.Equal(t, c.Credits*1_000_000-helloCost, c.Net())
		})
		t.Run("GAP-57 a provider without receipts is not waited for "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := never.rich(t)
			silent := hello
			silent.Usage = upstream.UsageNever
			c.Answers(silent)
			v := c.Stream(t, sh)
			require.Equal(t, "stream_error", v.Error.Code)
			require.Equal(t, c.Credits*1_000_000, c.Net())
			o := outcomeOf(t, sh, c.Ask(sh))
			require.Zero(t, o.Billed(t))
			require.Equal(t, true, o.Usage["billing_pending"])
			require.Equal(t, c.Credits*1_000_000, c.Net())
		})
	}
}
