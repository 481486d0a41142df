package exchange

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// TestWhatIsRefused before anything is held, in the order of GAP-01.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) {
		c.Gateway.StructuredOutput = true
		for i := range c.Routes {
			c.Routes[i].Tools = false
		}
	})
	poor := b.account(t, "poor", 0)
	const messages = `"messages":[{"role":"user","content":"hi"}]}`
	const auto = `{"model":"service/auto",`
	const inJSON = auto + `"response_format":{"type":"json_object"},` + messages
	const tooMuch = auto + `"max_tokens":200000,` + messages
	for name, tc := range map[string]struct {
		body, profile string
		who           ledger.Principal
		status        int
		says          string
	}{
		"no JSON":             {body: `{`, status: 400, says: "JSON"},
		"no model":            {body: `{` + messages, status: 400, says: "model"},
		"MODEL-06 another":    {body: `{"model":"x",` + messages, status: 404, says: "set the model to"},
		"PROF-18 profile":     {body: `{"model":"service/auto"}`, profile: "best", status: 400, says: "balanced or max"},
		"no messages":         {body: `{"model":"service/auto"}`, status: 400, says: "messages"},
		"no tools":            {body: auto + withTool + `,` + messages, status: 503, says: "such as tools"},
		"GAP-38 no room":      {body: tooMuch, status: 503, says: "fit no route's context window"},
		"GAP-78 JSON":         {body: inJSON, status: 400, says: "offers JSON"},
		"BILL-01 no credits":  {body: auto + messages, who: poor, status: 402, says: "no credits left"},
		"GAP-01 nor any room": {body: tooMuch, who: poor, status: 402, says: "no credits left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var header []string
			if tc.profile != "" {
				header = []string{"X-Service-Profile", tc.profile}
			}
			w, call := httptest.NewRecorder(), &gateway.Call{Kind: gateway.Generate, Body: []byte(tc.body), Principal: tc.who}
			b.ask(t, t.Context(), w, call, header...)
			require.Equal(t, tc.status, w.Code)
			require.Contains(t, w.Body.String(), tc.says)
			require.False(t, call.Record.Held)
			_, err := b.engine.Store().Request(t.Context(), call.ID)
			require.ErrorIs(t, err, ledger.ErrNotFound)
			count := &gateway.Call{Kind: gateway.CountTokens, Body: []byte(tc.body), Principal: tc.who}
			counted := httptest.NewRecorder()
			b.ask(t, t.Context(), counted, count, header...)
			if tc.status == 400 && tc.says != "offers JSON" || tc.status == 404 {
				require.Equal(t, w.Body.String(), counted.Body.String(), "the token count refuses what is wrong in itself")
			} else {
				require.Equal(t, 200, counted.Code, "CNT-02 and nothing else")
			}
		})
	}
}

// TestProfiles: the header's profile, then that of the effort, then the account's.
func TestProfiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) { c.Gateway.DefaultProfile = config.ProfileMax })
	for _, r := range []string{"first", "second", "third"} {
		b.upstream.SetModel(r, hello("stop"))
	}
	for more, want := range map[string]string{
		`"max_tokens":5`: "max", `"reasoning_effort":"low"`: "budget", `"reasoning_effort":"medium"`: "balanced",
	} {
		call := saying(false, more)
		b.ask(t, t.Context(), httptest.NewRecorder(), call)
		require.Equal(t, want, call.Record.Profile)
		require.Equal(t, want, b.record(t, call).Profile)
		require.Equal(t, "chat", b.record(t, call).Endpoint)
		require.Equal(t, b.who.Key.ID, b.record(t, call).Key)
		call = saying(false, more)
		b.ask(t, t.Context(), httptest.NewRecorder(), call, "X-Service-Profile", "BUDGET")
		require.Equal(t, "budget", b.record(t, call).Profile)
	}
}

// TestNoRoute: what a client is told when no route can serve, unless its account could not pay.
func TestNoRoute(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain")
	poor := b.account(t, "poor", 0)
	for why, want := range map[error]struct {
		status int
		says   string
	}{
		routing.ErrNotReady:   {503, "No route that can take the request is working"},
		routing.ErrNoJSON:     {400, "No route that offers JSON output"},
		routing.ErrTooLarge:   {503, "fit no route's context window"},
		routing.ErrNotOffered: {503, "No route offers what the request needs"},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		x := (&exchange{scope: scope{engine: b.engine, gen: b.engine.Current(), request: request, ctx: t.Context(),
			call: &gateway.Call{Principal: b.who}}}).connect()
		for _, err := range []error{why, fmt.Errorf("planning: %w", why)} {
			e := x.admission.refuseUnroutable(err)
			require.Equal(t, want.status, e.Status)
			require.Contains(t, e.Message, want.says)
		}
		x.call.Principal = poor
		require.Equal(t, 402, x.admission.refuseUnroutable(why).Status, "GAP-01")
		require.Equal(t, 402, x.admission.refuseUnacquired(routing.ErrBusy, routing.Worst{Microcents: 1}).Status, "GAP-01")
		x.call.Principal = b.who
		require.Equal(t, 429, x.admission.refuseUnacquired(routing.ErrBusy, routing.Worst{Microcents: 1}).Status)
		require.Equal(t, 402, x.admission.refuseUnacquired(routing.ErrBusy, routing.Worst{Microcents: 1 << 50}).Status)
	}
}

