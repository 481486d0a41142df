package sqlite

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// workload does everything that a gateway does to its ledger, from several goroutines, and tells what it was answered.
// All amounts follow from the ids, so that whoever finds the ledger later knows what has to be in it.
type workload struct {
	store   *Store
	path    string
	account ledger.Account
	key     ledger.Key
	version int64
	clock   *atomic.Int64 // nanoseconds; moves by days
	tell    func(fact)
}

// fact is what one operation answered.
type fact struct {
	what   string // "credit", "hold", "settle", ...
	id     string // of the request, or the reference, or the name
	number int64
}

func (f fact) String() string { return fmt.Sprintf("%s %s %d", f.what, f.id, f.number) }

func readFact(line string) (f fact, err error) {
	_, err = fmt.Sscan(line, &f.what, &f.id, &f.number)
	return f, err
}

const (
	workHold    = 3_000_000 // microcents that each request holds
	workCredits = 2_000_000 // credits that the account begins with
)

// workTerms are those of the workload's plan. Its fair use ends within a period, and within a charge.
func workTerms(string) ledger.Terms { return ledger.Terms{MonthlyCredits: 1, FairUse: 700_000} }

// workStart is when its clock begins.
var workStart = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// amount is what the n-th attempt of a request costs, or another amount that has to do with it.
func amount(id string, n int64) int64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s.%d", id, n) // a hash takes everything
	return 1 + int64(h.Sum64()%999_999)
}

func newWorkload(path, boot string, clock *atomic.Int64, tell func(fact)) (*workload, error) {
	s, err := Open(Options{
		Path: path, BootID: boot, Terms: workTerms, Logger: quiet, WaitTimeout: time.Minute,
		Now: func() time.Time { return time.Unix(0, clock.Load()) },
	})
	if err != nil {
		return nil, err
	}
	w := &workload{store: s, path: path, clock: clock, tell: tell}
	return w, w.prepare(context.Background())
}

// prepare finds the account, or makes it.
func (w *workload) prepare(ctx context.Context) (err error) {
	if _, err := w.store.Recover(ctx); err != nil {
		return err
	}
	if w.version, err = w.store.PriceVersion(ctx, "route", prices(1), prices(1)); err != nil {
		return err
	}
	if w.account, err = w.store.Account(ctx, "main"); err == nil {
		return w.store.Keys(ctx, ledger.KeyQuery{Account: w.account.ID}, func(k ledger.Key) error {
			if k.Name == "laptop" {
				w.key = k
			}
			return nil
		})
	}
	if w.account, err = w.store.CreateAccount(ctx, "main", "starter"); err != nil {
		return err
	}
	if w.key, err = w.store.CreateKey(ctx, w.account.ID, "laptop", [32]byte{1}, "abcd", ledger.KeyChange{}); err != nil {
		return err
	}
	_, _, err = w.store.AddCredit(ctx, ledger.Credit{Account: w.account.ID, Credits: workCredits, Reference: "start"})
	return err
}

// settlement is how a request of the workload ends: its first attempt is proven, its second one waits. One in four
// ends at a limit of the service and is free, or in part; one in five made no attempt, and costs a surcharge.
func settlement(id string) ledger.Settlement {
	s := ledger.Settlement{Request: id, Status: 200, Reason: "ok", ServiceLimit: waived(id)}
	if attemptless(id) {
		s.Surcharge = amount(id, 1)
		return s
	}
	s.Results = []ledger.Result{{
		Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Finished, Usage: &llm.Usage{Output: llm.Count(amount(id, 1))},
	}}
	return s
}

// referenceOf is the reference of an attempt of the workload.
func referenceOf(attempt string) string { return "gen-" + attempt }

func waived(id string) bool      { return amount(id, 9)%4 == 0 }
func attemptless(id string) bool { return amount(id, 8)%5 == 0 }
func heldFirst(id string) bool   { return amount(id, 7)%3 == 0 } // before its first attempt was known

// round takes one request through its life, with what operators and the gateway's housekeeping do beside it. Rounds of
// a worker are numbered.
func (w *workload) round(ctx context.Context, worker, n int, id string) error {
	if n%3 == 0 {
		if err := w.topUp(ctx, id); err != nil {
			return err
		}
	}
	if err := w.request(ctx, n, id); err != nil {
		return err
	}
	switch {
	case n%4 == 1:
		return w.newKey(ctx, id)
	case n%4 == 2:
		return w.adjust(ctx, id)
	case worker == 0 && n%4 == 3:
		return w.endPeriod(ctx)
	case worker == 1 && n%4 == 3:
		return w.checkpoint(ctx)
	case worker == 2 && n%8 == 3:
		return w.moveWAL([]string{"RESTART", "TRUNCATE"}[n/8%2])
	}
	return nil
}

