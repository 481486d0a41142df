package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/shared"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/plugins/llm"
)

// TestEveryEventIsLookedAt: each that the configuration knows, and no other.
func TestEveryEventIsLookedAt(t *testing.T) {
	t.Parallel()
	looked := slices.Concat(slices.Collect(maps.Keys(alertLooks)), accountEvents, []string{"alerts_undelivered"})
	slices.Sort(looked)
	known := config.AlertEventNames()
	slices.Sort(known)
	require.Equal(t, known, looked)
	for _, e := range config.AlertEvents {
		require.NotEmpty(t, e.Doc, e.Name)
		require.Contains(t, []config.AlertSeverity{config.AlertPage, config.AlertTicket}, e.Severity, e.Name)
	}
}

// looksAt are the texts of what is found of an event, by subject.
func looksAt(t *testing.T, e *Engine, event string) map[string]string {
	t.Helper()
	findings, ok := alertLooks[event](e, t.Context())
	require.True(t, ok, event)
	texts := make(map[string]string)
	for _, f := range findings {
		require.NotEmpty(t, f.Text, event)
		require.NotEmpty(t, f.Next, event)
		texts[f.Subject] = f.Text
	}
	return texts
}

// TestAlertsGoByTheStates that `status` and the metrics show.
func TestAlertsGoByTheStates(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	defer o.close(t)
	e := o.Engine
	e.alerting.close() // what looks is this test
	for event := range alertLooks {
		switch event {
		case "disk_filling", "disk_full": // as this machine has it
		case "backup_missing":
			require.Contains(t, looksAt(t, e, event)["backup"], "was never made")
		default:
			require.Empty(t, looksAt(t, e, event), event)
		}
	}

	database := filepath.Join(o.data, "fareway.db")
	require.NoError(t, chores.KeepDone(database, chores.Backup, chores.Record{}, o.turned.Now(), time.Hour))
	require.Empty(t, looksAt(t, e, "backup_missing"))
	o.Turn(2 * time.Hour)
	require.Contains(t, looksAt(t, e, "backup_missing")["backup"], "the last was at")
	require.NoError(t, chores.KeepFailed(database, chores.Trial, o.turned.Now(), errors.New("no room")))
	require.Contains(t, looksAt(t, e, "backup_failed")["trial"], "no room")

	e.NoteFailedLoad(FailedLoad{Problem: "gateway.hcl:3:1: no such block"})
	require.Contains(t, looksAt(t, e, "config_refused")[""], "gateway.hcl:3:1: no such block")

	was := e.away
	e.away = func() (bool, live.Backlog) { return true, live.Backlog{Settlements: 2} }
	require.Equal(t, "The ledger is away. 2 settlements wait in the spool for the ledger.",
		looksAt(t, e, "ledger_spooling")[""])
	e.away = func() (bool, live.Backlog) { return false, live.Backlog{Settlements: 1} }
	require.Equal(t, "1 settlement waits in the spool for the ledger.", looksAt(t, e, "ledger_spooling")[""])
	e.away = was
	ping := e.probe.ping
	e.probe.ping = func(context.Context) error { return errors.New("no such disk") }
	o.Turn(storeAskedEvery)
	require.Equal(t, "The ledger is away: no such disk.", looksAt(t, e, "ledger_spooling")[""], "nobody has asked it")
	e.probe.ping = ping
	o.Turn(storeAskedEvery)
	require.Empty(t, looksAt(t, e, "ledger_spooling"))

	_, _, err := e.settler.spool.Aside().Keep(spool.Refused, "it is no request", spool.Record{}, o.turned.Now())
	require.NoError(t, err)
	require.Contains(t, looksAt(t, e, "spool_undecided")[""], "1 item to be decided")

	until := o.turned.Now().Add(time.Hour)
	e.SetCertificates(func() []Certificate {
		return []Certificate{{Host: "ok.example", Expires: &until}, {Host: "bad.example",
			Failed: &CertificateFailure{At: o.turned.Now(), Text: "no such host"}}}
	})
	require.Len(t, looksAt(t, e, "certificate_failing"), 1)
	require.Contains(t, looksAt(t, e, "certificate_failing")["bad.example"], "no such host")
	now := o.turned.Now()
	e.metrics.WatchCertificates(func() map[string]Validity {
		return map[string]Validity{"fresh": {now.Add(-time.Hour), now.Add(time.Hour)},
			"old": {now.Add(-time.Hour), now.Add(10 * time.Minute)}, "over": {now.Add(-time.Hour), now.Add(-time.Second)}}
	})
	expiring := looksAt(t, e, "certificate_expiring")
	require.Len(t, expiring, 2)
	require.Contains(t, expiring["over"], "has expired")

	disks := e.metrics.files.disks()
	require.Contains(t, disks, "data")
	all, ok := e.findDisks(func(disk) bool { return true }, "next")
	require.True(t, ok)
	require.Len(t, all, len(disks))
}

