package sqlite

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
)

// verify verifies what one connection sees.
func verify(conn *sqlite.Conn, seen *extent, kept []ledger.Checkpoint) (ledger.Report, error) {
	var t traces
	if seen != nil {
		t.seen = &testimony{extent: *seen}
	}
	return verifyAs(conn, nil, t, ledger.Verification{Kept: kept})
}

func TestVerifyClean(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	kept := s.everything()
	r, err := s.store.Verify(t.Context(), kept...)
	require.NoError(t, err)
	require.Equal(t, ledger.Report{
		OK: true, Accounts: 4, Entries: 48, Requests: 23, Holds: 4, Pending: 1, Checkpoints: 3, Witnessed: true,
		Sums: map[string]int64{
			"accounts": r.Sums["accounts"], "payments": -20_000_000, "allotments": -10_000_000, "adjustments": 1_234,
			"revenue": r.Sums["revenue"],
		},
	}, r)
	require.Equal(t, 30_000_000-1_234-r.Sums["revenue"], r.Sums["accounts"], "the trial balance is zero")
}

// What an auditor reads: the first entry, request or account that disagrees, and why.
func TestVerifyNamesTheFirstThatDisagrees(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	main := v.texts(`SELECT id FROM accounts WHERE n = 1`)[0]
	for _, c := range []struct{ sql, problem string }{
		{`UPDATE entries SET reason = 'gift' WHERE n IN (5, 9)`, main + `/5: it is not what its hash was made of`},
		{`UPDATE entries SET prev = zeroblob(32) WHERE n = 7`, main + `/7: its link to the entry before it is broken`},
		{`UPDATE entries SET before = 4 WHERE n = 6`,
			main + `/6: entry 4 of the journal, which it names as the one before it, is not entry 5 of its account`},
		{`DELETE FROM entries WHERE n = 4`, main + `/5: entry 4 of the journal is missing before it, which is entry 5`},
		{`DELETE FROM entries WHERE n = 19`, `/20: entry 19 of the journal is missing before it, which is entry 20`},
		{`DELETE FROM entries`, `r03-charged: the journal has no entry 5, which the request names as its charge`},
		{`UPDATE requests SET entry = 6 WHERE id = 'r03-charged'`,
			`r03-charged: entry 6 of the journal, which the request names as its charge, is not that`},
		{`UPDATE attempts SET output = output + 1000 WHERE request = 'r04-plain'`, main + `/6: it charges `},
		{`UPDATE prices SET output = output * 2 WHERE route = 'small'`, main + `/5: it charges `},
		{`UPDATE prices SET output = output * 2 WHERE route = 'small'; UPDATE entries SET reason = 'gift' WHERE n = 6`,
			main + `/5: it charges `},
		{`UPDATE prices SET output = output * 2 WHERE route = 'small'; UPDATE entries SET reason = 'gift' WHERE n = 3`,
			main + `/3: it is not what`},
		{`UPDATE requests SET charge = charge + 1 WHERE id = 'r05-rotated'`, `r05-rotated: the request was charged `},
		{`UPDATE balances SET credits = credits + 1 WHERE n = 1`, main + `: the account has `},
		{`UPDATE holds SET hold = hold + 1 WHERE n = 25`, `holds: there are 5 attempts of running requests that hold `},
		{`DELETE FROM balances WHERE n = 1`, main + `: the account has no balance`},
		{`UPDATE balances SET n = 100 WHERE n = 3`, `: the account has no balance`},
		{`INSERT INTO balances (n, head) VALUES (100, zeroblob(32))`, `balance/100: it is of no account`},
		{`UPDATE balances SET tokens = 0 WHERE n = 1`, main + `: the account counts 0 tokens, its requests make `},
		{`UPDATE keys SET spent = spent + 1 WHERE n = 1`,
			v.texts(`SELECT id FROM keys WHERE n = 1`)[0] + `: the key and those that replaced it count `},
		{`UPDATE accounts SET state = 'suspended' WHERE n = 1`,
			main + `: its state is "suspended", the audit trail says "active"`},
		{`DELETE FROM requests WHERE id = 'r04-plain'; DELETE FROM attempts WHERE request = 'r04-plain'`,
			main + `/6: it is a charge for request "r04-plain", whose detail is missing`},
		{`DELETE FROM requests WHERE id = 'r07-free'; DELETE FROM attempts WHERE request = 'r07-free'`,
			main + `/12: it is a charge for request "r07-free", whose detail is missing`},
		{`INSERT INTO attempts (request, seq, route, provider, model, price_version, outcome, estimated, created)
			VALUES ('ghost', 1, 'small', 'p', 'm', 1, 'failed', 0, 0)`, `ghost: there are attempts of it, and no request`},
		{`UPDATE balances SET requests = requests + 1 WHERE n = 1`,
			main + `: the account counts 16 settled requests, and with those that were pruned there are 15`},
		{`DELETE FROM requests WHERE id = 'r04-plain'; DELETE FROM attempts WHERE request = 'r04-plain';
			UPDATE pruned SET requests = requests + 1, tokens = tokens + 3135, charge = charge + 3688 WHERE key = 1`,
			main + `/6: it is a charge for request "r04-plain", whose detail is missing`},
		{`UPDATE pruned SET charge = 9223372036854775807`,
			`pruned: what pruned requests came to is more than any ledger can hold`},
		{`DELETE FROM waiting`, `r23-estimated-waits: attempt 1 waits for a receipt, and is not listed`},
		{`DELETE FROM checkpoints WHERE n = 3; UPDATE meta SET checkpoints = 2, checkpoint = (SELECT hash FROM checkpoints ` +
			`WHERE n = 2)`,
			`checkpoint/3: it was kept elsewhere and the ledger does not have it`},
		{`UPDATE checkpoints SET entries = entries - 1 WHERE n = 2`,
			`checkpoint/2: it is not what the heads of the accounts make after entry `},
		{`DELETE FROM audit WHERE n = (SELECT acts FROM checkpoints WHERE n = 1)`,
			`checkpoint/1: the audit trail, of which it is over the first 5 acts, is not the one`},
		{`UPDATE checkpoints SET acts = acts - 1 WHERE n = 2`, `checkpoint/2: the audit trail, of which`},
		{`UPDATE checkpoints SET format = 1 WHERE n = 2`, `checkpoint/2: it is over `},
		{`UPDATE audit SET actor = 'nobody' WHERE n = 3`, `act/3: it is not what its hash was made of`},
		{`UPDATE prices SET version = 2 WHERE route = 'gratis'`,
			`r06-gratis: attempt 1 is to be charged at a price that does not exist, gratis@1`},
	} {
		p := v.problem(func() error {
			for _, sql := range strings.Split(c.sql, ";") {
				if err := run(v.conn, strings.TrimSpace(sql), nil); err != nil {
					return err
				}
			}
			return nil
		})
		require.Contains(t, p, c.problem, c.sql)
	}
}

