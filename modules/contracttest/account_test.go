package contracttest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// summary is the part of GET /v1/account that tests compare.
type summary struct {
	Tenant struct {
		ID, Name string
		KeyMode  string `json:"key_mode"`
	}
	Credits credits
	Key     struct{ Name, Last4 string }
}

// credits are the numbers of the summary, as integers: a decimal does not decode.
type credits struct {
	Balance   int64   `json:"balance_credits"`
	Reserved  int64   `json:"reserved_credits"`
	Available int64   `json:"available_credits"`
	Monthly   int64   `json:"monthly_allotment_credits"`
	PeriodEnd *string `json:"current_period_end"`
	Accrued   int64   `json:"accrued_usage_microcents"`
}

// Summary reads GET /v1/account and checks what holds in every sample (ACCT-06, ACCT-11).
func (s *service) Summary(t testing.TB) summary {
	t.Helper()
	a := s.Get("/v1/account")
	require.Equal(t, 200, a.StatusCode, "body: %s", a.Raw)
	var got summary
	require.NoError(t, json.Unmarshal(a.Raw, &got))
	accrued := int64(0)
	if got.Credits.Accrued > 0 {
		accrued = 1
	}
	require.Equal(t, got.Credits.Balance-got.Credits.Reserved-accrued, got.Credits.Available)
	require.True(t, 0 <= got.Credits.Accrued && got.Credits.Accrued < ledger.MicrocentsPerCredit, "accrued: %d",
		got.Credits.Accrued)
	return got
}

// requireCredits checks the four numbers that move.
func requireCredits(t testing.TB, s *service, balance, reserved, accrued, available int64) {
	t.Helper()
	got := s.Summary(t).Credits
	got.Monthly, got.PeriodEnd = 0, nil
	require.Equal(t, credits{Balance: balance, Reserved: reserved, Accrued: accrued, Available: available}, got)
}

func TestAccountSummary(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: `
plan "crowd" {
  concurrent_requests = 0
}
`})

	t.Run("ACCT-05 a client that leaves", func(t *testing.T) {
		t.Parallel()
		c := g.caller(t, 100)
		c.Blocked(hello)
		ctx, leave := context.WithCancel(context.Background())
		body := shapeOf("chat").Body(c.Mark, `"max_tokens":1000`, modes[1].Field)
		resp := c.service.Send(ctx, "POST", "/v1/chat/completions", body)
		require.NoError(t, c.Upstream.AtGate(within(t), c.Mark, 1))
		requireCredits(t, c.service, 100, 2, 0, 98)
		leave()
		require.NoError(t, resp.Body.Close())
		c.Upstream.Open(c.Mark)
		c.Access(resp.Header.Get("X-Request-Id"))
		require.Zero(t, c.Summary(t).Credits.Reserved)
	})
	t.Run("ACCT-06 ACCT-10 ACCT-11 a hundred requests at once", func(t *testing.T) {
		t.Parallel()
		c := g.caller(t, 1000)
		c.SetPlan("crowd")
		c.Answers(script(upstream.Usage{Prompt: 3, Completion: 61}, "stop", upstream.Text("x")))
		const requests, cost = 100, 3*300 + 61*1500
		var wait sync.WaitGroup
		for range requests {
			wait.Go(func() {
				require.Equal(t, 200, c.Ask(shapeOf("chat"), `"max_tokens":100`).StatusCode)
				c.Summary(t)
			})
		}
		wait.Wait()
		const spent = requests * cost // 9,240,000 microcents
		requireCredits(t, c.service, 1000-spent/1_000_000, 0, spent%1_000_000, 1000-spent/1_000_000-1)
		require.EqualValues(t, 1000*1_000_000-spent, c.Net())
	})
}

func TestExpiredKey(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	t.Run("GEN-20 GAP-119 an expired key may be given more time", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		expires := func(at time.Time) {
			all := ledger.KeyQuery{Account: c.Account.ID}
			require.NoError(t, g.Engine.Store().Keys(t.Context(), all, func(k ledger.Key) error {
				_, err := g.Engine.Store().ChangeKey(t.Context(), k.ID, ledger.KeyChange{Expires: &at})
				return err
			}))
			g.Engine.ForgetKeys()
		}
		for _, p := range places {
			expires(time.Unix(1000, 0))
			requirePassing(t, p.Shape, p.Send(c), 401, "authentication_error")
			expires(time.Time{})
			require.Equal(t, 200, p.Send(c).StatusCode)
		}
	})
}