// TestARefusedCredential is told of for as long as the upstream has not taken it again; and a process that has begun
// anew, and knows nothing of it, says nothing.
func TestARefusedCredential(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	defer o.close(t)
	k := o.Current().routes["small"].key
	seen := func() alerts.Seen {
		return o.lookAtAlerts(t.Context(), func(event string) []string {
			return map[string][]string{"provider_key": {"gone", "upstream"}}[event]
		})["provider_key"]
	}
	require.Equal(t, map[string]bool{"gone": true, "upstream": false}, seen().Examined)
	for state, text := range map[KeyState]string{KeyRefused: "The upstream refuses the credential of provider upstream.",
		KeyExhausted: "The upstream says that the quota is used up of the credential of provider upstream."} {
		k.passOver(state, time.Second, llm.Errorf(llm.ErrCredentials, "no"))
		require.Equal(t, text, looksAt(t, o.Engine, "provider_key")["upstream"])
		o.Turn(time.Hour)
		require.Equal(t, text, looksAt(t, o.Engine, "provider_key")["upstream"], "it may be tried, and is refused still")
	}
	k.noted("m", nil, nil)
	require.Empty(t, seen().Findings)
	require.Equal(t, map[string]bool{"gone": true, "upstream": true}, seen().Examined)
}

// TestACertificateThatFailed before this process began is not said to be renewed: it is when it is fresh.
func TestACertificateThatFailed(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	defer o.close(t)
	begins, expires := o.turned.Now().Add(-70*time.Hour), o.turned.Now().Add(20*time.Hour)
	renewed := o.turned.Now().Add(80 * time.Hour)
	o.SetCertificates(func() []Certificate {
		return []Certificate{{Host: "none.example"}, {Host: "old.example", Begins: begins, Expires: &expires},
			{Host: "fresh.example", Begins: begins, Expires: &renewed},
			{Host: "bad.example", Failed: &CertificateFailure{Text: "no such host"}}}
	})
	hosts := []string{"none.example", "old.example", "fresh.example", "bad.example", "gone.example"}
	seen := o.lookAtAlerts(t.Context(), func(event string) []string {
		return map[string][]string{"certificate_failing": hosts}[event]
	})["certificate_failing"]
	require.Equal(t, map[string]bool{"none.example": false, "old.example": false, "fresh.example": true,
		"bad.example": true, "gone.example": true}, seen.Examined)
	require.Len(t, seen.Findings, 1)
}

// The doubles say what servers elsewhere do.
type (
	database struct {
		shared.Store
		server ledger.Server
	}
	counter struct {
		ratelimit.Reporter
		up bool
	}
	talks struct {
		affinity.Shared
		up bool
	}
	lossy struct{ ledger.Store }
)

func (d *database) Server() ledger.Server { return d.server }

func (c *counter) Status() ratelimit.Status {
	return ratelimit.Status{Address: "redis:6379", Up: c.up, Reason: "no answer."}
}

func (b *talks) State() redisconn.State {
	return redisconn.State{Address: "redis:6380", Up: b.up, Reason: "no answer."}
}

func (lossy) Loss() *ledger.Loss { return new(ledger.Loss) }