// What an entry vouches for shows also where every number that follows from it was adjusted, and what no entry can
// vouch for where its sums were.
func TestVerifySeesAdjustedSums(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	v.kept = nil
	main := v.texts(`SELECT id FROM accounts WHERE n = 1`)[0]
	const live = `holds: the running requests are not those that were recorded`
	for name, c := range map[string]struct{ sql, problem string }{
		"a live hold is removed": {`UPDATE meta SET holds = holds - 2, held = held - (SELECT hold FROM holds WHERE request ` +
			`= 'r16-runs' AND seq = 1);
			DELETE FROM holds WHERE request = 'r16-runs'`, live},
		"a live hold is lowered": {`UPDATE meta SET held = held - 9; UPDATE holds SET hold = hold - 9 WHERE request = ` +
			`'r18-runs'`, live},
		"a live hold is raised": {`UPDATE meta SET held = held + 9; UPDATE holds SET hold = hold + 9 WHERE request = ` +
			`'r18-runs'`, live},
		"a live hold is another key's": {`UPDATE holds SET key = (SELECT max(n) FROM keys AS k WHERE k.account = ` +
			`holds.account AND k.n <> holds.key)
			WHERE request = 'r16-runs'`, live},
		"a live hold's names run together": {`UPDATE holds SET provider = provider || substr(model, 1, 1), model = ` +
			`substr(model, 2)
			WHERE request = 'r18-runs'`, live},
		"a settled request's hold": {`UPDATE requests SET hold = hold + 1 WHERE id = 'r04-plain'`,
			main + `/6: what is on record of request "r04-plain"`},
		"a request moved to a key of its line": {`UPDATE requests SET key = 2 WHERE id = 'r04-plain'`,
			main + `/6: what is on record`},
		"an uncharged pending request": {`DELETE FROM waiting WHERE request = 'r23-estimated-waits'; DELETE FROM attempts ` +
			`WHERE request = 'r23-estimated-waits';
			UPDATE balances SET requests = requests - 1 WHERE n = (SELECT account FROM requests WHERE id = ` +
			`'r23-estimated-waits');
			DELETE FROM requests WHERE id = 'r23-estimated-waits'`, `it is a charge for request "r23-estimated-waits", whose ` +
			`detail is missing`},
		"a pending attempt closed by hand": {`DELETE FROM waiting WHERE request = 'r23-estimated-waits';
			UPDATE attempts SET outcome = 'closed', input = 5, output = 6, estimated = 1 WHERE request = 'r23-estimated-waits';
			UPDATE requests SET pending = 0 WHERE id = 'r23-estimated-waits'`,
			`r23-estimated-waits: no entry says that its attempt 1 was closed`},
		"a receipt by hand": {`DELETE FROM waiting WHERE request = 'r23-estimated-waits';
			UPDATE attempts SET receipt = created, input = 0, output = 0 WHERE request = 'r23-estimated-waits';
			UPDATE requests SET pending = 0 WHERE id = 'r23-estimated-waits'`,
			`r23-estimated-waits: no entry says that its attempt 1 was proven by a receipt`},
		"an estimate": {`UPDATE attempts SET estimate_output = estimate_output - 1 WHERE request = ` +
			`'r23-estimated-waits'`, `what is on record`},
		"what was over": {`UPDATE requests SET over = over - 1, charge = charge + 1 WHERE id = 'r19-over'`,
			`r19-over: the request was charged`},
		"the operator's cost": {`UPDATE prices SET cost_output = cost_output + 1 WHERE route = 'small'`,
			main + `/5: what is on record of request "r03-charged"`},
		"an account's beginning": {`UPDATE accounts SET created = created - 1, period_end = NULL, period = NULL WHERE n = 2`,
			`: it was made at `},
		"a key's beginning":   {`UPDATE keys SET created = created - 1 WHERE n = 2`, `: it was made at `},
		"the last checkpoint": {`DELETE FROM checkpoints WHERE n = 3`, `checkpoint/3: the ledger counts 3 checkpoints`},
		"all checkpoints":     {`DELETE FROM checkpoints`, `checkpoint/3: the ledger counts 3 checkpoints`},
		"the last act": {`DELETE FROM audit WHERE n = (SELECT max(n) FROM audit WHERE account = 1)`,
			`checkpoint/2: the audit trail`},
		"the settlement's entry forgotten": {`UPDATE requests SET entry = NULL WHERE id = 'r07-free'`,
			`r07-free: it has no entry of its settlement`},
	} {
		p := v.problem(func() error {
			for _, sql := range strings.Split(c.sql, ";") {
				if err := run(v.conn, strings.TrimSpace(sql), nil); err != nil {
					return err
				}
			}
			return nil
		})
		require.Contains(t, p, c.problem, name)
	}
}

