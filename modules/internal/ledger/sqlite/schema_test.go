package sqlite

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// Accounts of testdata/schema1.db.gz, a ledger that the fareway of commit 62ea020 wrote: ann and bob, three keys,
// top-ups, charges with fractions (req_01, req_02, req_05), a request that was free (req_03), attempts that wait for
// receipts (of req_02, req_04, and req_06, whose process died), requests that run (req_07, req_08), and a clock that
// was put back.
const (
	oldAnn = "acct_0d0e0f101112131415161718"
	oldBob = "acct_191a1b1c1d1e1f2021222324"
)

// oldLedger unpacks a ledger of testdata.
func oldLedger(t testing.TB, name string) (path string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "fareway.db")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// TestMigrationsAreWithoutGaps: each file is one of them, by its number.
func TestMigrationsAreWithoutGaps(t *testing.T) {
	t.Parallel()
	files, err := schemaFiles.ReadDir("schema")
	require.NoError(t, err)
	require.Len(t, migrations, len(files))
}

func TestMigration(t *testing.T) {
	t.Parallel()
	path := oldLedger(t, "schema1.db.gz")
	ctx := t.Context()
	_, err := OpenBooks(ctx, path)
	require.ErrorIs(t, err, ErrVersion)

	s := openStore(t, func(o *Options) { o.Path = path })
	report, err := s.Verify(ctx)
	require.NoError(t, err)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	require.EqualValues(t, 6, report.Entries)
	require.EqualValues(t, 6, report.Requests)
	require.EqualValues(t, 2, report.Holds)
	require.EqualValues(t, 5, report.Pending)

	account := func(id string) ledger.Account {
		a, err := s.Account(ctx, id)
		require.NoError(t, err)
		return a
	}
	ann := account(oldAnn)
	require.Equal(t, "ann", ann.Name)
	require.Equal(t, "pro", ann.Plan)
	require.Equal(t, ledger.Balance{Credits: 15, Held: 1_500_000, Accrued: 16_305}, ann.Balance)
	require.EqualValues(t, 16_305, ann.Period.Spent)
	require.EqualValues(t, 1_000+2_000+300+400+7+8+3*(90+45), ann.Period.Tokens)
	bob := account(oldBob)
	require.Equal(t, ledger.Suspended, bob.State)
	require.Equal(t, ledger.Balance{Credits: 7, Held: 1_000_000}, bob.Balance)
	require.Zero(t, bob.Period.Tokens, "its request was free")

	spent := map[string]int64{}
	require.NoError(t, s.Keys(ctx, "", func(k ledger.Key) error {
		spent[k.AccountName+" "+k.Name] = k.Spent
		require.Equal(t, k.Name == "phone", k.Revoked)
		return nil
	}))
	require.Equal(t, map[string]int64{"ann laptop": 16_255, "ann phone": 50, "bob laptop": 0}, spent)

	var kinds []string
	require.NoError(t, s.Entries(ctx, ledger.Query{}, func(e ledger.Entry) error {
		kinds = append(kinds, string(e.Kind)+" "+e.Request)
		require.EqualValues(t, 1, e.Format)
		require.Equal(t, e.Kind.Book(), e.Book)
		return nil
	}))
	require.Equal(t, []string{"top_up ", "top_up ", "top_up ", "charge req_01", "charge req_02", "charge req_05"}, kinds)

	_, applied, err := s.AddCredit(ctx, ledger.Credit{Account: oldAnn, Credits: 10, Reference: "invoice 1"})
	require.NoError(t, err)
	require.False(t, applied, "the reference is known")
	version, err := s.PriceVersion(ctx, "large", prices(1), prices(1))
	require.NoError(t, err)
	require.EqualValues(t, 2, version)

	// What ran goes on: one is settled as if its process still lived, the other released.
	c, err := s.Settle(ctx, ledger.Settlement{Request: "req_07", Status: 200, Reason: "ok", Results: []ledger.Result{
		{Attempt: "req_07.1", Outcome: ledger.Failed},
		{Attempt: "req_07.2", Outcome: ledger.Finished, Usage: &llm.Usage{Output: llm.Count(1_000)}},
	}})
	require.NoError(t, err)
	require.EqualValues(t, 16_666, c.Microcents)
	n, err := s.Recover(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	waiting, err := s.Waiting(ctx, "q", "", 10)
	require.NoError(t, err)
	var ids []string
	for _, w := range waiting {
		ids = append(ids, w.Attempt)
	}
	slices.Sort(ids)
	require.Equal(t, []string{"req_02.2", "req_04.2", "req_06.2"}, ids)
	c, applied, err = s.AddReceipt(ctx, "req_02.2", llm.Usage{Output: llm.Count(10)})
	require.NoError(t, err)
	require.True(t, applied)
	require.EqualValues(t, 9_234+166, c.Microcents, "9,234 and a fraction, and 166.67")
	require.False(t, c.Pending)
	closed, err := s.CloseUnproven(ctx, time.Now())
	require.NoError(t, err)
	require.EqualValues(t, 5, closed.Attempts)
	require.Zero(t, account(oldBob).Balance.Held)

	_, err = s.MakeCheckpoint(ctx)
	require.NoError(t, err)
	report, err = s.Verify(ctx)
	require.NoError(t, err)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	require.Zero(t, report.Holds+report.Pending)
}

// A migration is one transaction: a database that cannot be brought up to date stays as it is.
func TestMigrationFails(t *testing.T) {
	t.Parallel()
	path := oldLedger(t, "schema1.db.gz")
	script(t, path, `CREATE TABLE holds (n INTEGER)`) // somebody's own, in the way
	_, err := Open(Options{Path: path})
	require.ErrorContains(t, err, "migrating the ledger to schema version 2")
	script(t, path, `DROP TABLE holds`)
	s := openStore(t, func(o *Options) { o.Path = path })
	report, err := s.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
}

// testdata/schema2.db.gz is what the fareway of commit fb73260 wrote, with two checkpoints that were kept and do not
// know the audit trail.
func TestMigrationOfCheckpoints(t *testing.T) {
	t.Parallel()
	var kept []ledger.Checkpoint
	require.NoError(t, json.Unmarshal([]byte(`[{"n":1,"entries":2,"time":"2026-01-31T12:00:06.000000123Z",
		"prev":"0000000000000000000000000000000000000000000000000000000000000000",
		"hash":"05ee608e8b371fadff22e1312206f73717058a3a46fb26ea9e35d7bb5a98ea5b"},
		{"n":2,"entries":3,"time":"2026-01-31T12:00:09.000000123Z",
		"prev":"05ee608e8b371fadff22e1312206f73717058a3a46fb26ea9e35d7bb5a98ea5b",
		"hash":"293eeb24607351d8024f71b23f1de7a75fcb6726f1475bd350b97970f3909218"}]`), &kept))
	s := openStore(t, func(o *Options) { o.Path = oldLedger(t, "schema2.db.gz") })
	verify := func(kept ...ledger.Checkpoint) ledger.Report {
		r, err := s.Verify(t.Context(), kept...)
		require.NoError(t, err)
		return r
	}
	require.Empty(t, verify(kept...).Problem)
	made, err := s.MakeCheckpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{3, 3, 4}, []int64{made.Format, made.N, made.Entries})
	require.NotZero(t, made.Acts)
	r := verify(append(kept, made)...)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.EqualValues(t, 3, r.Checkpoints)
	kept[0].Hash[0]++
	require.Equal(t, "checkpoint/1", verify(kept...).Entry)
}