// TestAlertsOfWhatIsElsewhere: the ledger's database and its standby, the other nodes, the limiter, the servers.
func TestAlertsOfWhatIsElsewhere(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	defer o.close(t)
	e := o.Engine
	store, limiter, sharedBook := e.store, e.limiter, e.sharedBook
	defer func() { e.nodes, e.store, e.limiter, e.sharedBook = nil, store, limiter, sharedBook }()

	d := &database{server: ledger.Server{Up: true}}
	e.nodes = &nodes{store: d}
	require.Empty(t, looksAt(t, e, "standby_away"), "there never was one")
	d.server.Needed = true
	require.Contains(t, looksAt(t, e, "standby_away")[""], "charged requests are refused")
	d.server.Needed = false
	missed := []alerts.Alert{{Event: "standby_away", Since: e.Now().Add(-standbyMissed)}}
	e.alerting.inheritStandby(missed, e.Now())
	require.Empty(t, looksAt(t, e, "standby_away"), "it was given up: the gateway was started again a day later")
	missed[0].Since = e.Now().Add(time.Minute - standbyMissed)
	e.alerting.inheritStandby(missed, e.Now())
	require.Contains(t, looksAt(t, e, "standby_away")[""], "a failover may lose charges", "an earlier process knew of one")
	d.server.Standbys = "b"
	require.Empty(t, looksAt(t, e, "standby_away"))
	d.server.Up = false
	_, ok := e.findStandbyAway(t.Context())
	require.False(t, ok, "nobody knows")

	require.Empty(t, looksAt(t, e, "nodes_differ"))
	e.nodes.drift = []string{"they are of different versions: 1 on a, 2 on b"}
	require.Contains(t, looksAt(t, e, "nodes_differ")[""], "1 on a, 2 on b")

	c := &counter{up: true}
	e.limiter = c
	require.Empty(t, looksAt(t, e, "limiter_away"))
	c.up = false
	require.Contains(t, looksAt(t, e, "limiter_away")[""], "redis:6379 is away")

	b := &talks{up: true}
	e.sharedBook = b
	require.Empty(t, looksAt(t, e, "server_away"))
	b.up = false
	require.Contains(t, looksAt(t, e, "server_away")["conversations"], "redis:6380 for conversations is away")

	require.Empty(t, looksAt(t, e, "ledger_loss"))
	e.store = lossy{store}
	require.Contains(t, looksAt(t, e, "ledger_loss")[""], "A part of the ledger is missing:")
}

// TestARouteThatIsDown: its breaker's state is told, and when it is the only one, that none serves.
func TestARouteThatIsDown(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	defer o.close(t)
	cfg := o.config()
	cfg.Breaker = config.Breaker{Failures: 3, Window: time.Minute, OpenFor: time.Hour, RetryAfter: true}
	o.load(t, cfg)
	m := o.Current().routes["small"]
	for range 20 {
		if a := m.state.Begin(o.turned.Now(), health.Call{}); a != nil {
			a.End(o.turned.Now(), health.Failed)
		}
	}
	require.Contains(t, looksAt(t, o.Engine, "route_down")["small"], "Route small is not called:")
	require.Contains(t, looksAt(t, o.Engine, "no_route")[""], "small: ")
	o.Turn(time.Hour)
	require.Empty(t, looksAt(t, o.Engine, "no_route"), "a request may try it")
	for range 20 {
		if a := m.state.Begin(o.turned.Now(), health.Call{}); a != nil {
			a.End(o.turned.Now(), health.Succeeded)
		}
	}
	for _, state := range []KeyState{KeyRefused, KeyExhausted} {
		m.key.passOver(state, time.Minute, llm.Errorf(llm.ErrCredentials, "no"))
		require.NotEqual(t, RouteServes, o.Current().RouteHealth()[0].State)
		require.Empty(t, looksAt(t, o.Engine, "no_route"), "it is called where nothing else is left: its upstream says why")
	}
}