// Who can write the file can put in what is right in itself, but then nobody has made it.
func TestVerifySeesWhatNoOperatorDid(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	a := account{n: 2}
	e := ledger.Entry{Kind: ledger.TopUp, Book: ledger.Payments, Microcents: ledger.MicrocentsPerCredit,
		Format: ledger.EntryFormat}
	require.NoError(t,
		run(v.conn,
			`SELECT (SELECT id FROM accounts WHERE n = b.n), credits, accrued, entries, head, last FROM balances AS b WHERE n `+
				`= ?`, func(row *sqlite.Stmt) error {
				a.ID, a.Credits, a.Accrued = row.ColumnText(0), row.ColumnInt64(1), row.ColumnInt64(2)
				a.Entries, a.Head, a.last = row.ColumnInt64(3), columnHash(row, 4), row.ColumnInt64(5)
				return nil
			}, a.n))
	require.NoError(t, run(v.conn, `SELECT max(n) + 1, max(created) FROM entries`, func(row *sqlite.Stmt) error {
		e.N, e.Created = row.ColumnInt64(0), columnTime(row, 1)
		return nil
	}))
	e.Account, e.Seq, e.Prev, e.Credits, e.Accrued = a.ID, a.Entries+1, a.Head, a.Credits+1, a.Accrued
	p := v.problem(func() error {
		err := run(v.conn, `INSERT INTO entries (n, account, seq, before, kind, book, reason, prices, microcents,
			waived, over, tokens, credits, accrued, created, format, prev, hash) VALUES (?, ?, ?, ?, ?, ?, '', '', ?, 0, 0, 0,`+
			` ?, ?, ?, ?, ?, ?)`, nil,
			e.N, a.n, e.Seq, a.last, string(e.Kind), string(e.Book), e.Microcents, e.Credits, e.Accrued, e.Created, e.Format,
			e.Prev, e.Hash())
		if err != nil {
			return err
		}
		return run(v.conn, `UPDATE balances SET credits = ?, entries = ?, head = ?, last = ? WHERE n = ?`, nil, e.Credits,
			e.Seq, e.Hash(), e.N, a.n)
	})
	require.Equal(t, fmt.Sprintf("%s/%d: the audit trail does not say who made it", a.ID, e.Seq), p)

	act := ledger.Act{
		Created: e.Created, Action: "credit.add", Account: a.ID, Subject: a.ID,
		After: `{"credits":1,"reference":"","reason":""}`, Format: ledger.ActFormat,
	}
	n := int64(0)
	require.NoError(t, run(v.conn, `SELECT acts + 1, trail, (SELECT max(n) + 1 FROM audit) FROM accounts WHERE n = ?`,
		func(row *sqlite.Stmt) error {
			act.Seq, act.Prev, n = row.ColumnInt64(0), columnHash(row, 1), row.ColumnInt64(2)
			return nil
		}, a.n))
	forged := func() error {
		return run(v.conn, `INSERT INTO audit (created, actor, action, account, subject, before, after, prev, hash, seq, `+
			`format)
			VALUES (?, '', ?, ?, ?, '', ?, ?, ?, ?, ?)`,
			nil, act.Created, act.Action, a.n, act.Subject, act.After, act.Prev, act.Hash(), act.Seq, act.Format)
	}
	p = v.problem(forged)
	require.Equal(t, fmt.Sprintf("%s: it counts %d acts about it and the audit trail has %d, or the last of them is "+
		"another", a.ID, act.Seq-1, act.Seq), p)
	p = v.problem(func() error {
		if err := forged(); err != nil {
			return err
		}
		return run(v.conn, `UPDATE accounts SET acts = ?, trail = ? WHERE n = ?`, nil, act.Seq, act.Hash(), a.n)
	})
	require.Equal(t, fmt.Sprintf("act/%d: the journal does not have what it says was moved", n), p)

	act.Action, act.Prev[0] = "account.note", act.Prev[0]+1
	p = v.problem(func() error {
		if err := forged(); err != nil {
			return err
		}
		return run(v.conn, `UPDATE accounts SET acts = ?, trail = ? WHERE n = ?`, nil, act.Seq, act.Hash(), a.n)
	})
	require.Equal(t, fmt.Sprintf("act/%d: its link to the act before it is broken", n), p)

	for _, n := range []int{-1, 100} {
		p = v.problem(func() error {
			return run(v.conn,
				`INSERT INTO keys (n, id, account, name, hash, last4, created, root) VALUES (?1, 'key_forged', 2, 'forged', `+
					`randomblob(32), '', 0, ?1)`, nil, n)
		})
		require.Equal(t, "key_forged: the audit trail does not say that it was made", p)
		p = v.problem(func() error {
			if err := run(v.conn, `INSERT INTO balances (n, head) VALUES (?, zeroblob(32))`, nil, n); err != nil {
				return err
			}
			return run(v.conn,
				`INSERT INTO accounts (n, id, name, plan, state, created) VALUES (?, 'acct_forged', 'forged', '', 'active', 0)`,
				nil, n)
		})
		require.Equal(t, "acct_forged: the audit trail does not say that it was made", p)
	}
}

