package book_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

func TestMovements(t *testing.T) {
	t.Parallel()
	a := rich(t)
	credit := func(credits int64) *ledger.Credit {
		return &ledger.Credit{Account: a.ID, Credits: credits, Reference: "inv", Reason: "paid"}
	}
	for _, c := range []struct {
		credit *ledger.Credit
		says   string
	}{
		{credit(0), "a top-up has 1 to 1000000000 credits"},
		{credit(ledger.MaxTopUp + 1), "a top-up has 1 to 1000000000 credits"},
		{&ledger.Credit{Credits: 1, Reference: "\n"},
			"a reference has to be UTF-8 without control characters, of at most 256 bytes"},
		{&ledger.Credit{Credits: 1, Reason: strings.Repeat("x", 257)}, "a reason has to be UTF-8"},
	} {
		err := book.CheckCredit(c.credit)
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.ErrorContains(t, err, c.says)
	}
	require.NoError(t, book.CheckCredit(credit(ledger.MaxTopUp)))
	require.NoError(t, book.CheckCredit(&ledger.Credit{Credits: 1, Reason: strings.Repeat("x", 256)}))
	require.ErrorContains(t, book.CheckCorrection(&ledger.Correction{}), "a correction needs a reason")
	require.ErrorIs(t, book.CheckCorrection(&ledger.Correction{Reason: "\x7f"}), ledger.ErrInvalid)
	require.ErrorIs(t, book.CheckCorrection(&ledger.Correction{Reason: "r", Reference: "\xff"}), ledger.ErrInvalid)
	require.NoError(t, book.CheckCorrection(&ledger.Correction{Reason: " r"}))

	c, err := book.DecideTopUp(credit(3), a, nil, nil, mary)
	require.NoError(t, err)
	require.Equal(t, a.Head, c.Entry.Prev)
	require.Equal(t, []any{"mary", "credit.add", a.ID, "", a.Trail.Head, moment,
		`{"balance_credits":103,"credits":3,"reason":"paid","reference":"inv"}`},
		[]any{c.Acts[0].Actor, c.Acts[0].Action, c.Acts[0].Subject, c.Acts[0].Before, c.Acts[0].Prev, c.Acts[0].Created,
			c.Acts[0].After})
	require.Equal(t, book.Trail{Acts: a.Trail.Acts + 1, Head: c.Acts[0].Hash}, c.Account.Trail)
	_, err = book.DecideTopUp(credit(3), a, nil, errLost, mary)
	require.ErrorIs(t, err, errLost, "GAP-133 new money is not taken")
	seen := &book.Seen{Entry: c.Entry.Entry}
	again, err := book.DecideTopUp(credit(3), a, seen, errLost, mary)
	require.NoError(t, err, "GAP-133 and a repeated movement is none")
	require.Empty(t, again.Acts)
	require.Equal(t, a, again.Account)
	_, err = book.DecideTopUp(credit(4), a, seen, nil, mary)
	require.EqualError(t, err, `already exists with other figures: the reference "inv" is that of a movement (top_up) `+
		`of 3.000000 credits on 2026-11-20, and not of a movement (top_up) of 4.000000 credits; nothing was moved`)
	full := a
	full.Credits = ledger.MaxBalance
	_, err = book.DecideTopUp(credit(1), full, nil, nil, mary)
	require.ErrorIs(t, err, ledger.ErrInvalid)

	adjust := &ledger.Correction{Account: a.ID, Microcents: -77, Reference: "inv", Reason: "wrong"}
	_, err = book.DecideAdjustment(adjust, a, seen, nil, mary)
	require.ErrorContains(t, err, "not of a movement (adjustment) of -0.000077 credits")
	_, err = book.DecideAdjustment(&ledger.Correction{}, a, nil, nil, mary)
	require.EqualError(t, err, "invalid: an adjustment of nothing")
	_, err = book.DecideAdjustment(adjust, a, nil, errLost, mary)
	require.ErrorIs(t, err, errLost)
	c, err = book.DecideAdjustment(adjust, a, nil, nil, mary)
	require.NoError(t, err)
	require.Equal(t, []any{ledger.Adjustment, int64(-77), "credit.adjust"},
		[]any{c.Entry.Kind, c.Entry.Microcents, c.Acts[0].Action})
	again, err = book.DecideAdjustment(adjust, a, &book.Seen{Entry: c.Entry.Entry}, nil, mary)
	require.NoError(t, err)
	require.Empty(t, again.Acts)
}