// TestJudgeAccount: the thresholds, at their edges.
func TestJudgeAccount(t *testing.T) {
	t.Parallel()
	cfg := &config.Alerts{BalanceLow: 100, CapNear: 80}
	account := func(credits, accrued, spent, tokens int64) *ledger.Account {
		return &ledger.Account{ID: "acct_1", Name: "ann", State: ledger.Active,
			Balance: ledger.Balance{Credits: credits, Accrued: accrued}, Period: ledger.Period{Spent: spent, Tokens: tokens}}
	}
	terms := ledger.Terms{SpendCap: 1000, TokenBudget: 50}
	suspended := account(1000, 0, 0, 0)
	suspended.State = ledger.Suspended
	inactive := account(0, 0, 1000, 0)
	inactive.State = ledger.Inactive
	for name, tc := range map[string]struct {
		account   *ledger.Account
		terms     ledger.Terms
		cfg       *config.Alerts
		suspended bool
		want      []string
	}{
		"plenty":                    {account(1000, 0, 0, 0), terms, cfg, false, nil},
		"at the threshold":          {account(100, 0, 0, 0), terms, cfg, false, nil},
		"a microcent below":         {account(100, 1, 0, 0), terms, cfg, false, []string{"balance_low"}},
		"below zero":                {account(-5, 0, 0, 0), terms, cfg, false, []string{"balance_low"}},
		"no threshold":              {account(0, 0, 900, 0), terms, &config.Alerts{}, false, nil},
		"a cap reached without one": {account(0, 0, 1000, 0), terms, &config.Alerts{}, false, []string{"cap_reached"}},
		"under the cap":             {account(1000, 0, 799, 39), terms, cfg, false, nil},
		"near the cap":              {account(1000, 0, 800, 0), terms, cfg, false, []string{"cap_near"}},
		"near the budget":           {account(1000, 0, 0, 40), terms, cfg, false, []string{"cap_near"}},
		"at the cap":                {account(1000, 0, 1000, 40), terms, cfg, false, []string{"cap_reached"}},
		"no cap":                    {account(1000, 0, 1<<60, 1<<60), ledger.Terms{}, cfg, false, nil},
		"a cap of the largest size": {account(1000, 0, 1<<62, 0), ledger.Terms{SpendCap: 1<<63 - 1}, cfg, false, nil},
		"suspended by itself":       {suspended, terms, cfg, true, []string{"account_suspended"}},
		"suspended by an operator":  {suspended, terms, cfg, false, nil},
		"active again":              {account(1000, 0, 0, 0), terms, cfg, true, nil},
		"inactive":                  {inactive, terms, cfg, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := judgeAccount(tc.account, tc.terms, tc.cfg, tc.suspended, false)
			require.ElementsMatch(t, tc.want, slices.Collect(maps.Keys(found)))
			for _, f := range found {
				require.Equal(t, "acct_1", f.Subject)
				require.Equal(t, "ann", f.Name)
				require.NotEmpty(t, f.Next)
			}
		})
	}
}