// forge is a ledger in which the same happened, but that one charge was another, or the name that an operator gave;
// every hash is right.
func forge(t *testing.T, name string, output int64) (*scene, []ledger.Checkpoint) {
	s := newScene(t, "")
	s.store.opts.Rand = rand.NewChaCha8([32]byte{})
	s.account(name, "")
	s.topUp(10, "")
	s.hold("one", "small")
	s.settle("one", nil, used(1_000, output))
	kept := []ledger.Checkpoint{s.checkpoint()}
	s.hold("two", "small")
	s.settle("two", nil, used(1_000, 1_000))
	return s, append(kept, s.checkpoint())
}

// A ledger that was written anew shows only by what was kept elsewhere.
func TestVerifyComparesKeptCheckpoints(t *testing.T) {
	t.Parallel()
	honest, kept := forge(t, "main", 1_000)
	charged, _ := forge(t, "main", 900)
	named, _ := forge(t, "mine", 1_000)
	for _, s := range []*scene{honest, charged, named} {
		r, err := s.store.Verify(t.Context())
		require.NoError(t, err)
		require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	}
	r, err := honest.store.Verify(t.Context(), kept[1], kept[0])
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	for _, forged := range []*scene{charged, named} {
		for _, k := range kept {
			r, err := forged.store.Verify(t.Context(), k)
			require.NoError(t, err)
			require.False(t, r.OK)
			require.Equal(t, audit.CheckpointName(k.N), r.Entry)
			require.Contains(t, r.Problem, "it is not the one that was kept")
		}
	}
}