func TestRefunds(t *testing.T) {
	t.Parallel()
	a := rich(t)
	r := &book.Request{ID: "r", Account: a.ID, Charge: 50, Refunded: 10}
	refund := &ledger.Correction{Request: "r", Microcents: 15, Reference: "slip", Reason: "sorry"}
	require.ErrorContains(t, book.CheckRefund(refund, nil, true), `request "r" is running; refund it when it has ended`)
	require.ErrorIs(t, book.CheckRefund(refund, nil, false), ledger.ErrNotFound)
	require.NoError(t, book.CheckRefund(refund, r, false))
	for account, err := range map[string]error{a.ID: nil, "acct_2": ledger.ErrNotFound} {
		c := *refund
		c.Account = account
		require.ErrorIs(t, book.CheckRefund(&c, r, false), err)
	}
	c, err := book.DecideRefund(refund, a, r, nil, nil, mary)
	require.NoError(t, err)
	require.EqualValues(t, 25, c.Refunded)
	require.Equal(t, []any{ledger.Refund, "r", int64(15), `{"refunded_microcents":10}`,
		`{"balance_credits":101,"reason":"sorry","reference":"slip","refunded_microcents":25}`},
		[]any{c.Entry.Kind, c.Entry.Request, c.Entry.Microcents, c.Acts[0].Before, c.Acts[0].After})
	_, err = book.DecideRefund(refund, a, r, nil, errLost, mary)
	require.ErrorIs(t, err, errLost)
	for _, amount := range []int64{-1, 41} {
		_, err = book.DecideRefund(&ledger.Correction{Request: "r", Microcents: amount}, a, r, nil, nil, mary)
		require.ErrorContains(t, err, `microcents of request "r", which has 40 left to refund`)
	}
	all, err := book.DecideRefund(&ledger.Correction{Request: "r"}, a, r, nil, nil, mary)
	require.NoError(t, err)
	require.EqualValues(t, 40, all.Entry.Microcents)
	none := *r
	none.Refunded = 50
	_, err = book.DecideRefund(&ledger.Correction{Request: "r"}, a, &none, nil, nil, mary)
	require.ErrorIs(t, err, ledger.ErrInvalid)
	full := a
	full.Credits = ledger.MaxBalance
	_, err = book.DecideRefund(refund, full, r, nil, nil, mary)
	require.ErrorIs(t, err, ledger.ErrInvalid)

	entry := func(kind ledger.EntryKind, microcents int64, reference string) ledger.Entry {
		return ledger.Entry{Kind: kind, Request: "r", Microcents: microcents, Reference: reference, Created: moment}
	}
	whole := &ledger.Correction{Request: "r", Reference: "slip"}
	for _, c := range []struct {
		name   string
		charge int64 // with what was charged later
		later  []ledger.Entry
		all    bool // the refund "slip" was one of all that was left
	}{
		{"of the whole charge", 15, []ledger.Entry{entry(ledger.Refund, 15, "slip")}, true},
		{"of a part", 16, []ledger.Entry{entry(ledger.Refund, 15, "slip")}, false},
		{"of the rest", 20, []ledger.Entry{entry(ledger.Refund, 5, "a"), entry(ledger.Refund, 15, "slip")}, true},
		{"of a part before another", 20, []ledger.Entry{entry(ledger.Refund, 15, "slip"), entry(ledger.Refund, 5, "b")},
			false},
		{"before a receipt", 22, []ledger.Entry{entry(ledger.Refund, 15, "slip"), entry(ledger.Receipt, -7, "")}, true},
		{"behind a receipt", 22, []ledger.Entry{entry(ledger.Receipt, -7, ""), entry(ledger.Refund, 15, "slip")}, false},
		{"before a closing and another refund", 22, []ledger.Entry{entry(ledger.Refund, 15, "slip"),
			entry(ledger.Closing, -7, ""), entry(ledger.Refund, 7, "b")}, true},
	} {
		seen := &book.Seen{Entry: entry(ledger.Refund, 15, "slip"), Charge: c.charge, Later: c.later}
		again, err := book.DecideRefund(whole, a, r, seen, nil, mary)
		require.Equal(t, c.all, err == nil, c.name)
		require.Empty(t, again.Acts, c.name)
		if err != nil {
			require.ErrorContains(t, err, "and not of a refund of all that is left of request r")
			require.ErrorContains(t, err, "(refund) of 0.000015 credits for request r")
		}
		_, err = book.DecideRefund(refund, a, r, seen, nil, mary)
		require.NoError(t, err, c.name)
	}
	_, err = book.DecideRefund(refund, a, r, &book.Seen{Entry: entry(ledger.TopUp, 15, "slip")}, nil, mary)
	require.ErrorIs(t, err, ledger.ErrReference)
	other := entry(ledger.Refund, 15, "slip")
	other.Request = "s"
	_, err = book.DecideRefund(refund, a, r, &book.Seen{Entry: other}, nil, mary)
	require.ErrorIs(t, err, ledger.ErrReference)
}

