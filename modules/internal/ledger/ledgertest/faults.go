package ledgertest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/plugins/llm"
)

// Fault is what becomes of an operation; the zero Fault leaves it alone.
type Fault struct {
	// Err is what its caller is told, in the place of what the store said.
	Err error
	// Behind: the operation is carried out first, and its answer is lost behind the commit. Without it nothing happens.
	Behind bool
}

// Plan says what becomes of an operation, of this name in snake case, the n-th that is asked of the store, from 1 on.
// It may be called at once by many.
type Plan func(n int64, operation string) Fault

// Away is the fault of a store that cannot be written or read.
var Away = Fault{Err: fmt.Errorf("%w: a fault of the test", ledger.ErrUnavailable)}

// Lost is the fault of a store that commits, and whose answer does not come.
var Lost = Fault{Err: Away.Err, Behind: true}

// WithFaults is a store whose operations fail by a plan: those that readers of the books do not ask for.
func WithFaults(store ledger.Store, plan Plan) ledger.Store { return &faulty{Store: store, plan: plan} }

// WithTakingFaults is WithFaults of a store that takes up what was decided in memory: "take_up" is an operation, too.
func WithTakingFaults(store live.Store, plan Plan) live.Store {
	return faultyTaker{&faulty{Store: store, plan: plan}, hidden{under{store}}}
}

// faultyTaker is faulty with what else the store has: what both have is the one that lies less deep, faulty's.
type faultyTaker struct {
	*faulty
	hidden
}

type (
	hidden struct{ under }
	under  struct{ live.Store }
)

func (f faultyTaker) TakeUp(ctx context.Context, courses []book.Course) ([]book.TakenUp, error) {
	return try(f.faulty, "take_up", func() ([]book.TakenUp, error) { return f.under.TakeUp(ctx, courses) })
}

func (f faultyTaker) ReadPayer(ctx context.Context, account, key string) (book.Rows, error) {
	return try(f.faulty, "read_payer", func() (book.Rows, error) { return f.under.ReadPayer(ctx, account, key) })
}

type faulty struct {
	ledger.Store
	plan Plan
	n    atomic.Int64
}

// try carries an operation out as the plan says.
func try[T any](f *faulty, operation string, do func() (T, error)) (T, error) {
	fault := f.plan(f.n.Add(1), operation)
	if fault.Err == nil {
		return do()
	}
	if fault.Behind {
		if v, err := do(); err != nil {
			return v, err
		}
	}
	var none T
	return none, fault.Err
}

func (f *faulty) try(operation string, do func() error) error {
	_, err := try(f, operation, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// applied is an operation's value, with whether it was applied.
type applied[T any] struct {
	value T
	is    bool
}

func tryApplied[T any](f *faulty, operation string, do func() (T, bool, error)) (T, bool, error) {
	a, err := try(f, operation, func() (a applied[T], err error) {
		a.value, a.is, err = do()
		return a, err
	})
	return a.value, a.is, err
}

func (f *faulty) Ping(ctx context.Context) error {
	return f.try("ping", func() error { return f.Store.Ping(ctx) })
}

func (f *faulty) Recover(ctx context.Context, living ...string) (int64, error) {
	return try(f, "recover", func() (int64, error) { return f.Store.Recover(ctx, living...) })
}

func (f *faulty) CreateAccount(ctx context.Context, name, plan string) (ledger.Account, error) {
	return try(f, "create_account", func() (ledger.Account, error) { return f.Store.CreateAccount(ctx, name, plan) })
}

func (f *faulty) SetPlan(ctx context.Context, account, plan string) (ledger.Account, error) {
	return try(f, "set_plan", func() (ledger.Account, error) { return f.Store.SetPlan(ctx, account, plan) })
}

func (f *faulty) SetState(ctx context.Context, account string, state ledger.State) (ledger.Account, error) {
	return try(f, "set_state", func() (ledger.Account, error) { return f.Store.SetState(ctx, account, state) })
}

func (f *faulty) Lookup(ctx context.Context, hash [32]byte) (ledger.Principal, error) {
	return try(f, "lookup", func() (ledger.Principal, error) { return f.Store.Lookup(ctx, hash) })
}

func (f *faulty) AddCredit(ctx context.Context, c ledger.Credit) (ledger.Balance, bool, error) {
	return tryApplied(f, "add_credit", func() (ledger.Balance, bool, error) { return f.Store.AddCredit(ctx, c) })
}

func (f *faulty) Correct(ctx context.Context, c ledger.Correction) (ledger.Balance, bool, error) {
	return tryApplied(f, "correct", func() (ledger.Balance, bool, error) { return f.Store.Correct(ctx, c) })
}

func (f *faulty) PriceVersion(ctx context.Context, route string, price, cost config.Price) (int64, error) {
	return try(f, "price_version", func() (int64, error) { return f.Store.PriceVersion(ctx, route, price, cost) })
}

func (f *faulty) Check(ctx context.Context, account, key string, microcents, tokens int64) error {
	return f.try("check", func() error { return f.Store.Check(ctx, account, key, microcents, tokens) })
}

func (f *faulty) Hold(ctx context.Context, h ledger.Hold) (ledger.Balance, error) {
	return try(f, "hold", func() (ledger.Balance, error) { return f.Store.Hold(ctx, h) })
}

func (f *faulty) Begin(ctx context.Context, n ledger.Next) error {
	return f.try("begin", func() error { return f.Store.Begin(ctx, n) })
}

func (f *faulty) Settle(ctx context.Context, s ledger.Settlement) (ledger.Charge, error) {
	operation := "settle"
	if s.Free {
		operation = "settle_free"
	}
	return try(f, operation, func() (ledger.Charge, error) { return f.Store.Settle(ctx, s) })
}

func (f *faulty) AddReceipt(ctx context.Context, attempt string, u llm.Usage) (ledger.Charge, bool, error) {
	return tryApplied(f, "add_receipt", func() (ledger.Charge, bool, error) {
		return f.Store.AddReceipt(ctx, attempt, u)
	})
}

func (f *faulty) CloseUnproven(ctx context.Context, before time.Time) (ledger.Closings, error) {
	return try(f, "close_unproven", func() (ledger.Closings, error) { return f.Store.CloseUnproven(ctx, before) })
}

func (f *faulty) EndPeriods(ctx context.Context) (int64, error) {
	return try(f, "end_periods", func() (int64, error) { return f.Store.EndPeriods(ctx) })
}

func (f *faulty) MakeCheckpoint(ctx context.Context) (ledger.Checkpoint, error) {
	return try(f, "make_checkpoint", func() (ledger.Checkpoint, error) { return f.Store.MakeCheckpoint(ctx) })
}

func (f *faulty) Prune(ctx context.Context, before time.Time) (int64, error) {
	return try(f, "prune", func() (int64, error) { return f.Store.Prune(ctx, before) })
}

// testFaults carries out the life of some requests once for each operation in it, whose answer is lost. Whoever
// repeats what he was not told of comes to the same microcent, and the books are right.
func testFaults(t *testing.T, open Open) {
	t.Run("GAP-45 BILL-08 an answer is lost", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, 1_000, ledger.Terms{FairUse: 500})
		want := f.live(t, f.store)
		operations := int64(0)
		f.newAccount(1_000)
		f.live(t, WithFaults(f.store, func(n int64, _ string) Fault {
			operations = n
			return Fault{}
		}))
		require.Greater(t, operations, int64(12))
		for at := range operations {
			f.newAccount(1_000)
			lost := ""
			got := f.live(t, WithFaults(f.store, func(n int64, operation string) Fault {
				if n != at+1 {
					return Fault{}
				}
				lost = operation
				return Lost
			}))
			require.NotEmpty(t, lost)
			require.Equal(t, want, got, "%s, the %dth operation", lost, at+1)
		}
		f.verify()
	})
}

