package ledgertest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// Spread is several stores that have the same ledger open, each operation on one of them, in an order without a
// pattern that is the same each time. They are of several processes, so it is Late. Their boot ids are that of the
// suite, and what follows a space.
func Spread(stores ...ledger.Store) ledger.Store { return &spread{stores: stores} }

type spread struct {
	stores []ledger.Store
	n      atomic.Uint64
}

func (s *spread) any() ledger.Store {
	mixed := s.n.Add(1) * 0x9E3779B97F4A7C15
	return s.stores[(mixed^mixed>>29)*0xBF58476D1CE4E5B9>>40%uint64(len(s.stores))]
}

// AppliesLate implements Late.
func (s *spread) AppliesLate() {}

// SumSome implements Summer.
func (s *spread) SumSome(ctx context.Context, account string, entries int64) error {
	if store, is := s.any().(Summer); is {
		return store.SumSome(ctx, account, entries)
	}
	return nil
}

// Close closes all stores.
func (s *spread) Close() error {
	var errs []error
	for _, store := range s.stores {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}

func (s *spread) Account(ctx context.Context, idOrName string) (ledger.Account, error) {
	return s.any().Account(ctx, idOrName)
}

func (s *spread) Accounts(ctx context.Context, after string, each func(ledger.Account) error) error {
	return s.any().Accounts(ctx, after, each)
}

func (s *spread) Keys(ctx context.Context, q ledger.KeyQuery, each func(ledger.Key) error) error {
	return s.any().Keys(ctx, q, each)
}

func (s *spread) Plans(ctx context.Context) ([]string, error) {
	return s.any().Plans(ctx)
}

func (s *spread) Verify(ctx context.Context, kept ...ledger.Checkpoint) (ledger.Report, error) {
	return s.any().Verify(ctx, kept...)
}

func (s *spread) VerifyAs(ctx context.Context, how ledger.Verification) (ledger.Report, error) {
	return s.any().VerifyAs(ctx, how)
}

func (s *spread) Entries(ctx context.Context, q ledger.Query, each func(ledger.Entry) error) error {
	return s.any().Entries(ctx, q, each)
}

func (s *spread) Latest(ctx context.Context, q ledger.LatestQuery, each func(ledger.Movement) error) error {
	return s.any().Latest(ctx, q, each)
}

func (s *spread) Checkpoints(ctx context.Context, each func(ledger.Checkpoint) error) error {
	return s.any().Checkpoints(ctx, each)
}

func (s *spread) LatestCheckpoints(ctx context.Context, before int64, most int,
	each func(ledger.Checkpoint) error) error {
	return s.any().LatestCheckpoints(ctx, before, most, each)
}

func (s *spread) Usage(ctx context.Context, q ledger.UsageQuery, each func(ledger.UsageRow) error) error {
	return s.any().Usage(ctx, q, each)
}

func (s *spread) Request(ctx context.Context, id string) (ledger.RequestRecord, error) {
	return s.any().Request(ctx, id)
}

func (s *spread) Pruned(ctx context.Context, id string) (ledger.PrunedRequest, error) {
	return s.any().Pruned(ctx, id)
}

func (s *spread) PrunedBefore(ctx context.Context) (time.Time, error) {
	return s.any().PrunedBefore(ctx)
}

func (s *spread) Audit(ctx context.Context, q ledger.Query, each func(ledger.Act) error) error {
	return s.any().Audit(ctx, q, each)
}

func (s *spread) Ping(ctx context.Context) error {
	return s.any().Ping(ctx)
}

func (s *spread) Recover(ctx context.Context, living ...string) (requests int64, err error) {
	return s.any().Recover(ctx, living...)
}

func (s *spread) CreateAccount(ctx context.Context, name, plan string) (ledger.Account, error) {
	return s.any().CreateAccount(ctx, name, plan)
}

func (s *spread) RenameAccount(ctx context.Context, account, name string) (ledger.Account, error) {
	return s.any().RenameAccount(ctx, account, name)
}

func (s *spread) SetPlan(ctx context.Context, account, plan string) (ledger.Account, error) {
	return s.any().SetPlan(ctx, account, plan)
}

func (s *spread) SetLimit(
	ctx context.Context, account string, limit ledger.Limit, value *int64,
) (ledger.Account, error) {
	return s.any().SetLimit(ctx, account, limit, value)
}

func (s *spread) SetProfile(ctx context.Context, account, profile string) (ledger.Account, error) {
	return s.any().SetProfile(ctx, account, profile)
}

func (s *spread) SetRequires(
	ctx context.Context, account string, change ledger.RequiresChange,
) (ledger.Account, error) {
	return s.any().SetRequires(ctx, account, change)
}

func (s *spread) SetMail(ctx context.Context, account string, addresses []string) (ledger.Account, error) {
	return s.any().SetMail(ctx, account, addresses)
}

func (s *spread) SetState(ctx context.Context, account string, state ledger.State) (ledger.Account, error) {
	return s.any().SetState(ctx, account, state)
}

func (s *spread) CreateKey(
	ctx context.Context, account, name string, hash [32]byte, last4 string, change ledger.KeyChange,
) (ledger.Key, error) {
	return s.any().CreateKey(ctx, account, name, hash, last4, change)
}

func (s *spread) ChangeKey(ctx context.Context, id string, change ledger.KeyChange) (ledger.Key, error) {
	return s.any().ChangeKey(ctx, id, change)
}

func (s *spread) RotateKey(
	ctx context.Context, id string, hash [32]byte, last4 string, overlap time.Duration,
) (fresh, old ledger.Key, err error) {
	return s.any().RotateKey(ctx, id, hash, last4, overlap)
}

func (s *spread) RevokeKey(ctx context.Context, id string) (ledger.Key, error) {
	return s.any().RevokeKey(ctx, id)
}

func (s *spread) Lookup(ctx context.Context, hash [32]byte) (ledger.Principal, error) {
	return s.any().Lookup(ctx, hash)
}

func (s *spread) AddCredit(ctx context.Context, c ledger.Credit) (b ledger.Balance, applied bool, err error) {
	return s.any().AddCredit(ctx, c)
}

func (s *spread) Correct(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error) {
	return s.any().Correct(ctx, c)
}

func (s *spread) RecordAct(ctx context.Context, action, account, subject string, after map[string]any) error {
	return s.any().RecordAct(ctx, action, account, subject, after)
}

func (s *spread) PriceVersion(ctx context.Context, route string, price, cost config.Price) (int64, error) {
	return s.any().PriceVersion(ctx, route, price, cost)
}

func (s *spread) Check(ctx context.Context, account, key string, microcents, tokens int64) error {
	return s.any().Check(ctx, account, key, microcents, tokens)
}

func (s *spread) Hold(ctx context.Context, h ledger.Hold) (ledger.Balance, error) {
	return s.any().Hold(ctx, h)
}

func (s *spread) Begin(ctx context.Context, n ledger.Next) error {
	return s.any().Begin(ctx, n)
}

// Refer tells all stores: the one that holds the request notes it.
func (s *spread) Refer(attempt, reference string) {
	for _, store := range s.stores {
		store.Refer(attempt, reference)
	}
}

func (s *spread) Settle(ctx context.Context, st ledger.Settlement) (ledger.Charge, error) {
	return s.any().Settle(ctx, st)
}

func (s *spread) Waiting(ctx context.Context, provider, after string, limit int) ([]ledger.Waiting, error) {
	return s.any().Waiting(ctx, provider, after, limit)
}

func (s *spread) CountWaiting(ctx context.Context) (map[string]int64, error) {
	return s.any().CountWaiting(ctx)
}

func (s *spread) AddReceipt(
	ctx context.Context, attempt string, usage llm.Usage,
) (c ledger.Charge, applied bool, err error) {
	return s.any().AddReceipt(ctx, attempt, usage)
}

func (s *spread) CloseUnproven(ctx context.Context, before time.Time) (ledger.Closings, error) {
	return s.any().CloseUnproven(ctx, before)
}

func (s *spread) Loss() *ledger.Loss {
	return s.any().Loss()
}

func (s *spread) AcceptLoss(ctx context.Context, reason string) (ledger.Loss, error) {
	return s.any().AcceptLoss(ctx, reason)
}

func (s *spread) EndPeriods(ctx context.Context) (accounts int64, err error) {
	return s.any().EndPeriods(ctx)
}

func (s *spread) MakeCheckpoint(ctx context.Context) (ledger.Checkpoint, error) {
	return s.any().MakeCheckpoint(ctx)
}

func (s *spread) Learn(ctx context.Context, fold func(kept []ledger.Learned) []ledger.Learned) error {
	return s.any().Learn(ctx, fold)
}

func (s *spread) Prune(ctx context.Context, before time.Time) (requests int64, err error) {
	return s.any().Prune(ctx, before)
}

func (s *spread) Shrink(ctx context.Context) (ledger.Shrunk, error) {
	return s.any().Shrink(ctx)
}
