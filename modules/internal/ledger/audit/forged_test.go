package audit_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/golden"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

// seal writes all hashes of a ledger anew, as somebody does who changed a row and can write the rest, and forgets the
// checkpoints, which are kept elsewhere.
func seal(t *ledgertest.Tables) {
	heads, trails := map[int64]ledger.Digest{}, map[int64]ledger.Digest{}
	var old ledger.Digest
	for i := range t.EntryRows {
		e := &t.EntryRows[i]
		e.Prev = heads[e.Number]
		e.Hash = e.Entry.Hash()
		heads[e.Number] = e.Hash
	}
	for i := range t.ActRows {
		a := &t.ActRows[i]
		if a.Prev = trails[a.Number]; a.Format == 1 {
			a.Prev = old
		}
		a.Hash = a.Act.Hash()
		trails[a.Number], old = a.Hash, a.Hash
	}
	for i := range t.AccountRows {
		a := &t.AccountRows[i]
		a.Head, a.Trail.Head = heads[a.Number], trails[a.Number]
	}
	t.Meta.Trail.Head = trails[0]
	t.CheckRows, t.Meta.Checkpoints, t.Meta.Checkpoint = nil, 0, ledger.Digest{}
}

// What an entry or an act says is compared with what it follows from, also where every hash is right. What is not seen
// then is listed, with a hash of what is said of everything else.
func TestForgedHashes(t *testing.T) {
	t.Parallel()
	for _, name := range ledgers {
		for _, table := range []string{"EntryRows", "ActRows"} {
			t.Run(name+"/"+table, func(t *testing.T) {
				t.Parallel()
				rows := tables(t, name)
				seal(rows)
				require.Empty(t, problem(t, rows))
				var unseen strings.Builder
				said := sha256.New()
				eachChange(table, reflect.ValueOf(rows).Elem().FieldByName(table), func(path, to string) {
					if strings.Contains(path, ".Hash[") || strings.Contains(path, ".Prev[") {
						return
					}
					seal(rows)
					p := problem(t, rows)
					if fmt.Fprintln(said, path, to, p); p == "" {
						fmt.Fprintln(&unseen, path, to)
					}
				})
				fmt.Fprintf(&unseen, "%x\n", said.Sum(nil))
				golden.Equal(t, filepath.Join("testdata", "forged-"+name+"-"+table+".txt"), []byte(unseen.String()))
			})
		}
	}
}

// A ledger is right only when everything was read.
func TestRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, name := range ledgers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := tables(t, name)
			for at := 0; ; at++ {
				n := 0
				rows.Fail = func() error {
					if n++; n == at+1 {
						return broken
					}
					return nil
				}
				r, err := audit.Verify(audit.Ledger{Rows: rows}, ledger.Verification{})
				if n <= at {
					require.NoError(t, err)
					require.True(t, r.OK)
					require.Greater(t, at, 50)
					return
				}
				require.ErrorIs(t, err, broken, "row %d", at)
				require.False(t, r.OK)
			}
		})
	}
}

// What is damaged in a certain way is said so.
func TestFindings(t *testing.T) {
	t.Parallel()
	rows := tables(t, "everything")
	account := func(n int64) *audit.Account {
		for i := range rows.AccountRows {
			if rows.AccountRows[i].Number == n {
				return &rows.AccountRows[i]
			}
		}
		return nil
	}
	for name, c := range map[string]struct {
		change func()
		says   string
	}{
		"GAP-118 credits that a period does not know of": {func() { account(1).Allotted = new(false) },
			"of the account does not say that it has its credits, and the journal has them"},
		"what was pruned is too much": {func() { rows.PrunedRows[0].Tokens = 1<<63 - 1 },
			"pruned: what pruned requests came to is more than any ledger can hold"},
		"what was pruned is of no key": {func() {
			rows.PrunedRows = append(rows.PrunedRows, audit.RequestSum{Key: 99})
			rows.PrunedDayRow = append(rows.PrunedDayRow, audit.RequestSum{Key: 99})
		}, "pruned: it names the key number 99, which does not exist"},
		"sums of days of another key": {func() { rows.PrunedDayRow[0].Key = 2 },
			"pruned: the sums by day of the pruned requests of key number 1 are not what they came to"},
		"no sums of days": {func() { rows.PrunedDayRow = nil },
			"pruned: the sums by day of the pruned requests of key number 1 are not what they came to"},
		"nothing was pruned": {func() { rows.PrunedRows = nil },
			"pruned: the sums by day of the pruned requests of key number 1 are not what they came to"},
		"a stray balance": {func() { rows.AccountRows = append(rows.AccountRows, audit.Account{Number: 77}) },
			"balance/77: it is of no account"},
		"days that end at another entry": {func() { rows.Meta.Summed = 1 },
			"days: they say that they go up to entry 1 of the journal, which is no settlement"},
		"days that end nowhere": {func() { rows.Meta.Summed = 1000 },
			"days: they say that they go up to entry 1000 of the journal, which is no settlement"},
		"a sum of days of no request": {func() {
			is := rows.DayRows[0]
			rows.DayRows = append(rows.DayRows, audit.Day{Day: is.Day, Key: is.Key, Route: is.Route,
				Profile: is.Profile})
		}, ": a sum of its requests is of none of them"},
		"a hold of no account, with a key that does not exist": {func() {
			h := rows.HoldRows[0]
			h.Request, h.Seq, h.AccountNumber, h.KeyNumber, h.Hold.Hold = "stray", 0, 0, 99, 0
			rows.HoldRows = append(rows.HoldRows, h)
			rows.Meta.Rows++
			rows.Meta.Marks += h.Mark(new([]byte))
		}, "stray: its key is none of its account's"},
		"more attempts": {func() { rows.Meta.Attempts++ }, "stray: there are attempts of it, and no request"},
		"a key of no account": {func() {
			rows.KeyRows = append(rows.KeyRows, audit.Key{Number: 70, AccountNumber: 70, Root: 70})
			rows.KeyRows[len(rows.KeyRows)-1].ID = "key_stray"
		}, "key_stray: the key belongs to an account that does not exist"},
	} {
		was := *rows
		was.AccountRows, was.PrunedRows = slices.Clone(rows.AccountRows), slices.Clone(rows.PrunedRows)
		was.PrunedDayRow = slices.Clone(rows.PrunedDayRow)
		c.change()
		require.Contains(t, problem(t, rows), c.says, name)
		*rows = was
	}
	require.Empty(t, problem(t, rows))
}