// live takes the fixture's account through what can happen to requests, each operation once more where it fails for
// the store's sake, and returns the balance and what was charged.
func (f *fixture) live(t testing.TB, store ledger.Store) lived {
	ctx := context.Background()
	again := func(do func() error) {
		err := do()
		if err != nil {
			require.ErrorIs(t, err, ledger.ErrUnavailable)
			err = do()
		}
		require.NoError(t, err)
	}
	var charged []int64
	h := f.newHold("unit", 300_000)
	plain, crossing := ok(h, usage(100_000, 50_000)), f.newHold("fraction", 200_000)
	again(func() error { return store.Check(ctx, h.Account, h.Key, 1, 1) })
	for _, h := range []ledger.Hold{h, crossing} {
		again(func() error { _, err := store.Hold(ctx, h); return err })
	}
	next := ledger.Next{Request: h.Request, Attempt: f.attempt(h.Request, 2, "unit"), Microcents: 400_000}
	again(func() error { return store.Begin(ctx, next) })
	plain.Results = append(plain.Results, ledger.Result{Attempt: next.Attempt.ID, Outcome: ledger.Unproven})
	atLimit := ok(crossing, usage(1_000, 2_000))
	atLimit.ServiceLimit = true
	for _, s := range []ledger.Settlement{plain, atLimit} {
		again(func() error {
			c, err := store.Settle(ctx, s)
			if err == nil {
				charged = append(charged, c.Microcents, c.Waived)
			}
			return err
		})
	}
	again(func() error { _, _, err := store.AddReceipt(ctx, next.Attempt.ID, *usage(10, 20)); return err })
	closed := f.newHold("unit", 1_000)
	again(func() error { _, err := store.Hold(ctx, closed); return err })
	unproven := ok(closed, nil)
	unproven.Results[0].Outcome, unproven.Results[0].Estimate = ledger.Unproven, usage(30, 40)
	again(func() error { _, err := store.Settle(ctx, unproven); return err })
	again(func() error { _, err := store.CloseUnproven(ctx, f.clock.now().AddDate(1, 0, 0)); return err })
	again(func() error {
		_, _, err := store.AddCredit(ctx, ledger.Credit{Account: f.account.ID, Credits: 3, Reference: "paid"})
		return err
	})
	again(func() error {
		_, _, err := store.Correct(ctx, ledger.Correction{Request: h.Request, Microcents: 7, Reference: "case", Reason: "r"})
		return err
	})
	again(func() error { _, err := store.SetState(ctx, f.account.ID, ledger.Suspended); return err })
	again(func() error { _, err := store.EndPeriods(ctx); return err })
	again(func() error { _, err := store.MakeCheckpoint(ctx); return err })
	return lived{f.balance(), charged}
}

type lived struct {
	ledger.Balance
	charged []int64
}
