package ledgertest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testAudit(t *testing.T, open Open) {
	f := newFixture(t, open, 10, ledger.Terms{MonthlyCredits: 5})
	ctx := ledger.WithActor(soon(t), "mary")
	spendCap, name := int64(900), "server"
	expires := f.clock.now().AddDate(0, 0, 1).UTC()
	charged := f.hold("unit", 100)
	f.settle(ok(charged, usage(0, 100)))
	old := f.account.Name

	// Each act says what it changed: the values that it had before, and those that it has after.
	for _, act := range []struct {
		action        string // "" when its name is the store's own affair
		do            func() (subject string, err error)
		before, after []any
	}{
		{"account.set_state", func() (string, error) {
			_, err := f.store.SetState(ctx, f.account.ID, ledger.Suspended)
			return f.account.ID, err
		}, []any{"active"}, []any{"suspended"}},
		{"", func() (string, error) {
			_, err := f.store.RenameAccount(ctx, f.account.ID, "renamed")
			return f.account.ID, err
		}, []any{old}, []any{"renamed"}},
		{"", func() (string, error) {
			_, err := f.store.SetPlan(ctx, f.account.ID, "pro")
			return f.account.ID, err
		}, []any{"starter"}, []any{"pro"}},
		{"account.set_limit", func() (string, error) {
			_, err := f.store.SetLimit(ctx, f.account.ID, ledger.LimitTokenBudget, new(int64(77)))
			return f.account.ID, err
		}, []any{nil}, []any{77.0}},
		{"account.set_limit", func() (string, error) {
			_, err := f.store.SetLimit(ctx, f.account.ID, ledger.LimitTokenBudget, nil)
			return f.account.ID, err
		}, []any{77.0}, []any{nil}},
		{"account.set_profile", func() (string, error) {
			_, err := f.store.SetProfile(ctx, f.account.ID, "max")
			return f.account.ID, err
		}, []any{""}, []any{"max"}},
		{"account.set_requires", func() (string, error) {
			_, err := f.store.SetRequires(ctx, f.account.ID, ledger.RequiresChange{Regions: &[]string{"eu", "ch"}})
			return f.account.ID, err
		}, []any{""}, []any{"ch,eu", ""}},
		{"account.set_requires", func() (string, error) {
			_, err := f.store.SetRequires(ctx, f.account.ID, ledger.RequiresChange{Retention: new("none")})
			return f.account.ID, err
		}, []any{"ch,eu", ""}, []any{"ch,eu", "none"}},
		{"account.set_mail", func() (string, error) {
			_, err := f.store.SetMail(ctx, f.account.ID, []string{"ann@example.com", "bob@example.net"})
			return f.account.ID, err
		}, []any{""}, []any{"a***@example.com,b***@example.net"}},
		{"key.create", func() (string, error) {
			k, err := f.store.CreateKey(ctx, f.account.ID, "ci", hashOf("ci"), "wxyz", ledger.KeyChange{SpendCap: &spendCap})
			return k.ID, err
		}, nil, []any{"ci", 900.0}},
		{"", func() (string, error) {
			_, err := f.store.ChangeKey(ctx, f.key.ID, ledger.KeyChange{Name: &name, SpendCap: &spendCap, Expires: &expires})
			return f.key.ID, err
		}, []any{"laptop"}, []any{"server", 900.0}},
		{"", func() (string, error) {
			_, err := f.store.RevokeKey(ctx, f.key.ID)
			return f.key.ID, err
		}, []any{false}, []any{true}},
		{"credit.add", func() (string, error) {
			_, _, err := f.store.AddCredit(ctx, ledger.Credit{Account: f.account.ID, Credits: 3, Reference: "invoice 9",
				Reason: "paid"})
			return f.account.ID, err
		}, nil, []any{3.0, "invoice 9", "paid"}},
		{"", func() (string, error) {
			_, _, err := f.store.Correct(ctx, ledger.Correction{Account: f.account.ID, Microcents: -77, Reason: "wrong"})
			return f.account.ID, err
		}, nil, []any{-77.0, "wrong"}},
		{"", func() (string, error) {
			_, _, err := f.store.Correct(ctx, ledger.Correction{Request: charged.Request, Microcents: 40, Reason: "sorry"})
			return charged.Request, err
		}, []any{0.0}, []any{40.0, "sorry"}},
		{"spool.discard", func() (string, error) {
			return "aside_1", f.store.RecordAct(ctx, "spool.discard", f.account.ID, "aside_1", map[string]any{"reason": "seen"})
		}, nil, []any{"seen"}},
		{"", func() (string, error) {
			a, err := f.store.CreateAccount(ctx, "second", "starter")
			f.account = a
			return a.ID, err
		}, nil, []any{"second", "starter"}},
	} {
		f.clock.add(time.Second)
		already := len(f.acts(ledger.Query{}))
		account := f.account.ID
		subject, err := act.do()
		require.NoError(t, err)
		acts := f.acts(ledger.Query{})
		require.Len(t, acts, already+1, "one act, one row: %s", acts[len(acts)-1].Action)
		last := acts[already]
		require.Zero(t, last.N, "nothing is numbered across accounts")
		require.NotZero(t, last.Seq)
		require.Equal(t, "mary", last.Actor)
		require.Equal(t, subject, last.Subject)
		require.True(t, last.Created.Equal(f.clock.now()))
		if act.action != "" {
			require.Equal(t, act.action, last.Action)
		}
		if strings.HasPrefix(subject, "acct_") {
			account = subject
		}
		require.Equal(t, account, last.Account)
		contains(t, last.Action+" before", last.Before, act.before)
		contains(t, last.Action+" after", last.After, act.after)
	}

	t.Run("an act can be of no account, or of one that is gone", func(t *testing.T) {
		for _, account := range []string{"", "acct_0"} {
			require.NoError(t, f.store.RecordAct(ctx, "spool.apply", account, "aside_2", nil))
			acts := f.acts(ledger.Query{})
			require.Empty(t, acts[len(acts)-1].Account)
		}
	})

	t.Run("a rotation is on the trail", func(t *testing.T) {
		k, err := f.store.CreateKey(ctx, f.account.ID, "old", hashOf("old"), "wxyz", ledger.KeyChange{})
		require.NoError(t, err)
		already := len(f.acts(ledger.Query{}))
		fresh, _, err := f.store.RotateKey(ctx, k.ID, hashOf("fresh"), "", time.Hour)
		require.NoError(t, err)
		acts := f.acts(ledger.Query{})[already:]
		require.NotEmpty(t, acts)
		var subjects, said string
		for _, a := range acts {
			subjects += a.Subject + " "
			said += a.After
		}
		require.Contains(t, subjects+said, k.ID)
		require.Contains(t, subjects+said, fresh.ID)
		require.Contains(t, said, "old~1")
	})

	t.Run("what changed nothing leaves no trace, nor does what requests do", func(t *testing.T) {
		already := len(f.acts(ledger.Query{}))
		_, _, err := f.store.AddCredit(ctx, ledger.Credit{Account: f.account.ID})
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, err = f.store.CreateAccount(ctx, "second", "")
		require.ErrorIs(t, err, ledger.ErrExists)
		_, err = f.store.CreateKey(ctx, f.account.ID, "stolen", hashOf("ci"), "", ledger.KeyChange{})
		require.ErrorIs(t, err, ledger.ErrExists)
		_, _, err = f.store.Correct(ctx, ledger.Correction{Request: charged.Request, Microcents: 61, Reason: "r"})
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, err = f.store.SetState(ctx, "acct_0", ledger.Suspended)
		require.ErrorIs(t, err, ledger.ErrNotFound)
		require.Len(t, f.acts(ledger.Query{}), already)

		paid := ledger.Credit{Account: f.account.ID, Credits: 5, Reference: "once"}
		for range 2 {
			_, _, err = f.store.AddCredit(ctx, paid)
			require.NoError(t, err)
		}
		require.Len(t, f.acts(ledger.Query{}), already+1)
		f.key = f.newKey("worker", ledger.KeyChange{})
		f.charge(5)
		h := f.unproven("unit", nil)
		f.receipt(h.Attempt.ID, usage(0, 1))
		require.Len(t, f.acts(ledger.Query{}), already+2, "the key")
	})

	t.Run("nobody is the gateway", func(t *testing.T) {
		_, err := f.store.SetState(soon(t), f.account.ID, ledger.Inactive)
		require.NoError(t, err)
		acts := f.acts(ledger.Query{})
		require.Equal(t, "gateway", acts[len(acts)-1].Actor)
	})

	t.Run("the trail is listed by account and time", func(t *testing.T) {
		every := f.acts(ledger.Query{})
		var mine []ledger.Act
		seqs, heads := map[string]int64{}, map[string]ledger.Digest{}
		for _, a := range every {
			seqs[a.Account]++
			require.Equal(t, seqs[a.Account], a.Seq, "without gaps")
			require.Equal(t, heads[a.Account], a.Prev, "chained by account")
			heads[a.Account] = a.Hash()
			if a.Account == f.account.ID {
				require.Equal(t, "second", a.AccountName)
				mine = append(mine, a)
			}
		}
		require.Equal(t, mine, f.acts(ledger.Query{Account: f.account.ID}))
		from, to := start.Add(2*time.Second), start.Add(5*time.Second)
		var within []ledger.Act
		for _, a := range every {
			if !a.Created.Before(from) && a.Created.Before(to) {
				within = append(within, a)
			}
		}
		require.Len(t, within, 3)
		require.Equal(t, within, f.acts(ledger.Query{Since: from, Until: to}))
	})

	t.Run("no act tells a secret", func(t *testing.T) {
		for _, a := range f.acts(ledger.Query{}) {
			require.NotContains(t, a.Before+a.After, ledger.Digest(hashOf("ci")).String())
		}
	})
}

// contains checks that a JSON object has these values among its members, or that there is none.
func contains(t *testing.T, what, object string, values []any) {
	if values == nil {
		require.Empty(t, object, what)
		return
	}
	var members map[string]any
	require.NoError(t, json.Unmarshal([]byte(object), &members), "%s: %s", what, object)
	for _, v := range values {
		found := false
		for _, m := range members {
			found = found || m == v
		}
		require.True(t, found, "%s says %v: %s", what, v, object)
	}
}