// A ledger whose end was cut off is a ledger that was right some time ago.
func TestVerifySeesATruncatedLedger(t *testing.T) {
	t.Parallel()
	s, kept := forge(t, "main", 1_000)
	dir := t.TempDir()
	copyLedger(t, s.store.opts.Path, dir)
	s.hold("three", "small")
	s.settle("three", nil, used(1, 1_000))
	kept = append(kept, s.checkpoint())

	b, err := OpenBooks(t.Context(), filepath.Join(dir, "fareway.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	r, err := b.Verify(t.Context(), kept[:2]...)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	r, err = b.Verify(t.Context(), kept...)
	require.NoError(t, err)
	require.Equal(t, "checkpoint/3", r.Entry)
	require.Contains(t, r.Problem, "cut off")
}

// copyLedger copies the files of a ledger, which may be open, as a killed process would leave them.
func copyLedger(t *testing.T, path, dir string) map[string][32]byte {
	sums := map[string][32]byte{}
	for _, suffix := range ledgerFiles {
		data, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		name := filepath.Join(dir, "fareway.db"+suffix)
		require.NoError(t, os.WriteFile(name, data, 0o600))
		sums[name] = sha256.Sum256(data)
	}
	return sums
}

func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.everything()
	require.NoError(t, s.store.Close())
	conn := openForWriting(t, s.store.opts.Path)
	require.NoError(t, run(conn, `VACUUM`, nil)) // a page that nobody uses may be damaged
	require.NoError(t, run(conn, `PRAGMA wal_checkpoint(truncate)`, nil))
	database, err := os.ReadFile(s.store.opts.Path)
	require.NoError(t, err)
	const page = 4096
	pages := len(database) / page
	require.Greater(t, pages, 20)
	found := 0
	for n := 1; n < pages; n++ {
		path := filepath.Join(t.TempDir(), "fareway.db")
		damaged := append([]byte(nil), database...)
		copy(damaged[n*page:], "not a page of a database")
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		conn, err := openReader(path, time.Second)
		if err != nil {
			require.ErrorIs(t, err, ledger.ErrUnavailable, "a page of the schema")
			continue
		}
		r, err := verify(conn, nil, nil)
		require.NoError(t, conn.Close())
		require.NoError(t, err)
		require.False(t, r.OK, "page %d", n+1)
		require.NotEmpty(t, r.Problem)
		if r.Entry == "database" {
			found++
		}
	}
	require.NotZero(t, found)
}

// Verification sees one moment, whatever happens meanwhile.
func TestVerifyBesideEverythingElse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	prefill(t, path, 4, 300)
	s, err := Open(Options{Path: path, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	stop := make(chan struct{})
	var wg sync.WaitGroup
	work := func(do func(i int) error) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(i); err != nil {
					t.Errorf("working: %v", err)
					return
				}
			}
		})
	}
	ctx := t.Context()
	for n := range int64(4) {
		work(func(i int) error {
			id := fmt.Sprintf("req_9%d%08d", n, i)
			attempt := ledger.Attempt{ID: ledger.AttemptID(id, 1), Route: "small", Provider: "p", Model: "m", PriceVersion: 1,
				Worst: 1 << 40}
			_, err := s.Hold(ctx, ledger.Hold{
				Request: id, Account: fmt.Sprintf("acct_%024x", n+1), Key: fmt.Sprintf("key_%024x", n+1), Microcents: 1_000_000,
				Attempt: attempt,
			})
			if err != nil {
				return err
			}
			result := ledger.Result{Attempt: attempt.ID, Outcome: ledger.Finished}
			if i%2 == 0 {
				result.Usage = used(100, int64(i))
			}
			if _, err := s.Settle(ctx, ledger.Settlement{Request: id, Reason: "ok",
				Results: []ledger.Result{result}}); err != nil {
				return err
			}
			_, _, err = s.AddReceipt(ctx, attempt.ID, *used(1, 2))
			return err
		})
	}
	work(func(i int) error {
		_, err := s.Prune(ctx, fillStart.Add(time.Duration(i)*100*time.Millisecond))
		return err
	})
	work(func(int) error {
		_, err := s.MakeCheckpoint(ctx)
		return err
	})
	for range 10 {
		r, err := s.Verify(ctx)
		require.NoError(t, err)
		if !r.OK {
			t.Errorf("%s: %s", r.Entry, r.Problem)
			break
		}
	}
	close(stop)
	wg.Wait()
	r, err := s.Verify(ctx)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.Zero(t, r.Holds)
	require.Zero(t, r.Pending)
	require.NotZero(t, r.Checkpoints)
}
