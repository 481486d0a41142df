package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

var _ ledger.Store = (*Ledger)(nil)

// Straight through goes what no decision depends on, and what no decision changes: memory has none of it, or has it as
// it stays.

// Ping implements ledger.Store.
func (l *Ledger) Ping(ctx context.Context) error { return l.store.Ping(ctx) }

// Loss implements ledger.Store.
func (l *Ledger) Loss() *ledger.Loss { return l.store.Loss() }

// CreateAccount implements ledger.Store.
func (l *Ledger) CreateAccount(ctx context.Context, name, plan string) (ledger.Account, error) {
	return l.store.CreateAccount(ctx, name, plan)
}

// RevokeKey implements ledger.Store.
func (l *Ledger) RevokeKey(ctx context.Context, id string) (ledger.Key, error) {
	return l.store.RevokeKey(ctx, id)
}

// Lookup implements ledger.Store.
func (l *Ledger) Lookup(ctx context.Context, hash [32]byte) (ledger.Principal, error) {
	return l.store.Lookup(ctx, hash)
}

// RecordAct implements ledger.Store.
func (l *Ledger) RecordAct(ctx context.Context, action, account, subject string, after map[string]any) error {
	return l.store.RecordAct(ctx, action, account, subject, after)
}

// PriceVersion implements ledger.Store.
func (l *Ledger) PriceVersion(ctx context.Context, route string, price, cost config.Price) (int64, error) {
	return l.store.PriceVersion(ctx, route, price, cost)
}

// Learn implements ledger.Store.
func (l *Ledger) Learn(ctx context.Context, fold func(kept []ledger.Learned) []ledger.Learned) error {
	return l.store.Learn(ctx, fold)
}

// Shrink implements ledger.Store.
func (l *Ledger) Shrink(ctx context.Context) (ledger.Shrunk, error) { return l.store.Shrink(ctx) }

// Plans implements ledger.Books.
func (l *Ledger) Plans(ctx context.Context) ([]string, error) { return l.store.Plans(ctx) }

// Checkpoints implements ledger.Books.
func (l *Ledger) Checkpoints(ctx context.Context, each func(ledger.Checkpoint) error) error {
	return l.store.Checkpoints(ctx, each)
}

// LatestCheckpoints implements ledger.Books.
func (l *Ledger) LatestCheckpoints(ctx context.Context, before int64, most int,
	each func(ledger.Checkpoint) error) error {
	return l.store.LatestCheckpoints(ctx, before, most, each)
}

// Pruned implements ledger.Books.
func (l *Ledger) Pruned(ctx context.Context, id string) (ledger.PrunedRequest, error) {
	return l.store.Pruned(ctx, id)
}

// PrunedBefore implements ledger.Books.
func (l *Ledger) PrunedBefore(ctx context.Context) (time.Time, error) {
	return l.store.PrunedBefore(ctx)
}

// Audit implements ledger.Books.
func (l *Ledger) Audit(ctx context.Context, q ledger.Query, each func(ledger.Act) error) error {
	return l.store.Audit(ctx, q, each)
}

// Flushed first is what reads or counts what requests have come to, and changes no account: what was decided before is
// taken up, so that it is seen. Readers of the books see what the store has while it takes nothing up.

// Waiting implements ledger.Store.
func (l *Ledger) Waiting(ctx context.Context, provider, after string, limit int) ([]ledger.Waiting, error) {
	if err := l.flush(ctx); err != nil {
		return nil, err
	}
	return l.store.Waiting(ctx, provider, after, limit)
}

// CountWaiting implements ledger.Store.
func (l *Ledger) CountWaiting(ctx context.Context) (map[string]int64, error) {
	if err := l.flush(ctx); err != nil {
		return nil, err
	}
	return l.store.CountWaiting(ctx)
}

// MakeCheckpoint implements ledger.Store.
func (l *Ledger) MakeCheckpoint(ctx context.Context) (c ledger.Checkpoint, err error) {
	if err := l.flush(ctx); err != nil {
		return c, err
	}
	return l.store.MakeCheckpoint(ctx)
}

// Prune implements ledger.Store.
func (l *Ledger) Prune(ctx context.Context, before time.Time) (requests int64, err error) {
	if err := l.flush(ctx); err != nil {
		return 0, err
	}
	return l.store.Prune(ctx, before)
}

// tryFlush has what was decided taken up, so that it is seen. Where the store takes nothing up, what it has is seen.
func (l *Ledger) tryFlush(ctx context.Context) { _ = l.flush(ctx) }

