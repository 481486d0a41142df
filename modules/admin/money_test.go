package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestAdminAccountChanges(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	made := enginetest.NewCustomer(t, e, "ann")
	var v Account
	require.NoError(t, c.Call(t.Context(), "POST", "/fareway/accounts/ann/name", NewName{"ann.smith"}, &v))
	require.Equal(t, "ann.smith", v.Name)
	require.Equal(t, made.Account.ID, v.ID)
	for _, tc := range []struct{ plan, want string }{{"starter", "starter"}, {"none", ""}} {
		require.NoError(t, c.Call(t.Context(), "POST", "/fareway/accounts/ann.smith/plan", NewPlan{tc.plan}, &v))
		require.Equal(t, tc.want, v.Plan)
	}
	require.EqualValues(t, 1000, v.BalanceCredits)
	from := v.Limits.From
	require.Equal(t, &Limits{
		Limits: config.Limits{FairUseMicrocents: 10_000_000, ConcurrentRequests: 64,
			RequestsPerMinute: config.RequestsPerMinute{Key: 600, Account: 2400, Address: 6000}},
		DefaultProfile: "balanced", From: from,
	}, v.Limits, "those of accounts without a plan")
	require.Equal(t, fromDefault, from["token_budget"])
	require.Equal(t, FromGateway, from["default_profile"])
}

func TestAdminKeyLimits(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	made := enginetest.NewCustomer(t, e, "ann")
	path := "/fareway/keys/" + made.Key.ID
	first := listOf[Key](t, c, "/fareway/keys")[0]
	require.Nil(t, first.Expires)
	require.Zero(t, first.SpendCapMicrocents)
	require.Equal(t, KeyActive, first.State)

	later := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	var v Key
	change := KeyChange{KeyLimits: KeyLimits{Expires: new(later.Format(time.RFC3339)), SpendCapCredits: new(int64(5))}}
	require.NoError(t, c.Call(t.Context(), "PATCH", path, change, &v))
	require.Equal(t, later, *v.Expires)
	require.EqualValues(t, 5_000_000, v.SpendCapMicrocents)
	require.Equal(t, "ann", v.Account)

	made.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	require.NoError(t, c.Call(t.Context(), "PATCH", path, KeyChange{Name: new("laptop")}, &v))
	require.Equal(t, "laptop", v.Name)
	require.Equal(t, later, *v.Expires, "what is not named stays")
	require.EqualValues(t, 5_000_000, v.SpendCapMicrocents)
	require.EqualValues(t, enginetest.ExampleCharge, v.SpentMicrocents)

	var rotated Rotated
	require.NoError(t, c.Call(t.Context(), "POST", path+"/rotate", Rotation{3600}, &rotated))
	require.Equal(t, "laptop", rotated.Name)
	require.NotEqual(t, made.Key.ID, rotated.ID)
	require.Equal(t, rotated.Last4, ledger.Last4(rotated.Key.Key))
	require.EqualValues(t, enginetest.ExampleCharge, rotated.SpentMicrocents, "the line goes on")
	require.Equal(t, "laptop~1", rotated.Old.Name)
	require.Equal(t, KeyActive, rotated.Old.State)
	require.Empty(t, rotated.Old.Key)
	require.WithinDuration(t, time.Now().Add(time.Hour), *rotated.Old.Expires, time.Minute)

	require.NoError(t, c.Call(t.Context(), "POST", "/fareway/keys/"+rotated.ID+"/rotate", Rotation{0}, &rotated))
	require.NotEqual(t, KeyActive, rotated.Old.State, "without an overlap it has ended")

	change = KeyChange{KeyLimits: KeyLimits{Expires: new("never"), SpendCapCredits: new(int64(0))}}
	require.NoError(t, c.Call(t.Context(), "PATCH", "/fareway/keys/"+rotated.ID, change, &v))
	require.Nil(t, v.Expires)
	require.Zero(t, v.SpendCapMicrocents)
}

