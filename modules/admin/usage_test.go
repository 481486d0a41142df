package admin

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fareway/fareway/modules/internal/engine/enginetest"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

func TestAdminUsage(t *testing.T) {
	t.Parallel()
	const today = "2026-11-20"
	now := time.Date(2026, 11, 20, 23, 59, 59, 999_999_999, time.UTC)
	c, e := runningAt(t, func() time.Time { return now })
	ann, bob := enginetest.NewCustomer(t, e, "ann"), enginetest.NewCustomer(t, e, "bob")
	ann.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	ann.Settle(t, e, "req_2", enginetest.OK(), enginetest.Proven(), enginetest.Proven())
	bob.Settle(t, e, "req_3", enginetest.OK(), enginetest.Proven())
	require.NoError(t, c.Call(t.Context(), "POST", "/fareway/refunds",
		NewRefund{Request: "req_3", Microcents: 35_000, Reason: "x"}, new(Correction)))

	const cost = enginetest.ExampleCharge / 3
	all := listOf[Usage](t, c, "/fareway/usage")
	require.Len(t, all, 1, "one sum of everything")
	require.EqualValues(t, 3, all[0].Requests)
	require.EqualValues(t, 4, all[0].Attempts)
	require.EqualValues(t, 4*950, *all[0].Tokens.Input)
	require.EqualValues(t, 4*700, *all[0].Tokens.Output)
	require.Nil(t, all[0].Tokens.CacheRead, "never reported")
	require.EqualValues(t, 4*enginetest.ExampleCharge, all[0].Microcents)
	require.EqualValues(t, 35_000, all[0].Refunded)
	require.EqualValues(t, 4*cost, all[0].Cost)
	require.EqualValues(t, 4*(enginetest.ExampleCharge-cost)-35_000, all[0].Margin)

	by := listOf[Usage](t, c, "/fareway/usage?by=account,key,route,day")
	require.Len(t, by, 2)
	for _, u := range by {
		made := map[string]enginetest.Customer{"ann": ann, "bob": bob}[u.Account]
		require.Equal(t, made.Account.ID, u.AccountID)
		require.Equal(t, made.Key.ID, u.KeyID)
		require.Equal(t, "first", u.Key)
		require.Equal(t, "deep", u.Route)
		require.Equal(t, today, u.Day)
	}
	for query, charges := range map[string]int64{
		"?account=ann": 3, "?account=bob&by=key": 1, "?key=" + ann.Key.ID: 3, "?account=ann&key=first": 3, "?route=deep": 4,
		"?key=" + ann.Key.ID + "&key=" + bob.Key.ID: 4, "?by=key&key=" + ann.Key.ID + "&key=" + ann.Key.ID: 3, "?key=": 4,
		"?since=" + today + "T00:00:00Z": 4, "?since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z": 0, "?route=other": 0,
	} {
		var sum int64
		for _, u := range listOf[Usage](t, c, "/fareway/usage"+query) {
			sum += u.Microcents
		}
		require.Equal(t, charges*enginetest.ExampleCharge, sum, query)
	}
}

