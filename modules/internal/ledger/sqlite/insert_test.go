package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

// unhurried gives the tests of a queue the time that a busy machine needs to fill it.
func unhurried(o *Options) { o.WaitTimeout = time.Minute }

// What is written with many rows in one statement is the same as what is written alone, and where the ids lead is no
// matter.
func TestManyInOneCommit(t *testing.T) {
	t.Parallel()
	p := newTill(t, unhurried)
	const n = 3*rowsAtOnce + 5
	id := func(i int) string { return fmt.Sprintf("r%03d", i*37%n) }
	attempts := func(i int) int { return 1 + i%3 }

	var holds, settlements []func(*tx) error
	for i := range n {
		holds = append(holds, func(t *tx) error {
			_, err := t.hold(&ledger.Hold{
				Request: id(i), Account: p.account, Key: p.key, Endpoint: "chat", Profile: fmt.Sprint("profile", i/7),
				Microcents: n, Attempt: p.attempt(id(i), 1),
			})
			for seq := 2; seq <= attempts(i) && err == nil; seq++ {
				err = t.begin(&ledger.Next{Request: id(i), Attempt: p.attempt(id(i), int64(seq))})
			}
			return err
		})
		settlements = append(settlements, func(t *tx) error {
			_, err := t.settle(&ledger.Settlement{Request: id(i), Status: 200, Reason: fmt.Sprint("reason", i/7),
				Results: []ledger.Result{
					{Attempt: ledger.AttemptID(id(i), 1), Outcome: ledger.Finished, Usage: &llm.Usage{Output: llm.Count(int64(i))}},
				}})
			return err
		})
	}
	for _, fns := range [][]func(*tx) error{holds, settlements} {
		batches, errs := queue(t, p.Store, fns...)
		for i := range n {
			require.NoError(t, errs[i])
			require.Equal(t, n, batches[i])
		}
	}
	for i := range n {
		r, err := p.Request(t.Context(), id(i))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("profile", i/7), r.Profile)
		require.Equal(t, fmt.Sprint("reason", i/7), r.Reason)
		require.EqualValues(t, i, r.Microcents)
		require.Equal(t, attempts(i) > 1, r.Pending)
		require.Len(t, r.Attempts, attempts(i))
		for seq, a := range r.Attempts {
			if seq == 0 {
				require.Equal(t, ledger.Finished, a.Outcome)
				require.EqualValues(t, i, *a.Usage.Output)
				continue
			}
			require.Equal(t, ledger.Unproven, a.Outcome)
			_, applied, err := p.AddReceipt(t.Context(), a.ID, llm.Usage{Output: llm.Count(1)})
			require.NoError(t, err)
			require.True(t, applied)
		}
	}
	p.verified()
}

// An operation sees what those before it in the same transaction have done, although nothing of that is written yet.
func TestOperationsSeeEachOther(t *testing.T) {
	t.Parallel()
	p := newTill(t, unhurried)
	ctx := context.Background()
	settlement := &ledger.Settlement{Request: "r1", Reason: "ok", Results: []ledger.Result{
		{Attempt: "r1.1", Outcome: ledger.Unproven},
	}}
	hold := &ledger.Hold{Request: "r1", Account: p.account, Key: p.key, Microcents: 5, Attempt: p.attempt("r1", 1)}
	var topUp book.Change
	posted := func(t *tx) error {
		a, err := t.account(p.account)
		if err != nil {
			return err
		}
		topUp, err = book.DecideTopUp(&ledger.Credit{Credits: 1, Reference: "invoice"}, a.Account, nil, nil, t.by(ctx))
		t.postEntry(a, topUp.Account, topUp.Entry)
		return err
	}
	var seen, applied bool
	_, errs := queue(t, p.Store,
		func(t *tx) error { _, err := t.hold(hold); return err },
		func(t *tx) error { _, err := t.settle(settlement); return err },
		func(t *tx) error { _, err := t.hold(hold); return err },
		func(t *tx) error { _, err := t.settle(settlement); return err },
		func(t *tx) (err error) {
			_, applied, err = t.addReceipt("r1.1", llm.Usage{Output: llm.Count(7)})
			return err
		},
		func(t *tx) error {
			r, _, err := t.settledRequest("r1")
			if err != nil {
				return err
			}
			a, err := t.account(p.account)
			if err != nil {
				return err
			}
			refund, err := book.DecideRefund(&ledger.Correction{Request: "r1", Reason: "sorry", Microcents: 3}, a.Account,
				&r.Request, nil, nil, t.by(ctx))
			if err != nil {
				return err
			}
			return t.applyChange(a, &refund)
		},
		posted,
		func(t *tx) error {
			a, err := t.account(p.account)
			if err != nil {
				return err
			}
			is, err := t.findSeen(a, "invoice")
			seen = is != nil
			return err
		},
		func(t *tx) error { // what made the entry; only now, for this writes everything before it reads the trail
			a, err := t.account(p.account)
			if err != nil {
				return err
			}
			return t.recordActs(a, topUp.Acts...)
		},
	)
	for i, err := range errs {
		if i == 2 {
			require.ErrorIs(t, err, ledger.ErrExists)
			continue
		}
		require.NoError(t, err)
	}
	require.True(t, applied)
	require.True(t, seen)
	require.Zero(t, p.balance().Held)
	p.verified()
}