// Verify implements ledger.Books.
func (l *Ledger) Verify(ctx context.Context, kept ...ledger.Checkpoint) (ledger.Report, error) {
	l.tryFlush(ctx)
	return l.store.Verify(ctx, kept...)
}

// VerifyAs implements ledger.Books.
func (l *Ledger) VerifyAs(ctx context.Context, how ledger.Verification) (ledger.Report, error) {
	l.tryFlush(ctx)
	return l.store.VerifyAs(ctx, how)
}

// Entries implements ledger.Books.
func (l *Ledger) Entries(ctx context.Context, q ledger.Query, each func(ledger.Entry) error) error {
	l.tryFlush(ctx)
	return l.store.Entries(ctx, q, each)
}

// Latest implements ledger.Books.
func (l *Ledger) Latest(ctx context.Context, q ledger.LatestQuery, each func(ledger.Movement) error) error {
	l.tryFlush(ctx)
	return l.store.Latest(ctx, q, each)
}

// Usage implements ledger.Books.
func (l *Ledger) Usage(ctx context.Context, q ledger.UsageQuery, each func(ledger.UsageRow) error) error {
	l.tryFlush(ctx)
	return l.store.Usage(ctx, q, each)
}

// Request implements ledger.Books.
func (l *Ledger) Request(ctx context.Context, id string) (ledger.RequestRecord, error) {
	l.tryFlush(ctx)
	return l.store.Request(ctx, id)
}

// With accounts excluded goes what changes what decisions are made on: nobody decides about them meanwhile, and they
// are read again. Reading accounts is among that, for periods that are over end with it.