// The latest entries of an account, of a kind or of requests of a key, a route and a profile.
func TestAdminLatest(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	ann, bob := enginetest.NewCustomer(t, e, "ann"), enginetest.NewCustomer(t, e, "bob")
	for i := range 5 {
		ann.Settle(t, e, fmt.Sprintf("req_%d", i), enginetest.OK(), enginetest.Proven())
		require.NoError(t, c.Call(t.Context(), "POST", "/fareway/credits",
			NewCredit{Account: "ann", Credits: 1, Reference: fmt.Sprint("r", i), Reason: "x"}, new(Correction)))
	}
	for query, want := range map[string]int{
		"": 11, "&kind=charge": 5, "&kind=top_up": 6, "&kind=refund": 0, "&kind=odd": 0, "&key=" + ann.Key.ID: 5,
		"&key=" + bob.Key.ID: 0, "&key=key_none": 0, "&route=deep": 5, "&route=rare": 0, "&profile=balanced": 0,
		"&profile=max": 5, "&kind=top_up&route=deep": 0, "&status=ok&key=" + ann.Key.ID: 5, "&status=failed": 0,
	} {
		for _, limit := range []int{2, 50} {
			got := 0
			for path := fmt.Sprintf("/fareway/ledger/latest?account=ann&limit=%d%s", limit, query); path != ""; {
				var page Latest
				require.NoError(t, c.Call(t.Context(), "GET", path, nil, &page))
				require.LessOrEqual(t, len(page.Movements), limit)
				got += len(page.Movements)
				if path = ""; page.Next != "" {
					path = fmt.Sprintf("/fareway/ledger/latest?account=ann&limit=%d%s&after=%s", limit, query, page.Next)
				}
			}
			require.Equal(t, want, got, query)
		}
	}
}

// askedBooks keeps what usage it was asked for, and has one row of it.
type askedBooks struct {
	ledger.Books
	asked ledger.UsageQuery
}

// Usage implements ledger.Books.
func (b *askedBooks) Usage(_ context.Context, q ledger.UsageQuery, each func(ledger.UsageRow) error) error {
	b.asked = q
	return each(ledger.UsageRow{Profile: "max", Requests: 1})
}

// TestAdminUsageAsksForProfiles: what is asked of the API is asked of the ledger, and the profile comes back.
func TestAdminUsageAsksForProfiles(t *testing.T) {
	t.Parallel()
	books := new(askedBooks)
	api := &booksAPI{books: books}
	var rows []any
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/fareway/usage?by=profile,day&profile=max", nil)
	require.NoError(t, api.usage(r, func(v any) error {
		rows = append(rows, v)
		return nil
	}))
	by := []ledger.Dimension{ledger.ByProfile, ledger.ByDay}
	require.Equal(t, ledger.UsageQuery{Profile: "max", By: by}, books.asked)
	require.Equal(t, []any{Usage{Profile: "max", Requests: 1}}, rows)
}

// TestAdminUsageByProfile: sums by the profile that requests ran with come to the whole.
func TestAdminUsageByProfile(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	ann := enginetest.NewCustomer(t, e, "ann")
	ann.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	_, err := e.Store().Hold(t.Context(), ledger.Hold{Request: "req_2", Account: ann.Account.ID, Key: ann.Key.ID,
		Endpoint: "chat", Profile: "budget", Microcents: 5_000_000, Attempt: ledger.Attempt{
			ID: ledger.AttemptID("req_2", 1), Route: "deep", Provider: "up", Model: "deep-1", PriceVersion: 1,
			Worst: 5_000_000}})
	require.NoError(t, err)
	used := enginetest.Proven()
	used.Attempt = ledger.AttemptID("req_2", 1)
	_, err = e.Store().Settle(t.Context(), ledger.Settlement{Request: "req_2", Status: 200, Reason: "ok",
		Results: []ledger.Result{used}})
	require.NoError(t, err)
	by := listOf[Usage](t, c, "/fareway/usage?by=profile")
	require.Len(t, by, 2)
	require.Equal(t, []string{"budget", "max"}, []string{by[0].Profile, by[1].Profile})
	require.EqualValues(t, 2*enginetest.ExampleCharge, by[0].Microcents+by[1].Microcents)
	for profile, requests := range map[string]int64{"max": 1, "budget": 1, "balanced": 0} {
		var n int64
		for _, u := range listOf[Usage](t, c, "/fareway/usage?account=ann&profile="+profile) {
			n += u.Requests
		}
		require.Equal(t, requests, n, profile)
	}
}