// TestAccountsAreLookedAtWhenCharged, and never all of them; and while the ledger is away, nothing is forgotten.
func TestAccountsAreLookedAtWhenCharged(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	defer o.close(t)
	account, err := o.store.Account(t.Context(), o.account)
	require.NoError(t, err)
	nobody := func(string) []string { return nil }
	low := ledger.Charge{Microcents: 1, Balance: ledger.Balance{Credits: 3}}

	o.Current().NoteCharged(&account, low)
	seen := o.lookAtAccounts(t.Context(), nobody)
	require.Empty(t, seen["balance_low"].Examined, "nobody is to hear of it")

	cfg := o.config()
	cfg.Alerts = config.Alerts{BalanceLow: 1000, CapNear: 80, Webhooks: []config.Webhook{{Name: "ops",
		URL: "http://127.0.0.1:1", Timeout: time.Second, Events: []string{"ledger_loss"}}}}
	o.load(t, cfg)
	o.Current().NoteCharged(&account, low)
	o.Current().NoteRefused(&account)
	require.Empty(t, o.lookAtAccounts(t.Context(), nobody)["balance_low"].Examined, "nobody hears of accounts")
	cfg = o.config()
	cfg.Alerts = config.Alerts{BalanceLow: 1000, CapNear: 80, Webhooks: []config.Webhook{{Name: "ops",
		URL: "http://127.0.0.1:1", Timeout: time.Second, Events: []string{"balance_low", "cap_near"}}}}
	o.load(t, cfg)
	o.Current().NoteCharged(&account, ledger.Charge{Balance: ledger.Balance{Credits: 1000}})
	require.Empty(t, o.lookAtAccounts(t.Context(), nobody)["balance_low"].Examined, "it has enough, and no cap")
	capped := account
	limits, ok := capped.Limits.With(ledger.LimitSpendCap, new(int64(5)))
	require.True(t, ok)
	capped.Limits = limits
	o.Current().NoteCharged(&capped, ledger.Charge{Balance: ledger.Balance{Credits: 1000}})
	require.Len(t, o.lookAtAccounts(t.Context(), nobody)["cap_near"].Examined, 1, "it has a cap")

	o.Current().NoteRefused(&account)
	require.Len(t, o.lookAtAccounts(t.Context(), nobody)["balance_low"].Findings, 1, "it was refused")

	o.Current().NoteCharged(&account, low)
	store := o.store
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for ctx, why := range map[context.Context]error{t.Context(): ledger.ErrUnavailable, ended: ended.Err()} {
		o.store = awayStore{store, why, o.account}
		seen = o.lookAtAccounts(ctx, nobody)
		require.Empty(t, seen["balance_low"].Examined)
		require.Empty(t, seen["balance_low"].Findings)
	}
	o.store = awayStore{store, errors.New("its row is damaged"), "acct_damaged"}
	o.noteCharged("acct_damaged")
	o.noteSuspended("acct_damaged")
	seen = o.lookAtAccounts(t.Context(), nobody)
	require.Equal(t, map[string]bool{o.account: true}, seen["balance_low"].Examined, "the others are not in its way")
	require.Len(t, seen["balance_low"].Findings, 1)
	o.store = store
	require.Contains(t, seen["balance_low"].Findings[0].Text, "The balance of the account acme is 100 credits (US$1.00).")
	require.Empty(t, o.lookAtAccounts(t.Context(), nobody)["balance_low"].Examined, "once")

	// What is told of is looked at again each time; an account that is gone is over.
	known := func(event string) []string {
		if event == "balance_low" {
			return []string{o.account, "acct_gone"}
		}
		return nil
	}
	seen = o.lookAtAccounts(t.Context(), known)
	require.Equal(t, map[string]bool{o.account: true, "acct_gone": true}, seen["balance_low"].Examined)
	require.Len(t, seen["balance_low"].Findings, 1)

	o.noteSuspended(o.account)
	_, err = o.store.SetState(t.Context(), o.account, ledger.Suspended)
	require.NoError(t, err)
	seen = o.lookAtAccounts(t.Context(), nobody)
	require.Len(t, seen["account_suspended"].Findings, 1)
	seen = o.lookAtAccounts(t.Context(), func(event string) []string {
		return map[string][]string{"account_suspended": {o.account}}[event]
	})
	require.Len(t, seen["account_suspended"].Findings, 1, "as long as it is")

	// For what there is no room among the alerts comes again, as what it was.
	o.giveBackAccounts(map[string][]string{"balance_low": {o.account}, "account_suspended": {"acct_2"}})
	charged, fresh := o.takeNoted()
	require.Equal(t, []string{o.account}, charged)
	require.Equal(t, []string{"acct_2"}, fresh)

	for i := range maxNoted + 10 {
		o.Current().NoteCharged(&ledger.Account{ID: string(rune(i))}, low)
	}
	require.LessOrEqual(t, len(o.noted.charged), maxNoted)
	charged, _ = o.takeNoted()
	require.Len(t, charged, accountsAtOnce)
}