// A row that cannot be written is the failure of its operation alone, whenever it is noticed.
func TestRowThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := newTill(t, unhurried)
	for _, id := range []string{"r1", "r2", "r3"} {
		require.NoError(t, p.hold(id))
	}
	exec := func(query string, args ...any) func(*tx) error {
		return func(t *tx) error { return t.exec(query, args...) }
	}
	settle := func(id string) func(*tx) error {
		return func(t *tx) error { _, err := t.settle(&ledger.Settlement{Request: id}); return err }
	}
	// Somebody's row, which memory knows nothing of.
	require.NoError(t, p.write(t.Context(), "test", exec(`INSERT INTO requests
		VALUES ('r2', 1, 1, '', '', '', 0, 0, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0)`)))

	_, errs := queue(t, p.Store, settle("r1"), settle("r2"), insertOwner("a"))
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], ledger.ErrExists)
	require.NoError(t, errs[2])
	asked := func(t *tx) error { _, err := t.nameTaken("free"); return err }
	_, errs = queue(t, p.Store, settle("r2"), settle("r3"), asked)
	require.ErrorIs(t, errs[0], ledger.ErrExists)
	require.NoError(t, errs[1])
	require.NoError(t, errs[2], "it only asked")
	_, errs = queue(t, p.Store, settle("r2"), settle("r1"))
	require.ErrorIs(t, errs[0], ledger.ErrExists)
	require.NoError(t, errs[1], "who looks at the table writes it first")

	require.Equal(t, []string{"a"}, owners(t, p.Store))
	require.EqualValues(t, 1_000_000, p.balance().Held, "r2 runs on")
	require.NoError(t, p.write(t.Context(), "test", exec(`DELETE FROM requests WHERE id = 'r2'`)))
	_, err := p.settle("r2", 7)
	require.NoError(t, err)
	p.verified()
}

// Nor can an attempt's.
func TestAttemptThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := newTill(t, unhurried)
	require.NoError(t, p.hold("r1"))
	require.NoError(t, p.write(t.Context(), "test", func(t *tx) error {
		return t.exec(`INSERT INTO attempts (request, seq, route, provider, model, price_version, outcome, estimated, created)
			VALUES ('r1', 1, '', '', '', 1, 'failed', 0, 0)`)
	}))
	_, err := p.settle("r1", 7)
	require.ErrorIs(t, err, ledger.ErrExists)
	require.EqualValues(t, 1_000_000, p.balance().Held, "it runs on")
	require.NoError(t, p.write(t.Context(), "test", func(t *tx) error { return t.exec(`DELETE FROM attempts`) }))
	c, err := p.settle("r1", 7)
	require.NoError(t, err)
	require.EqualValues(t, 7, c.Microcents)
	p.verified()
}

// More attempts than one transaction closes are closed by several.
func TestCloseInBatches(t *testing.T) {
	t.Parallel()
	p := newTill(t, unhurried)
	const n = 2*closeBatch + 3
	var holds, settlements []func(*tx) error
	for i := range n {
		id := fmt.Sprintf("r%03d", i)
		holds = append(holds, func(t *tx) error {
			_, err := t.hold(&ledger.Hold{Request: id, Account: p.account, Key: p.key, Microcents: 1, Attempt: p.attempt(id, 1)})
			return err
		})
		settlements = append(settlements, func(t *tx) error {
			_, err := t.settle(&ledger.Settlement{Request: id})
			return err
		})
	}
	for _, fns := range [][]func(*tx) error{holds, settlements} {
		require.NoError(t, p.write(t.Context(), "test", func(t *tx) error {
			for _, fn := range fns {
				if err := fn(t); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	closed, err := p.CloseUnproven(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.EqualValues(t, n, closed.Attempts)
	waiting, err := p.CountWaiting(t.Context())
	require.NoError(t, err)
	require.Empty(t, waiting)
	p.verified()
}

// Whoever operates the gateway is told of an attempt whose estimate was more than its hold, and of no other.
func TestClosingOverItsHoldIsTold(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := newScene(t, "")
	s.store.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s.account("main", "")
	s.topUp(10, "")
	for id, estimate := range map[string]*llm.Usage{"r1": used(1, 2), "r2": used(1_000, 2_000), "r3": nil} {
		s.hold(id, "large")
		s.settle(id, func(st *ledger.Settlement) {
			st.Results[0].Outcome, st.Results[0].Estimate = ledger.Unproven, estimate
		}, nil)
	}
	closed, err := s.store.CloseUnproven(s.tick(), s.now)
	require.NoError(t, err)
	require.EqualValues(t, 3, closed.Attempts)
	require.Positive(t, closed.Charged["large"])
	require.Positive(t, closed.Over["large"])
	require.Equal(t, 1, strings.Count(log.String(), "an attempt was closed at less than its estimate"), log.String())
	require.Contains(t, log.String(), "attempt="+ledger.AttemptID("r2", 1)+" route=large over_microcents=")
}

// Accounts without a plan have what the configuration gives to those: EndPeriods looks at them, too.
func TestPeriodsWithoutAPlan(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	s.account("main", "")
	s.account("other", "pro")
	ended, err := s.store.EndPeriods(t.Context())
	require.NoError(t, err)
	require.Zero(t, ended, "a period begins when the account is made")
	before := s.store.opts.Terms
	s.store.opts.Terms = func(string) ledger.Terms { return before("pro") }
	ended, err = s.store.EndPeriods(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, ended)
	s.now = s.now.AddDate(0, 1, 1)
	ended, err = s.store.EndPeriods(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, ended)
}