// What has expired and what is past, the gateway's clock says, which is the ledger's.
func TestAdminClock(t *testing.T) {
	t.Parallel()
	var days atomic.Int64 // since the beginning of 2030
	c, e := runningAt(t, func() time.Time {
		return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0,
			int(days.Load()))
	})
	enginetest.NewCustomer(t, e, "ann")
	create := func(name, expires string) (v Key, err error) {
		err = c.Call(t.Context(), "POST", "/fareway/keys",
			NewKey{Account: "ann", Name: name, KeyLimits: KeyLimits{Expires: &expires}}, &v)
		return v, err
	}
	_, err := create("late", "2029-12-31T00:00:00Z")
	require.ErrorContains(t, err, "in the past")
	_, err = create("endless", "9999-12-31T00:00:00Z")
	require.ErrorContains(t, err, `a key expires before 2200-01-01, or "never"`)
	made, err := create("short", "2030-01-03T00:00:00Z")
	require.NoError(t, err)
	require.Equal(t, KeyActive, made.State)
	prune := func() error {
		before := Pruning{time.Date(2029, 12, 31, 0, 0, 0, 0, time.UTC)}
		return c.Call(t.Context(), "POST", "/fareway/ledger/prune", before, new(Pruned))
	}
	require.NoError(t, prune())

	days.Store(2)
	states := map[string]keyState{}
	for _, k := range listOf[Key](t, c, "/fareway/keys") {
		states[k.Name] = k.State
	}
	require.Equal(t, map[string]keyState{"first": KeyActive, "short": keyExpired}, states)
	days.Store(-300)
	require.ErrorContains(t, prune(), "in the past")
}

func TestAdminCorrections(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	made := enginetest.NewCustomer(t, e, "ann")
	made.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	ctx := t.Context()

	var v Correction
	adjustment := NewAdjustment{Account: "ann", Microcents: -1_665_000, Reason: "counted twice", Reference: "a1"}
	for _, applied := range []bool{true, false} {
		require.NoError(t, c.Call(ctx, "POST", "/fareway/adjustments", adjustment, &v))
		require.Equal(t, Correction{Account: "ann", Microcents: -1_665_000, Reference: "a1", Applied: applied,
			BalanceCredits: 997, AvailableCredits: 997}, v)
	}
	require.NoError(t, c.Call(ctx, "POST", "/fareway/refunds",
		NewRefund{Request: "req_1", Microcents: 35_000, Reason: "sorry"}, &v))
	require.EqualValues(t, 35_000, v.Microcents)
	require.Equal(t, "ann", v.Account)
	for _, applied := range []bool{true, false} {
		v = Correction{}
		require.NoError(t, c.Call(ctx, "POST", "/fareway/refunds",
			NewRefund{Request: "req_1", Reason: "sorry", Reference: "r1"}, &v))
		require.Equal(t, applied, v.Applied)
		require.EqualValues(t, 1_300_000, v.Microcents, "all that was left")
		require.EqualValues(t, 999, v.BalanceCredits)
	}
	var report ledger.Report
	require.NoError(t, c.Call(ctx, "POST", "/fareway/ledger/verify", nil, &report))
	require.True(t, report.OK, report.Problem)
}

