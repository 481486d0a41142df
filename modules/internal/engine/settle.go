package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// applyAtOnce is how many settlements of the spool are given to the ledger together: they share commits.
	applyAtOnce = 256
	// asideLines is how many of many items that are kept aside have a line of their own.
	asideLines = 5
	// The pauses between two attempts to apply them: the first one, doubled each time up to the longest.
	firstApplyPause = 250 * time.Millisecond
	maxApplyPause   = 5 * time.Second
)

// settling is the part of the ledger that ends requests.
type settling interface {
	Settle(ctx context.Context, s ledger.Settlement) (ledger.Charge, error)
	AddReceipt(ctx context.Context, attempt string, usage llm.Usage) (c ledger.Charge, applied bool, err error)
	RecordAct(ctx context.Context, action, account, subject string, after map[string]any) error
}

// Ending is the settlement of a request, with what it takes to charge it when the ledger has lost the request: it
// goes into the spool with it.
type Ending struct {
	ledger.Settlement
	Account, Key string // ids
	Attempts     []Tried
	// Charge is what the settlement comes to by its usage and prices, as its client is told.
	Charge ledger.Charge
}

// Tried is an attempt with its price.
type Tried struct {
	ledger.Attempt
	Price config.Price
}

// settler ends requests in the ledger, or in the spool while the ledger is away. What is in the spool comes into the
// ledger as soon as that is back.
type settler struct {
	ledger  settling
	spool   *spool.Spool
	metrics *Metrics
	log     *slog.Logger
	now     func() time.Time
	after   func(time.Duration) <-chan time.Time

	// away: the ledger did not take a settlement, and has taken none of the spool since. While it is set, nobody
	// waits for the ledger in vain.
	away atomic.Bool
	// aside is how many lines were written about single items since the spool was last empty. Only who applies uses it.
	aside int
	wake  chan struct{} // capacity 1: something came into the spool

	stop    context.CancelFunc
	running sync.WaitGroup
}

// openSettler opens the spool at path.
func openSettler(path string, l settling, m *Metrics, log *slog.Logger, o *Options) (*settler, error) {
	s, err := spool.Open(path, o.SpoolSize)
	if err != nil {
		return nil, err
	}
	if n := s.Torn(); n > 0 {
		log.Warn("the spool ends in a settlement that was not written to its end; its hold is released",
			"path", path, "bytes", n)
	}
	m.spool(s.Len())
	t := &settler{
		ledger: l, spool: s, metrics: m, log: log, now: o.Now, after: o.After,
		wake: make(chan struct{}, 1),
	}
	if n := s.Aside().Undecided(); n > 0 {
		log.Error("what was in the spool could not be applied or read and is kept aside; an operator has to decide: "+
			toDecide, "undecided", n, "file", s.Aside().Path())
	}
	return t, nil
}

// start begins to apply what comes into the spool.
func (t *settler) start() {
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.running.Go(func() { t.run(ctx) })
}

// close leaves what is in the spool to the next start.
func (t *settler) close() error {
	if t.stop != nil {
		t.stop()
	}
	t.running.Wait()
	return t.spool.Close()
}

func (t *settler) settle(ctx context.Context, end Ending) (ledger.Charge, error) {
	if t.away.Load() {
		return t.keep(end, nil)
	}
	charge, err := t.ledger.Settle(context.WithoutCancel(ctx), end.Settlement)
	switch {
	case err == nil:
		return charge, nil
	case errors.Is(err, ledger.ErrUnavailable):
		return t.keep(end, err)
	case end.Free:
		return ledger.Charge{}, err
	}
	free := Ending{Settlement: asFree(end.Settlement), Account: end.Account, Key: end.Key, Attempts: end.Attempts}
	_, freeErr := t.settle(ctx, free)
	return ledger.Charge{}, errors.Join(err, freeErr)
}

// asFree is the settlement of a request whose own settlement the ledger refused: the hold must not stay.
func asFree(s ledger.Settlement) ledger.Settlement {
	return ledger.Settlement{Request: s.Request, Status: http.StatusInternalServerError, Reason: "ledger", Free: true}
}

// keep puts a settlement into the spool; why is what the ledger said, nil when it was not asked.
func (t *settler) keep(end Ending, why error) (ledger.Charge, error) {
	if err := t.spool.Append(t.record(end)); err != nil {
		return ledger.Charge{}, errors.Join(fmt.Errorf("%w: %w", ledger.ErrUnavailable, err), why)
	}
	t.metrics.spool(1)
	if why != nil && !t.away.Swap(true) {
		t.log.Error("the ledger is away; settlements are kept in the spool until it is back", "error", why)
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return end.Charge, nil
}

// record is what the spool keeps of an ending.
func (t *settler) record(end Ending) spool.Record {
	r := spool.Record{Settlement: end.Settlement, Account: end.Account, Key: end.Key,
		Charge: &end.Charge.Microcents, Pending: end.Charge.Pending, Time: t.now().UTC()}
	for _, a := range end.Attempts {
		r.Attempts = append(r.Attempts, spool.Attempt{ID: a.ID, Route: a.Route, Provider: a.Provider, Model: a.Model,
			PriceVersion: a.PriceVersion, Price: spoolPrice(a.Price)})
	}
	return r
}

func spoolPrice(p config.Price) spool.Price {
	s := spool.Price{Input: p.Input, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, Output: p.Output}
	for _, t := range p.Tiers {
		s.Tiers = append(s.Tiers, spool.Tier(t))
	}
	return s
}