func TestActs(t *testing.T) {
	t.Parallel()
	act, err := book.RecordAct(book.Trail{Acts: 4, Head: ledger.Digest{7}}, "acct_1", "spool.discard", "aside_1", nil,
		book.Fields{"reason": "seen"}, mary)
	require.NoError(t, err)
	require.Equal(t, ledger.Act{Seq: 5, Created: moment, Actor: "mary", Action: "spool.discard", Account: "acct_1",
		Subject: "aside_1", After: `{"reason":"seen"}`, Prev: ledger.Digest{7}, Format: ledger.ActFormat}, act.Act)
	require.Equal(t, book.Trail{Acts: 5, Head: act.Act.Hash()}, act.Trail())
	for _, unsayable := range [][2]book.Fields{{{"x": make(chan int)}, nil}, {nil, {"x": make(chan int)}}} {
		_, err := book.RecordAct(book.Trail{}, "", "a", "s", unsayable[0], unsayable[1], mary)
		require.ErrorContains(t, err, "writing the audit trail: json")
	}

	t.Run("GAP-133 a loss is accepted", func(t *testing.T) {
		t.Parallel()
		lost := &ledger.Loss{HasEntries: 1, SeenEntries: 2, HasActs: 3, SeenActs: 4}
		act, err := book.AcceptLoss(book.Trail{}, lost, "the disk died", mary)
		require.NoError(t, err)
		require.Equal(t, []any{"ledger.accept_loss", "ledger", "", "",
			`{"has_acts":3,"has_entries":1,"reason":"the disk died","seen_acts":4,"seen_entries":2}`},
			[]any{act.Action, act.Subject, act.Account, act.Before, act.After})
		lost.Log = &ledger.LogDamage{Byte: 5, Commits: 6}
		act, err = book.AcceptLoss(book.Trail{}, lost, "the disk died", mary)
		require.NoError(t, err)
		require.Contains(t, act.After, `"log_commits":6,"log_damaged_at":5`)
		for _, c := range []struct {
			lost         *ledger.Loss
			reason, says string
		}{
			{nil, "r", "nothing of the ledger is missing"}, {lost, "", "accepting a loss needs a reason"},
			{lost, "\n", "a reason has to be"},
		} {
			_, err := book.AcceptLoss(book.Trail{}, c.lost, c.reason, mary)
			require.ErrorIs(t, err, ledger.ErrInvalid)
			require.ErrorContains(t, err, c.says)
		}
	})
	t.Run("a pruning is said once", func(t *testing.T) {
		t.Parallel()
		act, err := book.RecordPruning(book.Trail{}, time.Time{}, moment, mary)
		require.NoError(t, err)
		require.Equal(t, []any{"ledger.prune", "", `{"settled_before":"2026-11-20T10:30:00Z"}`},
			[]any{act.Action, act.Before, act.After})
		act, err = book.RecordPruning(book.Trail{}, moment, moment.Add(1), mary)
		require.NoError(t, err)
		require.Equal(t, `{"settled_before":"2026-11-20T10:30:00Z"}`, act.Before)
		for _, before := range []time.Time{moment, moment.Add(-1)} {
			act, err := book.RecordPruning(book.Trail{}, moment, before, mary)
			require.NoError(t, err)
			require.Empty(t, act)
		}
	})
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	terms := ledger.Terms{MonthlyCredits: 3}
	none := func(string) (bool, error) { return false, nil }
	begun := func(t *testing.T) book.Account {
		t.Helper()
		a := rich(t)
		a.Plan = "pro"
		c, err := book.EndPeriods(&a, terms, moment, none)
		require.NoError(t, err)
		require.True(t, c.Began)
		return c.Account
	}
	a := begun(t)
	require.Equal(t, book.Period{Number: 0, End: moment.AddDate(0, 1, 0), Allotted: true}, a.Period)
	require.False(t, a.Overdue(terms, moment))
	require.False(t, a.Overdue(terms, a.Period.End.Add(-1)))
	require.True(t, a.Overdue(terms, a.Period.End))
	require.True(t, a.Overdue(ledger.Terms{}, moment))

	t.Run("GAP-118 each period that passed has its credits, once", func(t *testing.T) {
		t.Parallel()
		a := begun(t)
		a.Ever = book.Counters{Spent: 5, Tokens: 6, Waived: 7}
		var asked []string
		c, err := book.EndPeriods(&a, terms, moment.AddDate(0, 3, 0), func(name string) (bool, error) {
			asked = append(asked, name)
			return name == "2027-01-20T10:30:00Z", nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"2026-12-20T10:30:00Z", "2027-01-20T10:30:00Z", "2027-02-20T10:30:00Z"}, asked)
		require.Len(t, c.Entries, 2)
		require.Equal(t, []any{ledger.Allotment, "2026-12-20T10:30:00Z", "pro", int64(3_000_000), moment.AddDate(0, 3, 0)},
			[]any{c.Entries[0].Kind, c.Entries[0].Reference, c.Entries[0].Reason, c.Entries[0].Microcents,
				c.Entries[0].Created})
		require.Equal(t, c.Entries[0].Hash, c.Entries[1].Prev)
		require.EqualValues(t, 3, c.Account.Period.Number)
		require.Equal(t, a.Ever, c.Account.Before)
		require.Zero(t, c.Account.CountPeriod())
		require.Zero(t, a.Before, "what is given stays as it is")
	})
	t.Run("a balance that cannot take its credits goes without", func(t *testing.T) {
		t.Parallel()
		a := begun(t)
		a.Credits = ledger.MaxBalance
		c, err := book.EndPeriods(&a, terms, a.Period.End, none)
		require.NoError(t, err)
		require.Len(t, c.Refused, 1)
		require.ErrorIs(t, c.Refused[0], ledger.ErrInvalid)
		require.Empty(t, c.Entries)
		require.True(t, c.Account.Period.Allotted)
	})
	t.Run("what cannot be read ends nothing", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("broken")
		for _, now := range []time.Time{moment, moment.AddDate(0, 1, 0)} {
			a := begun(t)
			a.Period.Allotted = false
			c, err := book.EndPeriods(&a, terms, now, func(string) (bool, error) { return false, broken })
			require.ErrorIs(t, err, broken)
			require.Empty(t, c)
		}
	})
	t.Run("a plan that gives credits in the middle gives them to this period", func(t *testing.T) {
		t.Parallel()
		a := begun(t)
		a.Period.Allotted = false
		require.False(t, a.Overdue(ledger.Terms{Periods: true}, moment))
		require.True(t, a.Overdue(terms, moment))
		c, err := book.EndPeriods(&a, terms, moment, none)
		require.NoError(t, err)
		require.False(t, c.Began)
		require.Len(t, c.Entries, 1)
		c, err = book.EndPeriods(&a, ledger.Terms{Periods: true}, moment, none)
		require.NoError(t, err)
		require.False(t, c.Account.Period.Allotted, "nothing was there to add")
	})
	t.Run("without periods all counts for ever", func(t *testing.T) {
		t.Parallel()
		a := begun(t)
		a.Ever, a.Before = book.Counters{Spent: 5}, book.Counters{Spent: 4}
		c, err := book.EndPeriods(&a, ledger.Terms{}, moment, none)
		require.NoError(t, err)
		require.True(t, c.Began)
		require.Zero(t, c.Account.Before)
		require.Zero(t, c.Account.Period)
		l := book.Line{Cap: 9, Spent: 5, Before: 4}
		require.Equal(t, book.Line{Cap: 9, Spent: 5}, l.BeginPeriod(c.Account.Period))
		require.Equal(t, book.Line{Cap: 9, Spent: 5, Before: 5}, l.BeginPeriod(a.Period))
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	a := rich(t)
	for _, c := range []struct {
		name  string
		taken bool
		says  string
	}{
		{"", false, "invalid: an account's name is empty"}, {"acct_x", false, `like an account id, "acct_"`},
		{"\x1f", false, "an account's name has to be UTF-8"}, {"bob", true, "already exists"}, {"bob", false, ""},
	} {
		created, err := book.CreateAccount("acct_2", c.name, "pro", c.taken, mary)
		renamed, renaming := book.RenameAccount(a, c.name, c.taken, mary)
		if c.says != "" {
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, renaming, c.says)
			continue
		}
		require.NoError(t, errors.Join(err, renaming))
		require.Equal(t, []any{"account.create", "acct_2", "",
			`{"created":"2026-11-20T10:30:00Z","name":"bob","plan":"pro","state":"active"}`},
			[]any{created.Acts[0].Action, created.Acts[0].Subject, created.Acts[0].Before, created.Acts[0].After})
		require.Equal(t, []any{"bob", "account.rename", `{"name":"ann"}`, `{"name":"bob"}`}, []any{renamed.Account.Name,
			renamed.Acts[0].Action, renamed.Acts[0].Before, renamed.Acts[0].After})
	}
	_, err := book.CreateAccount("acct_2", "bob", "\n", false, mary)
	require.ErrorContains(t, err, "a plan has to be UTF-8")
	same, err := book.RenameAccount(a, "ann", true, mary)
	require.NoError(t, err)
	require.Empty(t, same.Acts)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	a := rich(t)
	five := int64(5)
	limited, err := book.SetLimit(a, ledger.LimitFairUse, &five, mary)
	require.NoError(t, err)
	for _, c := range []struct {
		name          string
		do            func(a book.Account) (book.Change, error)
		a             book.Account
		action        string // "" where nothing is to change
		before, after string
	}{
		{"plan", func(a book.Account) (book.Change, error) { return book.SetPlan(a, "pro", mary) }, a, "account.set_plan",
			`{"plan":""}`, `{"plan":"pro"}`},
		{"the same plan", func(a book.Account) (book.Change, error) { return book.SetPlan(a, "", mary) }, a, "", "", ""},
		{"state", func(a book.Account) (book.Change, error) { return book.SetState(a, ledger.Inactive, mary) }, a,
			"account.set_state", `{"state":"active"}`, `{"state":"inactive"}`},
		{"the same state", func(a book.Account) (book.Change, error) { return book.SetState(a, ledger.Active, mary) }, a, "",
			"", ""},
		{"limit", func(a book.Account) (book.Change, error) { return book.SetLimit(a, ledger.LimitFairUse, &five, mary) }, a,
			"account.set_limit", `{"fair_use_microcents":null}`, `{"fair_use_microcents":5}`},
		{"the same limit", func(a book.Account) (book.Change, error) {
			return book.SetLimit(a, ledger.LimitFairUse, new(int64(5)), mary)
		}, limited.Account, "", "", ""},
		{"another limit", func(a book.Account) (book.Change, error) {
			return book.SetLimit(a, ledger.LimitFairUse, new(int64(0)), mary)
		}, limited.Account, "account.set_limit", `{"fair_use_microcents":5}`, `{"fair_use_microcents":0}`},
		{"no limit", func(a book.Account) (book.Change, error) { return book.SetLimit(a, ledger.LimitFairUse, nil, mary) },
			limited.Account, "account.set_limit", `{"fair_use_microcents":5}`, `{"fair_use_microcents":null}`},
		{"still none", func(a book.Account) (book.Change, error) { return book.SetLimit(a, ledger.LimitFairUse, nil, mary) },
			a, "", "", ""},
		{"profile", func(a book.Account) (book.Change, error) { return book.SetProfile(a, "max", mary) }, a,
			"account.set_profile", `{"profile":""}`, `{"profile":"max"}`},
		{"the same profile", func(a book.Account) (book.Change, error) { return book.SetProfile(a, "", mary) }, a, "", "",
			""},
		{"requires", func(a book.Account) (book.Change, error) {
			return book.SetRequires(a, ledger.RequiresChange{Regions: &[]string{"eu", "ch"}, Retention: new("none")}, mary)
		}, a, "account.set_requires", `{"requires_region":"","requires_retention":""}`,
			`{"requires_region":"ch,eu","requires_retention":"none"}`},
		{"the same requirements", func(a book.Account) (book.Change, error) {
			return book.SetRequires(a, ledger.RequiresChange{Regions: &[]string{}}, mary)
		}, a, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is, err := c.do(c.a)
			require.NoError(t, err)
			if c.action == "" {
				require.Empty(t, is.Acts)
				require.Equal(t, c.a, is.Account)
				return
			}
			act := is.Acts[0]
			require.Equal(t, []any{c.action, a.ID, a.ID, c.before, c.after},
				[]any{act.Action, act.Account, act.Subject, act.Before, act.After})
			require.NotEqual(t, c.a, is.Account)
		})
	}
	for says, do := range map[string]func() (book.Change, error){
		"a plan has to be UTF-8": func() (book.Change, error) { return book.SetPlan(a, "\n", mary) },
		`state "odd"; there are active, suspended and inactive`: func() (book.Change, error) {
			return book.SetState(a, "odd", mary)
		},
		`limit "odd"; there are`: func() (book.Change, error) { return book.SetLimit(a, "odd", nil, mary) },
		"a limit of -1": func() (book.Change, error) {
			return book.SetLimit(a, ledger.LimitSpendCap, new(int64(-1)), mary)
		},
		`profile "odd"; there are`: func() (book.Change, error) { return book.SetProfile(a, "odd", mary) },
		"retention": func() (book.Change, error) {
			return book.SetRequires(a, ledger.RequiresChange{Retention: new("odd")}, mary)
		},
	} {
		c, err := do()
		require.ErrorIs(t, err, ledger.ErrInvalid)
		require.ErrorContains(t, err, says)
		require.Empty(t, c)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	a := rich(t)
	fresh := book.FreshKey{Key: ledger.Key{ID: "key_1", Account: a.ID, Name: "ci", Last4: "wxyz", SpendCap: 9},
		Hash: [32]byte{0xab, 7: 0xcd, 8: 0xff}}
	c, err := book.CreateKey(a, fresh, book.Taken{}, mary)
	require.NoError(t, err)
	require.Equal(t, `{"created":"2026-11-20T10:30:00Z","expires":"never","fingerprint":"ab000000000000cd",`+
		`"last4":"wxyz","name":"ci","spend_cap_microcents":9}`, c.Acts[0].After)
	require.Equal(t, []any{"key.create", "key_1", moment, fresh.Hash},
		[]any{c.Acts[0].Action, c.Acts[0].Subject, c.Fresh.Created, c.Fresh.Hash})
	k := c.Fresh.Key
	for says, spoil := range map[string]func(k *book.FreshKey){
		"a key's name is empty":            func(k *book.FreshKey) { k.Name = "" },
		"a key's name has to be":           func(k *book.FreshKey) { k.Name = "\t" },
		"more than four characters":        func(k *book.FreshKey) { k.Last4 = "vwxyz" },
		"a spend cap of -1 microcents":     func(k *book.FreshKey) { k.SpendCap = -1 },
		"a key that expires 1969-12-31T23": func(k *book.FreshKey) { k.Expires = time.Unix(-1, 0) },
		"a key that expires 2200-01-01T00": func(k *book.FreshKey) { k.Expires = ledger.MaxExpiry },
	} {
		key := fresh
		spoil(&key)
		_, err := book.CreateKey(a, key, book.Taken{}, mary)
		require.ErrorContains(t, err, says)
	}
	for _, taken := range []book.Taken{{Name: true}, {Hash: true}} {
		_, err := book.CreateKey(a, fresh, taken, mary)
		require.ErrorIs(t, err, ledger.ErrExists)
	}
	early := fresh
	early.Expires = time.Unix(0, 0)
	_, err = book.CreateKey(a, early, book.Taken{}, mary)
	require.NoError(t, err)

	t.Run("a change", func(t *testing.T) {
		t.Parallel()
		c, err := book.ChangeKey(a, k, ledger.KeyChange{Name: new("ci"), SpendCap: new(int64(9))}, true, mary)
		require.NoError(t, err)
		require.Empty(t, c.Acts)
		require.Equal(t, k, c.Key)
		all := ledger.KeyChange{Name: new("ops"), Expires: new(moment), SpendCap: new(int64(0))}
		c, err = book.ChangeKey(a, k, all, false, mary)
		require.NoError(t, err)
		require.Equal(t, []string{"key.change", `{"expires":"never","name":"ci","spend_cap_microcents":9}`,
			`{"expires":"2026-11-20T10:30:00Z","name":"ops","spend_cap_microcents":0}`},
			[]string{c.Acts[0].Action, c.Acts[0].Before, c.Acts[0].After})
		_, err = book.ChangeKey(a, k, ledger.KeyChange{Name: new("ops")}, true, mary)
		require.ErrorIs(t, err, ledger.ErrExists)
		_, err = book.ChangeKey(a, k, ledger.KeyChange{SpendCap: new(int64(9)), Expires: new(moment)}, true, mary)
		require.NoError(t, err, "its own name is no other's")
		_, err = book.ChangeKey(a, k, ledger.KeyChange{SpendCap: new(int64(-1))}, false, mary)
		require.ErrorIs(t, err, ledger.ErrInvalid)
	})
	t.Run("a revocation", func(t *testing.T) {
		t.Parallel()
		c, err := book.RevokeKey(a, k, mary)
		require.NoError(t, err)
		require.True(t, c.Key.Revoked)
		require.Equal(t, []string{"key.revoke", `{"revoked":false}`, `{"revoked":true}`},
			[]string{c.Acts[0].Action, c.Acts[0].Before, c.Acts[0].After})
		again, err := book.RevokeKey(c.Account, c.Key, mary)
		require.NoError(t, err)
		require.Empty(t, again.Acts)
		require.True(t, again.Key.Revoked)
	})
	t.Run("a rotation", func(t *testing.T) {
		t.Parallel()
		next := book.FreshKey{Key: ledger.Key{ID: "key_2", Last4: "abcd"}, Hash: [32]byte{1}}
		later := k
		later.Expires = moment.Add(time.Hour)
		for _, at := range []struct {
			k       ledger.Key
			overlap time.Duration
			ends    time.Time
		}{
			{k, 0, moment}, {k, time.Minute, moment.Add(time.Minute)}, {later, time.Minute, moment.Add(time.Minute)},
			{later, 2 * time.Hour, later.Expires}, {later, time.Hour, later.Expires},
		} {
			c, err := book.RotateKey(a, at.k, next, at.overlap, "ci~1", false, mary)
			require.NoError(t, err)
			require.Equal(t, []any{"key_1", "ci~1", at.ends}, []any{c.Key.ID, c.Key.Name, c.Key.Expires})
			want := at.k
			want.ID, want.Last4, want.Created = "key_2", "abcd", moment
			require.Equal(t, book.FreshKey{Key: want, Hash: next.Hash}, c.Fresh)
			require.Equal(t, []string{"key.rotate", "key.create"}, []string{c.Acts[0].Action, c.Acts[1].Action})
			require.Equal(t, c.Acts[0].Hash, c.Acts[1].Prev)
			require.Equal(t, c.Acts[1].Trail(), c.Account.Trail)
			require.Contains(t, c.Acts[0].After, `"replaced_by":"key_2"`)
		}
		gone := k
		gone.Revoked = true
		for says, do := range map[string]func() (book.Change, error){
			"an overlap of -1ns": func() (book.Change, error) { return book.RotateKey(a, k, next, -1, "ci~1", false, mary) },
			"the key has ended":  func() (book.Change, error) { return book.RotateKey(a, gone, next, 0, "ci~1", false, mary) },
			"already exists":     func() (book.Change, error) { return book.RotateKey(a, k, next, 0, "ci~1", true, mary) },
			"a key that expires": func() (book.Change, error) {
				return book.RotateKey(a, k, next, 200*365*24*time.Hour, "ci~1", false, mary)
			},
		} {
			c, err := do()
			require.ErrorContains(t, err, says)
			require.Empty(t, c)
		}
	})
	t.Run("the name of a key that was replaced", func(t *testing.T) {
		t.Parallel()
		name, err := book.RetiredName("ci", func(name string) (bool, error) { return name != "ci~12", nil })
		require.NoError(t, err)
		require.Equal(t, "ci~12", name)
		broken := errors.New("broken")
		_, err = book.RetiredName("ci", func(string) (bool, error) { return true, broken })
		require.ErrorIs(t, err, broken)
	})
}

