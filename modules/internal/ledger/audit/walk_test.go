package audit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

// However many look at a ledger, and from wherever they begin, they find the same. (TestWalkIsRight of package book
// has a longer one.)
func TestWalkInParts(t *testing.T) {
	t.Parallel()
	store := ledgertest.Walk(t, ledgertest.OpenMemory, 9_500)
	rows := ledgertest.TablesOf(store)
	require.Greater(t, len(rows.EntryRows), 3*audit.PartLeast)
	look := func(beside int, how ledger.Verification) ledger.Report {
		l := audit.Ledger{Rows: rows}
		for range beside {
			is := *rows
			_, err := is.Head() // each has an index of its own
			require.NoError(t, err)
			l.Beside = append(l.Beside, &is)
		}
		r, err := audit.Verify(l, how)
		require.NoError(t, err)
		return r
	}
	var done, of int64
	whole := look(0, ledger.Verification{Progress: func(d, o int64) { done, of = d, o }})
	require.True(t, whole.OK, "%s: %s", whole.Entry, whole.Problem)
	require.Equal(t, whole.Entries+whole.Requests, done)
	require.Equal(t, done, of)
	require.Equal(t, whole, look(1, ledger.Verification{}))
	require.Equal(t, whole, look(3, ledger.Verification{}))

	from := rows.CheckRows[len(rows.CheckRows)/2]
	since := look(0, ledger.Verification{From: &from, Progress: func(d, o int64) { done, of = d, o }})
	require.True(t, since.OK, "%s: %s", since.Entry, since.Problem)
	require.Equal(t, from.N, since.From)
	require.Equal(t, whole.Entries-from.Entries, since.Entries)
	require.Less(t, since.Requests, whole.Requests)
	require.Positive(t, since.Requests)
	require.Equal(t, whole.Sums, since.Sums)
	require.Equal(t, []int64{whole.Accounts, whole.Checkpoints, whole.Pending, whole.Holds},
		[]int64{since.Accounts, since.Checkpoints, since.Pending, since.Holds})
	require.Equal(t, 2*since.Entries, of)
	require.Equal(t, since.Entries+since.Requests, done)
	require.Equal(t, since, look(3, ledger.Verification{From: &from}))

	// At a border of parts, and one entry twice.
	last := len(rows.EntryRows) - 1
	for _, at := range []int{last / 3, last / 2, last} {
		was := rows.EntryRows[at]
		rows.EntryRows[at].Reason += "x"
		r := look(3, ledger.Verification{})
		require.Equal(t, "it is not what its hash was made of", r.Problem)
		require.Equal(t, look(0, ledger.Verification{}).Entry, r.Entry)
		require.True(t, r.Stopped)
		require.Equal(t, whole.Accounts, r.Accounts, "those whose entries were looked at")
		rows.EntryRows[at] = was
	}
	for at := 1; at < len(rows.EntryRows)-1; at += audit.PartLeast / 3 {
		missing := *rows
		missing.EntryRows = append(append(missing.EntryRows[:0:0], rows.EntryRows[:at]...), rows.EntryRows[at+1:]...)
		r, err := audit.Verify(audit.Ledger{Rows: &missing, Beside: []audit.Rows{&missing}}, ledger.Verification{})
		require.NoError(t, err)
		require.Contains(t, r.Problem, "is missing", at)
	}
}

// Names are compared as they are, however JSON writes them.
func TestNamesOfAnyKind(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
	store := ledgertest.OpenMemory(t, ledgertest.Options{Dir: t.TempDir(), BootID: "boot",
		Now: func() time.Time { return now }, Terms: func(string) ledger.Terms { return ledger.Terms{} }})
	ctx := context.Background()
	for _, name := range []string{`a "quoted" one`, "<b> & co", "Zoë\u2028", `back\slash`, "true", "null", "17"} {
		a, err := store.CreateAccount(ctx, name, name)
		require.NoError(t, err)
		k, err := store.CreateKey(ctx, a.ID, name, [32]byte([]byte(name + strings32)[:32]), "<&>", ledger.KeyChange{})
		require.NoError(t, err)
		_, err = store.RevokeKey(ctx, k.ID)
		require.NoError(t, err)
		_, _, err = store.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 1, Reference: name, Reason: name})
		require.NoError(t, err)
	}
	r, err := store.Verify(ctx)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.EqualValues(t, 7, r.Accounts)
}

const strings32 = "0123456789abcdef0123456789abcdef"