// testdata/schema3.db.gz is what the fareway of commit b619b61 wrote when everything had happened (see
// scene.everything).
func TestMigrationOfBalances(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	now := newScene(t, "")
	now.earlier()
	terms := now.store.opts.Terms
	s := openStore(t, func(o *Options) {
		o.Path, o.Terms, o.Now = oldLedger(t, "schema3.db.gz"), terms, now.store.opts.Now
	})
	report, err := s.Verify(ctx)
	require.NoError(t, err)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	want, err := now.store.Verify(ctx)
	require.NoError(t, err)
	want.Entries = 19 // nothing made an entry then that moved nothing
	require.Equal(t, want, report)

	listed := func(s *Store) (all []ledger.Account) {
		require.NoError(t, s.Accounts(ctx, func(a ledger.Account) error {
			a.ID = ""
			all = append(all, a)
			return nil
		}))
		return all
	}
	require.Equal(t, listed(now.store), listed(s))
	spent := func(s *Store) (all []int64) {
		require.NoError(t, s.Keys(ctx, "", func(k ledger.Key) error {
			all = append(all, k.Spent)
			return nil
		}))
		return all
	}
	require.Equal(t, spent(now.store), spent(s))

	before := listed(s)
	now.credits = 5
	require.Equal(t, before, listed(s), "GAP-118 an upgrade moves no money: periods that had begun go on as they were")
	now.now = now.now.AddDate(0, 1, 0)
	for i, a := range listed(s) {
		if a.Plan != "" {
			require.EqualValues(t, 5_000_000, a.Balance.Net()-before[i].Balance.Net())
		}
	}

	n, err := s.Recover(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "what ran is released")
	report, err = s.Verify(ctx)
	require.NoError(t, err)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	for _, a := range listed(s) {
		require.Zero(t, a.Balance.Held)
	}
}