// request holds, tries twice, settles, repeats the settlement as the spool does, and is given its receipt and a
// refund.
func (w *workload) request(ctx context.Context, n int, id string) error {
	attempt := ledger.Attempt{ID: ledger.AttemptID(id, 1), Route: "route", Provider: "p", Model: "m",
		PriceVersion: w.version, Worst: 1_000_000}
	h := ledger.Hold{
		Request: id, Account: w.account.ID, Key: w.key.ID, Endpoint: "chat", Profile: "max", Microcents: workHold,
		Attempt: attempt,
	}
	if attemptless(id) || heldFirst(id) {
		h.Attempt = ledger.Attempt{}
	}
	if _, err := w.store.Hold(ctx, h); err != nil {
		return err
	}
	if !attemptless(id) && heldFirst(id) {
		if err := w.store.Begin(ctx, ledger.Next{Request: id, Attempt: attempt, Microcents: workHold}); err != nil {
			return err
		}
	}
	attempts := int64(1)
	if attemptless(id) {
		attempts = 0
	}
	w.tell(fact{"hold", id, attempts})
	again := n%2 == 0 && !attemptless(id)
	if again {
		w.store.Refer(attempt.ID, referenceOf(attempt.ID))
		attempt.ID = ledger.AttemptID(id, 2)
		if err := w.store.Begin(ctx, ledger.Next{Request: id, Attempt: attempt, Microcents: workHold + 1}); err != nil {
			return err
		}
		w.tell(fact{"begin", id, 2})
		w.tell(fact{"refer", id, 1}) // it was on the way before
		w.store.Refer(attempt.ID, referenceOf(attempt.ID))
	}
	for repeated := range 1 + n%2 {
		c, err := w.store.Settle(ctx, settlement(id))
		if err != nil {
			return err
		}
		if c.Microcents+c.Waived != amount(id, 1) || c.Pending != again {
			return fmt.Errorf("settling %s: %+v, and not %d", id, c, amount(id, 1))
		}
		if repeated == 0 {
			w.tell(fact{"settle", id, c.Microcents})
			if again {
				w.tell(fact{"refer", id, 2})
			}
		}
	}
	if again {
		c, applied, err := w.store.AddReceipt(ctx, attempt.ID, llm.Usage{Output: llm.Count(amount(id, 2))})
		if err != nil {
			return err
		}
		if !applied || c.Pending {
			return fmt.Errorf("the receipt of %s: applied %t, %+v", id, applied, c)
		}
		w.tell(fact{"receipt", id, c.Microcents})
	}
	if waived(id) {
		return nil
	}
	_, _, err := w.store.Correct(ctx, ledger.Correction{Request: id, Microcents: 1, Reference: "refund-" + id,
		Reason: "sorry"})
	if err == nil {
		w.tell(fact{"refund", id, 1})
	}
	return err
}

func (w *workload) topUp(ctx context.Context, id string) error {
	_, _, err := w.store.AddCredit(ctx, ledger.Credit{Account: w.account.ID, Credits: 1, Reference: "credit-" + id})
	if err == nil {
		w.tell(fact{"credit", id, 1})
	}
	return err
}

func (w *workload) adjust(ctx context.Context, id string) error {
	_, _, err := w.store.Correct(ctx, ledger.Correction{
		Account: w.account.ID, Microcents: -amount(id, 3), Reference: "adjust-" + id, Reason: "typed in wrong",
	})
	if err == nil {
		w.tell(fact{"adjust", id, -amount(id, 3)})
	}
	return err
}

func (w *workload) newKey(ctx context.Context, id string) error {
	hash := [32]byte{2}
	copy(hash[1:], id)
	_, err := w.store.CreateKey(ledger.WithActor(ctx, "mary"), w.account.ID, "key-"+id, hash, "", ledger.KeyChange{})
	if err == nil {
		w.tell(fact{"key", "key-" + id, 1})
	}
	return err
}

func (w *workload) endPeriod(ctx context.Context) error {
	w.clock.Add(int64(20 * 24 * time.Hour))
	if _, err := w.store.EndPeriods(ctx); err != nil {
		return err
	}
	a, err := w.store.Account(ctx, w.account.ID)
	if err == nil {
		w.tell(fact{"period", "end", a.Period.End.UnixNano()})
	}
	return err
}

func (w *workload) checkpoint(ctx context.Context) error {
	c, err := w.store.MakeCheckpoint(ctx)
	if err == nil {
		w.tell(fact{"checkpoint", c.Hash.String(), c.N})
	}
	return err
}

// moveWAL copies the write-ahead log into the database, as SQLite does by itself when it has grown large, and lets it
// begin anew. When others are in the way, it does not.
func (w *workload) moveWAL(mode string) error {
	conn, err := openPlain(w.path)
	if err != nil {
		return err
	}
	err = run(conn, `PRAGMA wal_checkpoint(`+mode+`)`, nil)
	if closeErr := conn.Close(); err == nil {
		err = closeErr
	}
	return err
}

// requestID is one that begins with the time, like the gateway's.
func requestID(boot string, worker, n int) string {
	return strings.Join([]string{"req", fmt.Sprintf("%06d", n), boot, fmt.Sprint(worker)}, "-")
}