func TestAdminMoneyRefusals(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	made := enginetest.NewCustomer(t, e, "ann")
	enginetest.NewCustomer(t, e, "bob")
	made.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	version, err := e.Store().PriceVersion(t.Context(), "deep", enginetest.ExamplePrice, enginetest.ExampleCost)
	require.NoError(t, err)
	_, err = e.Store().Hold(t.Context(), ledger.Hold{Request: "req_3", Account: made.Account.ID, Key: made.Key.ID,
		Endpoint: "chat", Profile: "max", Attempt: ledger.Attempt{ID: ledger.AttemptID("req_3", 1), Route: "deep",
			Provider: "up", Model: "deep-1", PriceVersion: version, Worst: 5_000_000}})
	require.NoError(t, err)
	key := "/fareway/keys/" + made.Key.ID
	requireRefusals(t, c, map[string]refusal{
		"rename to a taken name": {"POST", "/fareway/accounts/ann/name", NewName{"bob"}, 409, `"bob" exists already`},
		"rename to an id":        {"POST", "/fareway/accounts/ann/name", NewName{"acct_1"}, 400, "mistaken"},
		"rename nobody":          {"POST", "/fareway/accounts/nobody/name", NewName{"x"}, 404, `no account "nobody"`},
		"plan unknown": {"POST", "/fareway/accounts/ann/plan", NewPlan{"platinum"}, 400,
			"it has trial, starter"},
		"plan misspelled": {"POST", "/fareway/accounts/ann/plan", NewPlan{"startre"}, 400,
			`did you mean "starter"?`},
		"plan missing":        {"POST", "/fareway/accounts/ann/plan", NewPlan{}, 400, `plan "" is not in`},
		"plan of nobody":      {"POST", "/fareway/accounts/nobody/plan", NewPlan{"trial"}, 404, `no account "nobody"`},
		"expiry in the past":  {"PATCH", key, map[string]any{"expires": "2020-01-01T00:00:00Z"}, 400, "revoke it"},
		"expiry that is none": {"PATCH", key, map[string]any{"expires": "90d"}, 400, "RFC 3339"},
		"cap below 0":         {"PATCH", key, map[string]any{"spend_cap_credits": -1}, 400, "0 is none"},
		"cap above any balance": {"POST", "/fareway/keys",
			map[string]any{"account": "ann", "name": "x", "spend_cap_credits": ledger.MaxBalance + 1}, 400, "0 is none"},
		"nothing to change": {"PATCH", key, map[string]any{}, 400, "nothing is to change"},
		"key name bad":      {"PATCH", key, map[string]any{"name": "a~1"}, 400, "key name"},
		"key unknown": {"PATCH", "/fareway/keys/key_0", map[string]any{"name": "x"}, 404,
			"fareway gateway key list"},
		"rotation of nothing":  {"POST", "/fareway/keys/key_0/rotate", Rotation{1}, 404, "fareway gateway key list"},
		"overlap below 0":      {"POST", key + "/rotate", Rotation{-1}, 400, "overlap"},
		"overlap of two years": {"POST", key + "/rotate", Rotation{2 * 365 * 86400}, 400, "365 days"},
		"adjustment of 0": {"POST", "/fareway/adjustments", NewAdjustment{Account: "ann", Reason: "x"}, 400,
			"not 0"},
		"adjustment without reason": {"POST", "/fareway/adjustments", NewAdjustment{Account: "ann", Microcents: 1}, 400,
			"reason is missing"},
		"adjustment of too much": {"POST", "/fareway/adjustments",
			NewAdjustment{Account: "ann", Microcents: maxAdjustment + 1, Reason: "x"}, 400, "at most"},
		"adjustment of nobody": {"POST", "/fareway/adjustments",
			NewAdjustment{Account: "nobody", Microcents: 1, Reason: "x"}, 404, "no account"},
		"reason too long": {"POST", "/fareway/adjustments",
			NewAdjustment{Account: "ann", Microcents: 1, Reason: strings.Repeat("x", 201)}, 400, "200 bytes"},
		"reason of blanks": {"POST", "/fareway/adjustments",
			NewAdjustment{Account: "ann", Microcents: 1, Reason: "  "}, 400, "reason is missing"},
		"reason of two lines": {"POST", "/fareway/refunds", NewRefund{Request: "req_1", Reason: "x\ny"}, 400,
			"one line"},
		"refund of what runs": {"POST", "/fareway/refunds", NewRefund{Request: "req_3", Reason: "x"}, 409,
			"when it has ended"},
		"refund without reason": {"POST", "/fareway/refunds", NewRefund{Request: "req_1"}, 400, "reason is missing"},
		"refund of no request":  {"POST", "/fareway/refunds", NewRefund{Reason: "x"}, 400, "request is missing"},
		"refund of another": {"POST", "/fareway/refunds", NewRefund{Request: "req_2", Reason: "x"}, 404,
			`no request "req_2"`},
		"refund of too much": {"POST", "/fareway/refunds",
			NewRefund{Request: "req_1", Microcents: enginetest.ExampleCharge + 1, Reason: "x"}, 400,
			"charged 1335000 microcents, of which 0"},
		"refund below 0": {"POST", "/fareway/refunds", NewRefund{Request: "req_1", Microcents: -1, Reason: "x"},
			400, "at least 1"},
		"request unknown": {"GET", "/fareway/usage/req_2", nil, 404, "X-Request-Id"},
		"usage by something": {"GET", "/fareway/usage?by=colour", nil, 400,
			"account, key, route, profile or day"},
		"usage by day twice": {"GET", "/fareway/usage?by=day,day", nil, 400, "twice"},
		"usage of no profile": {"GET", "/fareway/usage?profile=maximum", nil, 400,
			`profile "maximum": a profile is one of budget, balanced, max`},
		"usage of nobody":    {"GET", "/fareway/usage?account=nobody", nil, 404, "no account"},
		"usage of no key":    {"GET", "/fareway/usage?key=key_0", nil, 404, "fareway gateway key list"},
		"usage of many keys": {"GET", "/fareway/usage?" + strings.Repeat("&key=first", 201), nil, 400, "200 at most"},
		"usage of another's key": {"GET", "/fareway/usage?account=bob&key=" + made.Key.ID, nil, 404,
			"the account has no key"},
		"since that is none": {"GET", "/fareway/ledger/entries?since=today", nil, 400, "RFC 3339"},
		"since after until": {"GET", "/fareway/ledger/audit?since=2026-11-20T00:00:00Z&until=2026-11-19T00:00:00Z",
			nil, 400, "not before"},
		"pruning the future": {"POST", "/fareway/ledger/prune", Pruning{time.Now().Add(time.Hour)}, 400,
			"in the past"},
		"pruning without a time": {"POST", "/fareway/ledger/prune", map[string]any{}, 400, "in the past"},
		"checkpoint that is no hash": {"POST", "/fareway/ledger/verify",
			map[string]any{"checkpoints": []any{map[string]any{"hash": "x"}}}, 400, "reading a digest"},
	})
}