func TestPrices(t *testing.T) {
	t.Parallel()
	dear := unit
	dear.Output++
	last := book.Price{Version: 9, Price: unit, Cost: dear}
	for _, c := range []struct {
		known       []book.Price
		price, cost config.Price
		version     int64
	}{
		{nil, unit, unit, 1}, {nil, config.Price{}, config.Price{}, 1}, {[]book.Price{last}, unit, dear, 9},
		{[]book.Price{last}, dear, dear, 10}, {[]book.Price{last}, unit, unit, 10},
		{[]book.Price{{Version: 1, Price: unit, Cost: unit}, {Version: 2, Price: dear, Cost: unit}}, unit, unit, 1},
	} {
		version, err := book.DecidePrice(c.known, c.price, c.cost)
		require.NoError(t, err)
		require.Equal(t, c.version, version)
	}
	tier := func(above, price int64) config.Tier {
		return config.Tier{Above: above, Input: price, CacheRead: 1, CacheWrite: 1, Output: 1}
	}
	for _, c := range []struct {
		bad  config.Price
		says string
	}{
		{config.Price{Output: -1}, "a negative price"},
		{config.Price{Tiers: []config.Tier{tier(5, -1)}}, "a negative price"},
		{config.Price{Tiers: []config.Tier{tier(5, 1), tier(5, 1)}}, "tiers of a price that do not rise"},
		{config.Price{Tiers: []config.Tier{tier(0, 1)}}, "tiers of a price that do not rise"},
		{config.Price{Tiers: []config.Tier{tier(9, 1), tier(5, 1)}}, "tiers of a price that do not rise"},
	} {
		for _, pair := range [][2]config.Price{{c.bad, unit}, {unit, c.bad}} {
			_, err := book.DecidePrice([]book.Price{last}, pair[0], pair[1])
			require.ErrorIs(t, err, ledger.ErrInvalid)
			require.ErrorContains(t, err, c.says)
		}
	}
	require.NoError(t, book.CheckPrice(config.Price{Tiers: []config.Tier{tier(1, 0), tier(2, 3)}}))
}