// Recover implements ledger.Store.
func (l *Ledger) Recover(ctx context.Context, living ...string) (requests int64, err error) {
	return requests, l.ExcludeAll(ctx, func() error {
		if requests, err = l.store.Recover(ctx, living...); err != nil {
			return err
		}
		highest, err := l.store.HighestRequest(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.settled.Reset(highest)
		return err
	})
}

// AcceptLoss implements ledger.Store.
func (l *Ledger) AcceptLoss(ctx context.Context, reason string) (loss ledger.Loss, err error) {
	err = l.ExcludeAll(ctx, func() error {
		loss, err = l.store.AcceptLoss(ctx, reason)
		return err
	})
	return loss, err
}

// excludeFor runs an operation excludeFor one account, and returns what it does.
func excludeFor[T any](ctx context.Context, l *Ledger, account string, run func() (T, error)) (v T, err error) {
	err = l.exclude(ctx, account, func() error {
		v, err = run()
		return err
	})
	return v, err
}

// RenameAccount implements ledger.Store.
func (l *Ledger) RenameAccount(ctx context.Context, account, name string) (ledger.Account, error) {
	return excludeFor(ctx, l, account, func() (ledger.Account, error) { return l.store.RenameAccount(ctx, account, name) })
}

// SetPlan implements ledger.Store.
func (l *Ledger) SetPlan(ctx context.Context, account, plan string) (ledger.Account, error) {
	return excludeFor(ctx, l, account, func() (ledger.Account, error) { return l.store.SetPlan(ctx, account, plan) })
}

// SetLimit implements ledger.Store.
func (l *Ledger) SetLimit(ctx context.Context, account string, limit ledger.Limit, value *int64) (
	ledger.Account, error,
) {
	return excludeFor(ctx, l, account, func() (ledger.Account, error) {
		return l.store.SetLimit(ctx, account, limit, value)
	})
}

// SetProfile implements ledger.Store.
func (l *Ledger) SetProfile(ctx context.Context, account, profile string) (ledger.Account, error) {
	return excludeFor(ctx, l, account, func() (ledger.Account, error) { return l.store.SetProfile(ctx, account, profile) })
}

// SetRequires implements ledger.Store.
func (l *Ledger) SetRequires(ctx context.Context, account string, c ledger.RequiresChange) (ledger.Account, error) {
	return excludeFor(ctx, l, account, func() (ledger.Account, error) { return l.store.SetRequires(ctx, account, c) })
}

// SetMail implements ledger.Store.
func (l *Ledger) SetMail(ctx context.Context, account string, addresses []string) (ledger.Account, error) {
	return excludeFor(ctx, l, account, func() (ledger.Account, error) { return l.store.SetMail(ctx, account, addresses) })
}

// SetState implements ledger.Store.
func (l *Ledger) SetState(ctx context.Context, account string, state ledger.State) (ledger.Account, error) {
	return excludeFor(ctx, l, account, func() (ledger.Account, error) { return l.store.SetState(ctx, account, state) })
}

// CreateKey implements ledger.Store.
func (l *Ledger) CreateKey(ctx context.Context, account, name string, hash [32]byte, last4 string,
	change ledger.KeyChange) (ledger.Key, error) {
	return excludeFor(ctx, l, account, func() (ledger.Key, error) {
		return l.store.CreateKey(ctx, account, name, hash, last4, change)
	})
}

// ChangeKey implements ledger.Store.
func (l *Ledger) ChangeKey(ctx context.Context, id string, change ledger.KeyChange) (ledger.Key, error) {
	account, err := l.accountOf(ctx, id)
	if err != nil {
		return ledger.Key{}, err
	}
	return excludeFor(ctx, l, account, func() (ledger.Key, error) { return l.store.ChangeKey(ctx, id, change) })
}

// RotateKey implements ledger.Store.
func (l *Ledger) RotateKey(ctx context.Context, id string, hash [32]byte, last4 string, overlap time.Duration) (
	fresh, old ledger.Key, err error,
) {
	account, err := l.accountOf(ctx, id)
	if err != nil {
		return fresh, old, err
	}
	err = l.exclude(ctx, account, func() error {
		fresh, old, err = l.store.RotateKey(ctx, id, hash, last4, overlap)
		return err
	})
	return fresh, old, err
}

// AddCredit implements ledger.Store.
func (l *Ledger) AddCredit(ctx context.Context, c ledger.Credit) (b ledger.Balance, applied bool, err error) {
	err = l.exclude(ctx, c.Account, func() error {
		b, applied, err = l.store.AddCredit(ctx, c)
		return err
	})
	return b, applied, err
}

// Correct implements ledger.Store.
func (l *Ledger) Correct(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error) {
	account := c.Account
	if account == "" {
		if account, err = l.accountOf(ctx, c.Request); err != nil {
			return b, false, err
		}
	}
	err = l.exclude(ctx, account, func() error {
		b, applied, err = l.store.Correct(ctx, c)
		return err
	})
	return b, applied, err
}

// AddReceipt implements ledger.Store.
func (l *Ledger) AddReceipt(ctx context.Context, attempt string, usage llm.Usage) (
	c ledger.Charge, applied bool, err error,
) {
	account, err := l.accountOf(ctx, attempt)
	if err != nil {
		return c, false, err
	}
	err = l.exclude(ctx, account, func() error {
		c, applied, err = l.store.AddReceipt(ctx, attempt, usage)
		return err
	})
	return c, applied, err
}

// CloseUnproven implements ledger.Store.
func (l *Ledger) CloseUnproven(ctx context.Context, before time.Time) (c ledger.Closings, err error) {
	err = l.excludeWhile(ctx, func() (bool, error) {
		c, err = l.store.CloseUnproven(ctx, before)
		return c.Attempts > 0, err
	})
	return c, err
}

// EndPeriods implements ledger.Store.
func (l *Ledger) EndPeriods(ctx context.Context) (accounts int64, err error) {
	err = l.excludeWhile(ctx, func() (bool, error) {
		accounts, err = l.store.EndPeriods(ctx)
		return accounts > 0, err
	})
	return accounts, err
}

// Account implements ledger.Books.
func (l *Ledger) Account(ctx context.Context, idOrName string) (ledger.Account, error) {
	l.mu.Lock()
	a := l.accounts[idOrName]
	l.mu.Unlock()
	if a != nil {
		a.mu.Lock()
		if a.loaded && a.busy == nil && !l.isOverdue(a) {
			defer a.mu.Unlock()
			return a.Show(), nil
		}
		a.mu.Unlock()
		v, err := excludeFor(ctx, l, a.id, func() (ledger.Account, error) { return l.store.Account(ctx, a.id) })
		if !errors.Is(err, ledger.ErrUnavailable) {
			return v, err
		}
	}
	l.tryFlush(ctx)
	return l.store.Account(ctx, idOrName)
}

// Accounts implements ledger.Books.
func (l *Ledger) Accounts(ctx context.Context, after string, each func(ledger.Account) error) error {
	if _, err := l.EndPeriods(ctx); err != nil {
		return fmt.Errorf("listing accounts: %w", err)
	}
	return l.store.Accounts(ctx, after, each)
}

// Keys implements ledger.Books.
func (l *Ledger) Keys(ctx context.Context, q ledger.KeyQuery, each func(ledger.Key) error) error {
	if _, err := l.EndPeriods(ctx); err != nil {
		return fmt.Errorf("listing keys: %w", err)
	}
	return l.store.Keys(ctx, q, each)
}