// What a store looks at itself comes in its turn, and what was lost is said before anything else that is missing.
func TestChecksOfAStore(t *testing.T) {
	t.Parallel()
	rows := tables(t, "everything")
	wrong := func(where string) func() error {
		return func() error { return audit.Disagree(where, "it is %s", "wrong") }
	}
	look := func(l audit.Ledger) ledger.Report {
		l.Rows = rows
		r, err := audit.Verify(l, ledger.Verification{})
		require.NoError(t, err)
		return r
	}
	storage := func(audit.Rows) error { return wrong("storage")() }
	all := audit.Ledger{Form: wrong("form"), Schema: wrong("schema"), Storage: storage,
		Loss: func() (*ledger.Loss, string, error) { return &ledger.Loss{SeenEntries: 50}, "witness", nil }}
	reason := rows.EntryRows[0].Reason
	rows.EntryRows[0].Reason += "x"
	require.Equal(t, "it is not what its hash was made of", look(all).Problem, "the first entry comes before all else")
	rows.EntryRows[0].Reason = reason
	for _, want := range []string{"form", "witness", "storage", "schema", ""} {
		r := look(all)
		require.Equal(t, want, r.Entry)
		require.Equal(t, want == "", r.OK)
		require.Equal(t, want == "form" || want == "witness" || want == "storage", r.Stopped)
		switch want {
		case "form":
			all.Form = nil
		case "witness":
			require.Contains(t, r.Problem, "a part of the ledger is missing: at least 50 movements")
			require.NotNil(t, r.Loss)
			all.Loss = func() (*ledger.Loss, string, error) { return nil, "", nil }
		case "storage":
			all.Storage = func(is audit.Rows) error {
				require.Equal(t, audit.Rows(rows), is)
				return nil
			}
		case "schema":
			all.Schema = nil
		}
	}
	broken := errors.New("broken")
	for _, l := range []audit.Ledger{
		{Form: func() error { return broken }}, {Schema: func() error { return broken }},
		{Storage: func(audit.Rows) error { return broken }},
		{Loss: func() (*ledger.Loss, string, error) { return nil, "", broken }},
	} {
		l.Rows = rows
		_, err := audit.Verify(l, ledger.Verification{})
		require.ErrorIs(t, err, broken)
	}
}

// Each column of a checkpoint that was kept elsewhere is compared.
func TestKeptCheckpoints(t *testing.T) {
	t.Parallel()
	rows := tables(t, "everything")
	for i := range rows.CheckRows {
		kept := []ledger.Checkpoint{rows.CheckRows[i]}
		eachChange("Kept", reflect.ValueOf(&kept[0]).Elem(), func(path, to string) {
			r, err := audit.Verify(audit.Ledger{Rows: rows}, ledger.Verification{Kept: kept})
			require.NoError(t, err)
			require.Equal(t, path == "Kept.Format", r.OK, "%s %s: only one without a trail has another format", path, to)
		})
		r, err := audit.Verify(audit.Ledger{Rows: rows}, ledger.Verification{Kept: kept})
		require.NoError(t, err)
		require.True(t, r.OK)
	}
}
