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
plan "starter" {
  monthly_credits = 500
}
plan "crowd" {
  concurrent_requests = 0
}
`})

	t.Run("ACCT-01 ACCT-02 ACCT-03 ACCT-12 ACCT-13 ACCT-14 GAP-121 who calls", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		first := c.Summary(t)
		require.NotEmpty(t, first.Tenant.ID)
		require.Equal(t, c.Account.Name, first.Tenant.Name)
		require.Equal(t, "managed", first.Tenant.KeyMode)
		require.Equal(t, "first", first.Key.Name)
		require.Equal(t, c.Key[len(c.Key)-4:], first.Key.Last4)

		key := c.NewKey(c.Account, "second")
		a := c.Get("/v1/account", "Authorization", "Bearer "+key)
		require.Equal(t, first.Tenant.ID, a.At(t, "tenant", "id"))
		require.Equal(t, "second", a.At(t, "key", "name"))
		require.Equal(t, key[len(key)-4:], a.At(t, "key", "last4"))
		require.NotContains(t, string(a.Raw), key)
		require.NotEqual(t, first.Tenant.ID, g.rich(t).Summary(t).Tenant.ID)
		requireError(t, shapeOf("chat"), c.Get("/account"), 404, "invalid_request_error")
	})
	t.Run("ACCT-14 ACCT-09 every member is there", func(t *testing.T) {
		t.Parallel()
		c := g.caller(t, 7)
		require.Equal(t, map[string]any{
			"tenant": map[string]any{"id": c.Account.ID, "name": c.Account.Name, "key_mode": "managed"},
			"credits": map[string]any{
				"balance_credits": json.Number("7"), "reserved_credits": json.Number("0"), "available_credits": json.Number("7"),
				"monthly_allotment_credits": json.Number("0"), "current_period_end": nil,
				"accrued_usage_microcents": json.Number("0"),
			},
			"key": map[string]any{"name": "first", "last4": c.Key[len(c.Key)-4:]},
		}, c.Get("/v1/account").JSON(t))
	})
	t.Run("ACCT-07 the plan's allotment", func(t *testing.T) {
		t.Parallel()
		_, key := g.NewAccount("on a plan", "starter", 0)
		a := g.Get("/v1/account", "Authorization", "Bearer "+key)
		require.Equal(t, json.Number("500"), a.At(t, "credits", "monthly_allotment_credits"))
		require.Zero(t, g.caller(t, 0).Summary(t).Credits.Monthly)
	})
	t.Run("ACCT-04 ACCT-06 a top-up", func(t *testing.T) {
		t.Parallel()
		c := g.caller(t, 3)
		c.TopUp(c.Account, 4)
		requireCredits(t, c.service, 7, 0, 0, 7)
	})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("ACCT-05 ACCT-06 ACCT-10 while a request runs and after it, "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.caller(t, 100)
				c.Blocked(hello)
				done := c.Start(t, sh, mode.Field, `"max_tokens":1000,"max_output_tokens":1000`)
				// 1,000 tokens out are 1.5 credits; the prompt is less than half a credit.
				requireCredits(t, c.service, 100, 2, 0, 98)
				c.Upstream.Open(c.Mark)
				require.EqualValues(t, helloCost, outcomeOf(t, sh, <-done).Billed(t))
				requireCredits(t, c.service, 100, 0, helloCost, 99)
			})
		}
		t.Run("ACCT-05 holds end with a failure, "+sh.Name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range modes {
				c := g.caller(t, 100)
				c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Wait(c.Mark),
					upstream.Fail(upstream.ServerError())}})
				done := c.Start(t, sh, mode.Field, `"max_tokens":1000,"max_output_tokens":1000`)
				requireCredits(t, c.service, 100, 2, 0, 98)
				c.Upstream.Open(c.Mark)
				a := <-done
				c.Access(a.Header.Get("X-Request-Id"))
				requireCredits(t, c.service, 100, 0, 0, 100)
			}
		})
	}
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

func TestAccountStates(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, state := range []ledger.State{ledger.Suspended, ledger.Inactive} {
		t.Run("STATE-03 AUTH-14 AUTH-15 ERR-20 "+string(state), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			require.Equal(t, 200, c.Get("/v1/account").StatusCode)
			c.SetState(state)
			for _, p := range places {
				a := p.Send(c)
				requireError(t, p.Shape, a, 403, "permission_denied")
				require.Contains(t, str(a.At(t, "error", "message")), a.Header.Get("X-Request-Id"))
				requireError(t, p.Shape, p.Send(c, "Authorization", "Bearer "+c.Key+"x"), 401, "authentication_error")
			}
			for _, sh := range shapes {
				requireError(t, sh, c.Ask(sh, modes[1].Field), 403, "permission_denied")
			}
			c.RequireUntouched(t)
			c.SetState(ledger.Active)
			require.Equal(t, 200, c.Ask(shapes[0]).StatusCode)
		})
	}
	t.Run("STATE-05 AUTH-12 revoked", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		other := c.NewKey(c.Account, "other")
		require.Equal(t, 200, c.Get("/v1/account").StatusCode)
		c.Revoke()
		for _, p := range places {
			requirePassing(t, p.Shape, p.Send(c), 401, "authentication_error")
			require.Equal(t, 200, p.Send(c, "Authorization", "Bearer "+other).StatusCode)
		}
	})
	t.Run("GEN-20 GAP-119 an expired key may be given more time", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		expires := func(at time.Time) {
			require.NoError(t, g.Engine.Store().Keys(t.Context(), c.Account.ID, func(k ledger.Key) error {
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
	t.Run("STATE-05 a revoked key of a suspended account", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.Revoke()
		c.SetState(ledger.Suspended)
		for _, p := range places {
			requirePassing(t, p.Shape, p.Send(c), 401, "authentication_error")
		}
	})
}
