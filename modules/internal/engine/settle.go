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

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
)

const (
	// defaultPatience is how long a request waits for the ledger, unless Options say otherwise.
	defaultPatience = 5 * time.Second

	// applyAtOnce is how many settlements of the spool are given to the ledger together: they share commits.
	applyAtOnce = 256
	// The pauses between two attempts to apply them: the first one, doubled each time up to the longest.
	firstApplyPause = 250 * time.Millisecond
	maxApplyPause   = 5 * time.Second
)

// settling is the part of the ledger that ends requests.
type settling interface {
	Settle(ctx context.Context, s ledger.Settlement) (ledger.Charge, error)
}

// settler ends requests in the ledger, or in the spool while the ledger is away. What is in the spool comes into the
// ledger as soon as that is back.
type settler struct {
	ledger   settling
	spool    *spool.Spool
	patience time.Duration
	metrics  *Metrics
	log      *slog.Logger
	after    func(time.Duration) <-chan time.Time

	// away: the ledger did not take a settlement, and has taken none of the spool since. While it is set, nobody
	// waits for the ledger in vain.
	away atomic.Bool
	wake chan struct{} // capacity 1: something came into the spool

	stop    context.CancelFunc
	running sync.WaitGroup
}

// openSettler opens the spool at path.
func openSettler(path string, l settling, m *Metrics, log *slog.Logger, o *Options) (*settler, error) {
	s, err := spool.Open(path)
	if err != nil {
		return nil, err
	}
	if n := s.Torn(); n > 0 {
		log.Warn("the spool ends in a settlement that was not written to its end; its hold is released", "path", path, "bytes", n)
	}
	m.spool(s.Len())
	return &settler{ledger: l, spool: s, patience: o.Patience, metrics: m, log: log, after: o.After, wake: make(chan struct{}, 1)}, nil
}

// takeUp gives the ledger what an earlier process left in the spool. That has to happen before the ledger recovers,
// which settles those requests at nothing.
func (t *settler) takeUp(ctx context.Context) error {
	found := t.spool.Len()
	for t.spool.Len() > 0 {
		if _, err := t.apply(ctx); err != nil {
			return fmt.Errorf("applying the settlements of the spool: %w", err)
		}
	}
	if found > 0 {
		t.log.Info("the settlements of the spool are applied", "settlements", found)
	}
	return nil
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

// WithPatience bounds how long a request waits for an answer of the ledger.
func (e *Engine) WithPatience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, e.patience)
}

// Settle ends a request. It is durable when Settle returns nil, also while the ledger is away: then it goes to the
// spool, and the charge is computed, which is what the settlement comes to by its usage and prices. What the ledger
// makes of it later differs where fair use leaves a request free (GAP-54): computed does not know that, the client
// of such a request is not told an amount, and the ledger's word is what counts.
//
// Settle does not depend on ctx's end and waits for Options.Patience at most. A settlement that the ledger refuses is a
// failure of the service: the request is settled as free, and the error says why. ledger.ErrUnavailable says that the spool
// did not take it either; the hold stays until the next start then.
func (e *Engine) Settle(ctx context.Context, s ledger.Settlement, computed ledger.Charge) (ledger.Charge, error) {
	return e.settler.settle(ctx, s, computed)
}

func (t *settler) settle(ctx context.Context, s ledger.Settlement, computed ledger.Charge) (ledger.Charge, error) {
	if t.away.Load() {
		return t.keep(s, computed, nil)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.patience)
	defer cancel()
	charge, err := t.ledger.Settle(bounded, s)
	switch {
	case err == nil:
		return charge, nil
	case errors.Is(err, ledger.ErrUnavailable):
		return t.keep(s, computed, err)
	case s.Free:
		return ledger.Charge{}, err
	}
	_, freeErr := t.settle(ctx, asFree(s), ledger.Charge{})
	return ledger.Charge{}, errors.Join(err, freeErr)
}

// asFree is the settlement of a request whose own settlement the ledger refused: the hold must not stay.
func asFree(s ledger.Settlement) ledger.Settlement {
	return ledger.Settlement{Request: s.Request, Status: http.StatusInternalServerError, Reason: "ledger", Free: true}
}

// keep puts a settlement into the spool; why is what the ledger said, nil when it was not asked.
func (t *settler) keep(s ledger.Settlement, computed ledger.Charge, why error) (ledger.Charge, error) {
	if err := t.spool.Append(s); err != nil {
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
	return computed, nil
}

// run applies what comes into the spool, until ctx ends.
func (t *settler) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		var applied int64
		for pause := firstApplyPause; t.spool.Len() > 0; {
			n, err := t.apply(ctx)
			if applied += n; err == nil {
				pause = firstApplyPause
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-t.after(pause):
			}
			pause = min(2*pause, maxApplyPause)
		}
		t.away.Store(false)
		if applied > 0 {
			t.log.Info("the ledger is back; the settlements of the spool are applied", "settlements", applied)
		}
	}
}

// apply gives the ledger the oldest settlements of the spool, and returns how many those are. When it does not take
// all of them at the moment, they all stay: a repetition changes nothing.
func (t *settler) apply(ctx context.Context) (int64, error) {
	batch, err := t.spool.Oldest(applyAtOnce)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	errs := make([]error, len(batch.Settlements))
	var asking sync.WaitGroup
	for i, s := range batch.Settlements {
		asking.Go(func() { errs[i] = t.applyOne(ctx, s) })
	}
	asking.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	n := int64(len(batch.Settlements))
	t.metrics.spool(-n)
	if err := t.spool.Applied(batch); err != nil {
		t.log.Error("the settlements of the spool are applied, and will be again", "error", err)
	}
	return n, nil
}

// applyOne returns an error when the ledger is away. A settlement that it refuses is in the log: nothing else can be
// done with it.
func (t *settler) applyOne(ctx context.Context, s ledger.Settlement) error {
	_, err := t.ledger.Settle(ctx, s)
	if err != nil && !errors.Is(err, ledger.ErrUnavailable) {
		t.log.Error("the ledger refuses a settlement of the spool; the request is free", "request_id", s.Request, "error", err)
		if _, err = t.ledger.Settle(ctx, asFree(s)); !errors.Is(err, ledger.ErrUnavailable) {
			err = nil
		}
	}
	if err == nil {
		t.away.Store(false) // it takes settlements again
	}
	return err
}