// testdata/schema4.db.gz is what the fareway of commit aa0c77d wrote when everything had happened (see scene.earlier),
// with two checkpoints that were kept. It goes on: old entries, acts and charges are verified by their rules, and new
// ones continue them.
func TestMigrationOfFormats(t *testing.T) {
	t.Parallel()
	var kept []ledger.Checkpoint
	require.NoError(t, json.Unmarshal([]byte(`[{"n":1,"entries":3,"acts":5,
		"trail":"ecbc97117240426aa8dacbdbd282a46d1aa2b2db28fe8e8618da8e5b9c1d5b1c","time":"2026-02-01T12:00:10.000000123Z",
		"prev":"0000000000000000000000000000000000000000000000000000000000000000",
		"hash":"3c79ddfb44dc6c572d2a9507e14ca7de37568195958594191dbcc3dee71cdbfc","format":2},
		{"n":2,"entries":17,"acts":12,
		"trail":"4d897f1ce62ad31f3d61c45576f446d6e52652760e83813f88173afe5bec4314","time":"2026-04-01T12:00:48.000000123Z",
		"prev":"3c79ddfb44dc6c572d2a9507e14ca7de37568195958594191dbcc3dee71cdbfc",
		"hash":"77602e82cc5e2d5ea167923a60e2f28602b80927c73002c05ecee725958c1a38","format":2}]`), &kept))
	now := newScene(t, "")
	now.earlier()
	require.NoError(t, now.store.Close())
	path := oldLedger(t, "schema4.db.gz")
	s := newScene(t, path)
	s.now = now.now
	ctx := t.Context()
	verify := func(kept ...ledger.Checkpoint) ledger.Report {
		r, err := s.store.Verify(ctx, kept...)
		require.NoError(t, err)
		return r
	}
	r := verify(kept...)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.Equal(t, []int64{19, 14, 2, 1, 2}, []int64{r.Entries, r.Requests, r.Holds, r.Pending, r.Checkpoints})
	old, err := s.store.Request(ctx, "r03-charged")
	require.NoError(t, err)
	require.Greater(t, old.Microcents, old.Held, "charges of before were not bounded by their hold")
	require.Zero(t, old.Over)

	// What ran and what waited then goes on.
	main, err := s.store.Account(ctx, "main")
	require.NoError(t, err)
	s.owner = main.ID
	c := s.settle("r16-runs", nil, used(10_000, 20_000), nil)
	require.Equal(t, []any{int64(20_000), true}, []any{c.Microcents, c.Pending}, "bounded by the hold of before")
	require.NotZero(t, c.Over)
	c = s.receipt("r16-runs", 2, used(1_000, 2_000))
	require.Zero(t, c.Added, "an attempt that does not say what it may cost, by what is left of its request's hold")
	require.NotZero(t, c.OverAdded)
	n, err := s.store.Recover(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	s.receipt("r14-waiting", 2, used(7, 8))
	s.correct(ledger.Correction{Request: "r04-plain", Microcents: 1, Reason: "sorry"})
	s.later()
	kept = append(kept, s.checkpoint())
	require.EqualValues(t, 3, kept[2].Format)
	r = verify(kept...)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)

	var formats, acts []int64
	numbers := map[int64]int64{}
	require.NoError(t, s.store.Entries(ctx, ledger.Query{Account: main.ID}, func(e ledger.Entry) error {
		require.EqualValues(t, len(formats)+1, e.Seq, "one chain, of all formats")
		formats = append(formats, e.Format)
		if e.N > 0 {
			numbers[e.Format]++
		}
		return nil
	}))
	require.True(t, slices.IsSorted(formats))
	require.EqualValues(t, 2, formats[0])
	require.EqualValues(t, ledger.EntryFormat, formats[len(formats)-1])
	require.Len(t, numbers, 1, "those of before have a number across accounts")
	_, err = s.store.RenameAccount(s.tick(), main.ID, "renamed")
	require.NoError(t, err)
	require.NoError(t, s.store.Audit(ctx, ledger.Query{Account: main.ID}, func(a ledger.Act) error {
		require.EqualValues(t, len(acts)+1, a.Seq)
		acts = append(acts, a.Format)
		return nil
	}))
	require.EqualValues(t, 1, acts[0])
	require.EqualValues(t, 2, acts[len(acts)-1])
	r = verify(kept...)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	kept[0].Trail[0]++
	require.Equal(t, "checkpoint/1", verify(kept...).Entry)
}