func TestAdminRequest(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	ann := enginetest.NewCustomer(t, e, "ann")
	show := func(t *testing.T, id string) Request {
		t.Helper()
		var v Request
		require.NoError(t, c.Call(t.Context(), "GET", "/fareway/usage/"+id, nil, &v))
		require.Equal(t, "ann", v.Account)
		require.Equal(t, "first", v.Key)
		require.Equal(t, ann.Key.ID, v.KeyID)
		return v
	}

	ann.Settle(t, e, "req_1", enginetest.OK(), ledger.Result{Outcome: ledger.Failed,
		Usage: &llm.Usage{Input: llm.Count(100)}}, enginetest.Proven())
	v := show(t, "req_1")
	require.False(t, v.Running)
	require.Equal(t, 200, v.Status)
	require.Len(t, v.Attempts, 2)
	require.Equal(t, "30000000000", v.Attempts[0].Product)
	require.Equal(t, "1335000000000", v.Attempts[1].Product)
	require.Equal(t, enginetest.ExamplePrice, v.Attempts[1].Price)
	require.Equal(t, enginetest.ExampleCost, v.Attempts[1].CostPrice)
	require.EqualValues(t, 1, v.Attempts[1].PriceVersion)
	require.Equal(t, "1365000000000", v.Sum)
	require.EqualValues(t, 1_365_000, v.Divided)
	require.EqualValues(t, 1_365_000, v.Microcents)
	require.EqualValues(t, 455_000, v.Cost)
	require.EqualValues(t, 910_000, v.Margin)
	require.Len(t, v.Entries, 1)
	require.EqualValues(t, -1_365_000, v.Entries[0].Microcents)

	t.Run("BILL-33 the record of a failed request has its charge", func(t *testing.T) {
		t.Parallel()
		ann.Settle(t, e, "req_failed", ledger.Settlement{Status: 502, Reason: "upstream_error"},
			ledger.Result{Outcome: ledger.Failed, Usage: &llm.Usage{Input: llm.Count(100)}})
		v := show(t, "req_failed")
		require.Equal(t, 502, v.Status)
		require.EqualValues(t, 30_000, v.Microcents)
		require.False(t, v.Pending)

		ann.Settle(t, e, "req_unproven", ledger.Settlement{Status: 502, Reason: "upstream_error"},
			ledger.Result{Outcome: ledger.Unproven})
		v = show(t, "req_unproven")
		require.Zero(t, v.Microcents)
		require.True(t, v.Pending)

		ann.Settle(t, e, "req_free", ledger.Settlement{Status: 500, Reason: "internal_error", Free: true},
			enginetest.Proven())
		v = show(t, "req_free")
		require.True(t, v.Free)
		require.Zero(t, v.Microcents)
		require.EqualValues(t, enginetest.ExampleCharge, v.Divided, "what it would have been")
		require.Len(t, v.Entries, 1)
		require.Zero(t, v.Entries[0].Microcents)
	})
}

// TestAdminRequestShadow: the call that was made for comparison is shown with its request, and nothing of it is in
// the request's numbers.
func TestAdminRequestShadow(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	ann := enginetest.NewCustomer(t, e, "ann")
	ann.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	show := func(id string) (v Request) {
		require.NoError(t, c.Call(t.Context(), "GET", "/fareway/usage/"+id, nil, &v))
		return v
	}
	before := show("req_1")
	require.Nil(t, before.Shadow)
	used := enginetest.Proven()
	used.Operator = true
	free := enginetest.OK()
	free.Free = true
	ann.Settle(t, e, ledger.ShadowID("req_1"), free, used)
	after := show("req_1")
	require.NotNil(t, after.Shadow)
	require.Equal(t, []any{"ann", "first", "req_1-shadow", int64(0), "0", before.Cost}, []any{after.Shadow.Account,
		after.Shadow.Key, after.Shadow.ID, after.Shadow.Microcents, after.Shadow.Sum, after.Shadow.Cost})
	own := show("req_1-shadow")
	require.Nil(t, own.Shadow)
	require.Equal(t, *after.Shadow, own)
	after.Shadow = nil
	require.Equal(t, before, after)
}