// TestLimitsOfAccounts: each says which one it is, in words of its own.
func TestLimitsOfAccounts(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, err := range []error{ledger.ErrNothingLeft, ledger.ErrHeld, ledger.ErrInsufficient, ledger.ErrSpendCap,
		ledger.ErrTokenBudget, ledger.ErrKeySpendCap} {
		e := limitRefusal(fmt.Errorf("holding: %w", err))
		require.Equal(t, families.BudgetExceeded, e.Code)
		require.Equal(t, 402, e.Status)
		require.False(t, seen[e.Message], e.Message)
		seen[e.Message] = true
	}
	require.Nil(t, limitRefusal(ledger.ErrUnavailable))
}

// TestNothingVisible: a client whose own allowance was too small is told the number.
func TestNothingVisible(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		finish         llm.FinishReason
		own, allowance int64
		usage          *llm.Usage
		status         int
		told           bool
	}{
		"GAP-40 the length":                {llm.FinishLength, 10, 10, nil, 422, false},
		"GAP-40 all of its allowance":      {llm.FinishStop, 10, 10, &llm.Usage{Output: llm.Count(10)}, 502, true},
		"GAP-40 of the smallest":           {llm.FinishStop, 1, 1, &llm.Usage{Output: llm.Count(1)}, 502, true},
		"GAP-40 not all of it":             {llm.FinishStop, 10, 10, &llm.Usage{Output: llm.Count(9)}, 502, false},
		"GAP-40 nobody knows":              {llm.FinishStop, 10, 10, nil, 502, false},
		"GAP-40 it was raised":             {llm.FinishStop, 10, 20, &llm.Usage{Output: llm.Count(20)}, 502, false},
		"GAP-40 it gave none":              {llm.FinishStop, 0, 20, &llm.Usage{Output: llm.Count(20)}, 502, false},
		"GAP-40 none, and nothing was out": {llm.FinishStop, 0, 0, &llm.Usage{Output: llm.Count(0)}, 502, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := (&exchange{scope: scope{req: &request{Request: &families.Request{LLM: &llm.Request{MaxTokens: tc.own}}}},
				work: work{current: &attempt{allowance: tc.allowance, usage: tc.usage,
					reply: &reply{finish: tc.finish}}}}).connect()
			e := x.work.refusal(&failure{kind: noVisibleText})
			require.Equal(t, tc.status, e.Status)
			if tc.told {
				require.Contains(t, e.Message, fmt.Sprintf("the max_tokens budget (%d)", tc.own))
			} else {
				require.NotContains(t, e.Message, "max_tokens")
			}
		})
	}
}

// TestWhatIsTriedAgain on another route.
func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	for kind, want := range map[failureKind]bool{
		llm.ErrPolicy: false, llm.ErrCanceled: false, timeLimit: false, shutdown: false, noVisibleText: false, noUsage: false,
		overBudget: false, ledgerAway: false,
		llm.ErrUpstream: true, llm.ErrCapacity: true, llm.ErrQuota: true, attemptTimeout: true, llm.ErrDied: true,
	} {
		require.Equal(t, want, (&failure{kind: kind}).retriable(), kind)
	}
	for kind, want := range map[failureKind]bool{
		shutdown: true, invalidArguments: true, llm.ErrProtocol: true, llm.ErrDied: true, ledgerAway: true,
		llm.ErrUpstream: false, timeLimit: false, overBudget: false,
	} {
		require.Equal(t, want, (&failure{kind: kind}).isFree(), "BILL-25 %s", kind)
	}
}

// TestTheAccountSummary has what the contract promises of it.
func TestTheAccountSummary(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) { c.Plans = []config.Plan{{Name: "starter", MonthlyCredits: 500}} })
	w := httptest.NewRecorder()
	b.ask(t, t.Context(), w, &gateway.Call{Kind: gateway.Account})
	require.JSONEq(t, fmt.Sprintf(`{"tenant":{"id":%q,"name":"acme","key_mode":"managed"},
		"credits":{"balance_credits":1000000,"reserved_credits":0,"available_credits":1000000,"monthly_allotment_credits":0,
		"current_period_end":null,"accrued_usage_microcents":0},"key":{"name":"first","last4":%q}}`,
		b.who.Account.ID, b.who.Key.Last4), w.Body.String())
	work := b.engine.Begin()
	defer work.Done()
	end := time.Date(2026, 12, 1, 0, 0, 0, 1, time.FixedZone("", 3600))
	a := summary(ledger.Account{Plan: "starter", Period: ledger.Period{End: end},
		Balance: ledger.Balance{Credits: 7, Accrued: 300_000, Held: 1}}, &gateway.Call{Work: work})
	require.EqualValues(t, 500, a.Credits.MonthlyAllotment)
	require.Equal(t, "2026-11-30T23:00:01Z", a.Credits.PeriodEnd.Format(time.RFC3339Nano), "it is over then")
	require.EqualValues(t, 7, a.Credits.Balance)
	require.EqualValues(t, 1, a.Credits.Reserved)
	require.EqualValues(t, 300_000, a.Credits.Accrued)
	require.Equal(t, end.Add(-1).UTC(), wholeSecond(end.Add(-1)))
	w = httptest.NewRecorder()
	gone := ledger.Principal{Account: ledger.Account{ID: "gone"}}
	b.ask(t, t.Context(), w, &gateway.Call{Kind: gateway.Account, Principal: gone})
	require.GreaterOrEqual(t, w.Code, 400)
}