// TestOwnersWords: an account with an address has words for its owner, who knows nothing of an operator's matters; of
// the end only where its requests are taken again.
func TestOwnersWords(t *testing.T) {
	t.Parallel()
	cfg := &config.Alerts{BalanceLow: 100, CapNear: 80}
	a := &ledger.Account{ID: "acct_1", Name: "ann", State: ledger.Suspended, Balance: ledger.Balance{Credits: 42},
		Period: ledger.Period{Spent: 90, End: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}}
	terms := ledger.Terms{SpendCap: 100, TokenBudget: 50}
	for _, f := range judgeAccount(a, terms, cfg, true, false) {
		require.Nil(t, f.Owner, "it has no address")
	}
	require.Empty(t, wordsOfEnd(a))
	a.Mail = []string{"ann@example.com"}
	found := judgeAccount(a, terms, cfg, true, false)
	a.Period.Spent = 100
	found["cap_reached"] = judgeAccount(a, terms, cfg, true, false)["cap_reached"]
	// What became of a top-up, the part that looks after payments says.
	require.ElementsMatch(t, config.AccountEventNames(), append(slices.Collect(maps.Keys(found)), topUpFailedEvent))
	all := fmt.Sprint(*found["balance_low"].Owner, *found["cap_near"].Owner, *found["cap_reached"].Owner,
		*found["account_suspended"].Owner)
	require.Contains(t, all, "The balance of your account ann is 42 credits (US$0.42). When it is used up, requests are "+
		"refused.")
	require.Contains(t, all, "has used 90 % of its spend cap for the period that ends on Tue, 01 Dec 2026")
	require.Contains(t, all, "Your account ann has reached its limit")
	require.Contains(t, all, "somebody else may have one of your keys")
	for _, foreign := range []string{"fareway", "`", "acct_1", "@", "provider", "route", "upstream", "NAME"} {
		require.NotContains(t, all, foreign)
	}
	a.Balance.Held = a.Balance.Credits * ledger.MicrocentsPerCredit
	require.Equal(t, "Your account ann has no credits left",
		judgeAccount(a, terms, cfg, true, false)["balance_low"].Owner.Title)
	require.Empty(t, wordsOfEnd(a), "it is suspended")
	a.State = ledger.Active
	require.Equal(t, []string{"account_suspended", "cap_reached"}, slices.Sorted(maps.Keys(wordsOfEnd(a))))

	// A balance is low until it is a tenth above the threshold.
	for credits, isLow := range map[int64][2]bool{99: {true, true}, 100: {false, true}, 109: {false, true},
		110: {false, false}} {
		a.Balance = ledger.Balance{Credits: credits}
		for i, was := range []bool{false, true} {
			_, is := judgeAccount(a, terms, cfg, false, was)["balance_low"]
			require.Equal(t, isLow[i], is, "%d credits, low before: %v", credits, was)
		}
	}
}

// TestAccountsTakeTurns: of many that are told of, each is looked at.
func TestAccountsTakeTurns(t *testing.T) {
	t.Parallel()
	var told []string
	for i := range 450 {
		told = append(told, fmt.Sprintf("acct_%03d", i))
	}
	var a alerting
	seen := make(map[string]bool)
	for range 3 {
		ids := a.inTurn(slices.Clone(told))
		require.Len(t, ids, knownAtOnce)
		for _, id := range ids {
			seen[id] = true
		}
	}
	require.Len(t, seen, len(told))
	require.Equal(t, told[:10], a.inTurn(told[:10]))
}

// awayStore is one that says why instead of an account.
type awayStore struct {
	ledger.Store
	why     error
	account string
}

func (s awayStore) Account(ctx context.Context, id string) (ledger.Account, error) {
	if id == s.account {
		return ledger.Account{}, s.why
	}
	return s.Store.Account(ctx, id)
}

// TestAlertMetrics: what is raised is seen by the metrics alone.
func TestAlertMetrics(t *testing.T) {
	t.Parallel()
	c := newAlertCollector()
	require.Empty(t, gathered(t, c))
	since := time.Now()
	c.standing = func() alerts.Standing {
		return alerts.Standing{Alerts: []alerts.Alert{{Event: "balance_low"}, {Event: "balance_low"}},
			Beyond: map[string]int{"balance_low": 3},
			Destinations: []alerts.Destination{{Key: "webhook ops", Waiting: 2, Failing: &since},
				{Key: "mail ops", Disabled: &alerts.Disabled{}}, {Key: "mail well"}}}
	}
	values := gathered(t, c)
	require.InDelta(t, 5, values["fareway_alerts_raised balance_low"], 0)
	require.InDelta(t, 0, values["fareway_alerts_raised disk_full"], 0)
	require.InDelta(t, 2, values["fareway_alerts_waiting webhook ops"], 0)
	require.InDelta(t, 1, values["fareway_alerts_failing webhook ops"], 0)
	require.InDelta(t, 1, values["fareway_alerts_failing mail ops"], 0)
	require.InDelta(t, 0, values["fareway_alerts_failing mail well"], 0)
}