func TestAdminAudit(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	made := enginetest.NewCustomer(t, e, "ann")
	require.NoError(t, c.Call(t.Context(), "POST", "/fareway/accounts/ann/state", NewState{ledger.Suspended},
		new(Account)))
	require.NoError(t, c.Call(t.Context(), "DELETE", "/fareway/keys/"+made.Key.ID, nil, new(Key)))

	acts := listOf[Act](t, c, "/fareway/ledger/audit?account=ann")
	var did []string
	for i, a := range acts {
		did = append(did, a.Action)
		by := enginetest.Operator
		if i > 2 {
			by = LocalActor() + " via socket"
		}
		require.Equal(t, by, a.Actor)
		require.Equal(t, "ann", a.Account)
		require.Equal(t, made.Account.ID, a.AccountID)
		if i > 0 {
			require.Equal(t, acts[i-1].Hash, a.Prev, "the trail is a chain")
		}
	}
	require.Equal(t, []string{"account.create", "key.create", "credit.add", "account.set_state", "key.revoke"}, did)
	require.JSONEq(t, `{"state": "active"}`, string(acts[3].Before))
	require.JSONEq(t, `{"state": "suspended"}`, string(acts[3].After))
	require.Equal(t, "null", string(acts[0].Before))
	for _, a := range acts {
		b, err := json.Marshal(a)
		require.NoError(t, err)
		require.NotContains(t, string(b), made.Text)
	}
}

func TestActor(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"ann@desk":                  "ann@desk via token",
		"":                          "unknown via token",
		"ann via socket":            "ann?via?socket via token",
		"ann\x00\n\x1b[31m":         "ann???[31m via token",
		"änn":                       "??nn via token",
		strings.Repeat("a", 10_000): strings.Repeat("a", maxActor) + " via token",
	} {
		r := httptest.NewRequest("POST", "/fareway/accounts", http.NoBody)
		r.Header[actorHeader] = []string{header}
		require.Equal(t, want, actorOf(r))
	}
	require.Regexp(t, `^[!-~]+@[!-~]+$`, LocalActor())
}

func TestMovementThatMayHaveBeenBooked(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("adding credits: %w", ledger.ErrUnavailable)
	require.ErrorIs(t, uncertain(away, "ann", ""), ledger.ErrUnavailable)
	require.ErrorContains(t, uncertain(away, "ann", ""), "`fareway gateway ledger audit --account ann`")
	require.ErrorContains(t, uncertain(away, "ann", "r1"), "it can be repeated as it is")
	require.Equal(t, ledger.ErrInvalid, uncertain(ledger.ErrInvalid, "ann", ""))
}