// What old entries could not say, they do not say: nothing of it is in their hash.
func TestOldEntriesSayNothingNew(t *testing.T) {
	t.Parallel()
	path := oldLedger(t, "schema4.db.gz")
	require.NoError(t, newScene(t, path).store.Close())
	conn := openForWriting(t, path)
	require.NoError(t, run(conn, `DROP TRIGGER entries_stay`, nil))
	for _, change := range []string{"waived = 1", "over = 1", "tokens = 1", "detail = randomblob(32)"} {
		require.NoError(t, run(conn, `BEGIN`, nil))
		require.NoError(t, run(conn, `UPDATE entries SET `+change+` WHERE n = 4`, nil))
		r, err := verify(conn, nil, nil)
		require.NoError(t, err)
		require.Equal(t, "it says what no entry before format 3 does", r.Problem, change)
		require.NoError(t, run(conn, `ROLLBACK`, nil))
	}
}

// testdata/schema6.db.gz is what the fareway of commit d931983 wrote when everything had happened (see
// scene.everything): what came later to a request is found by the new index, too.
func TestMigrationOfLaterEntries(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	now := newScene(t, "")
	now.earlier()
	now.later()
	now.checkpoint()
	s := openStore(t, func(o *Options) {
		o.Path, o.Now = oldLedger(t, "schema6.db.gz"), now.store.opts.Now
	})
	want, err := now.store.Verify(ctx)
	require.NoError(t, err)
	report, err := s.Verify(ctx)
	require.NoError(t, err)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	require.Equal(t, want, report)
	later := map[ledger.EntryKind]int{}
	require.NoError(t, now.store.Entries(ctx, ledger.Query{}, func(e ledger.Entry) error {
		if e.Request == "" {
			return nil
		}
		r, err := s.Request(ctx, e.Request)
		if _, gone := now.store.Request(ctx, e.Request); gone != nil {
			require.ErrorIs(t, err, ledger.ErrNotFound, "its detail was pruned")
			return nil
		}
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(r.Entries, func(old ledger.Entry) bool {
			return old.Kind == e.Kind && old.Seq == e.Seq && old.Microcents == e.Microcents
		}), "%s of %s", e.Kind, e.Request)
		later[e.Kind]++
		return nil
	}))
	require.Positive(t, later[ledger.Receipt])
	require.Positive(t, later[ledger.Closing])
	require.Positive(t, later[ledger.Refund])
}

// testdata/schema14.db.gz is what the fareway of commit f4acf62 wrote when everything had happened: fair use left free
// what fitted as a whole, and nothing of what did not.
func TestMigrationOfFairUse(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	now := newScene(t, "")
	now.earlier()
	now.later()
	now.attemptless()
	kept := now.checkpoint()
	path := oldLedger(t, "schema14.db.gz")
	s := newScene(t, path)
	s.now = now.now
	want, err := now.store.Verify(ctx)
	require.NoError(t, err)
	report, err := s.store.Verify(ctx)
	require.NoError(t, err)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	want.Witnessed = report.Witnessed
	require.Equal(t, want, report, "GAP-135 charges of before are verified by their old rule")
	require.EqualValues(t, 3, kept.N)
	old, err := s.store.Request(ctx, "r09-limit")
	require.NoError(t, err)
	require.Zero(t, old.Waived)
	main, err := s.store.Account(ctx, "main")
	require.NoError(t, err)
	require.Less(t, main.Period.Waived, int64(1_000), "it did not fit as a whole, and something was left")

	third, err := s.store.Account(ctx, "third")
	require.NoError(t, err)
	s.owner = third.ID
	require.NoError(t, s.store.Keys(ctx, third.ID, func(k ledger.Key) error {
		s.key = k.ID
		return nil
	}))
	s.inPart()
	s.checkpoint()
	report, err = s.store.Verify(ctx)
	require.NoError(t, err)
	require.True(t, report.OK, "%s: %s", report.Entry, report.Problem)
	formats := map[int64]bool{}
	require.NoError(t, s.store.Entries(ctx, ledger.Query{Account: third.ID}, func(e ledger.Entry) error {
		formats[e.Format] = true
		return nil
	}))
	require.Equal(t, map[int64]bool{4: true, 5: true}, formats)
}
