package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/backup"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/shared"
	"github.com/fareway/fareway/modules/internal/spool"
)

// openLedger takes the ledger and the spool beside it, and puts right what a dead process left: the settlements of
// the spool come first, then the holds without a settlement are released.
func (e *Engine) openLedger(o *Options, cfg *config.Config) (err error) {
	log := slog.New(e.log)
	path := cfg.Store.File(o.DataDir)
	e.metrics.files.watch(o.DataDir, path)
	if cfg.Store.Kind != config.Postgres { // whose backups are its own tools'
		e.metrics.backup.watch(path, o.Now)
	}
	options := ledger.Options{
		Now:         o.Now,
		Terms:       e.plans.of,
		WaitTimeout: o.LedgerTimeout,
		Logger:      log,
		Observe:     e.metrics.observeLedger,
		Behind:      cfg.Store.Durability == config.DurableProcess,
	}
	store, err := o.OpenStore(cfg.Store, o.DataDir, options)
	if err != nil {
		return fmt.Errorf("opening the ledger: %w", err)
	}
	e.store = store // until there is the ledger over it
	e.predecessors.spool = spool.Path(path)
	for _, left := range []string{backup.BackupWork, backup.RestoreWork} {
		files.RemoveLeftWork(o.DataDir, left) // by commands that were killed
		files.RemoveLeftWork(filepath.Dir(path), left)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.closeLedger())
		}
	}()
	ctx := context.Background()
	// Before anything touches an account: without its plan it would lose its period.
	if err := e.keepPlans(ctx, cfg); err != nil {
		return err
	}
	if e.settler, err = openSettler(spool.Path(path), store, e.metrics, log, o); err != nil {
		return err
	}
	e.settler.noteCharged = e.requests.noteCharged
	e.aside = &Aside{file: e.settler.spool.Aside(), ledger: store, now: o.Now, changed: e.settler.countAside}
	switch store := store.(type) {
	case live.Store:
		err = e.openLive(ctx, store, options, o)
	case shared.Store:
		err = e.openShared(ctx, store, o)
	default:
		err = fmt.Errorf("opening the ledger: a store of kind %q can neither be decided over nor shared", cfg.Store.Kind)
	}
	if err != nil {
		return err
	}
	e.metrics.watchSpool(func() int64 { return e.spooled().Settlements })
	e.awaitPredecessors()
	return nil
}

// openLive opens the ledger that decides in this process's memory, over a store of its own.
func (e *Engine) openLive(ctx context.Context, store live.Store, options ledger.Options, o *Options) (err error) {
	e.base = store
	if options.Behind {
		e.settler.spool.SyncBehind()
	}
	if err := e.settler.reopenUnbooked(ctx, e.store); err != nil {
		return err
	}
	if store.PowerCut() {
		if err := e.settler.bookTorn(ctx); err != nil {
			return err
		}
	}
	e.settler.countAside()
	if store.Loss() == nil { // else what dead processes left belongs to the ledger that is missing, which may be put back
		if err := e.settler.takeUpEverything(ctx, &e.predecessors, e.base); err != nil {
			return err
		}
	} else if _, release, err := e.predecessors.lockEnded(); err != nil {
		return err
	} else {
		release()
	}
	e.live, err = live.Open(ctx, store, live.SpoolLog{Spool: e.settler.spool}, live.Options{
		Options: options, After: o.After, Refuse: e.settler.refuse})
	if err != nil {
		return err
	}
	e.settler.spool.SetWitness(store.WitnessLog)
	if options.Behind {
		e.syncer = startSyncer(e.settler.spool, store, e.timer, options.Logger)
	}
	e.store, e.away, e.aside.ledger = e.live, e.live.Away, e.live
	return nil
}

// openShared opens the ledger over a store that other processes have open, too: the settlements of this one's spool
// come first, for the others may have released their holds already, and then what nodes hold that are gone.
func (e *Engine) openShared(ctx context.Context, store shared.Store, o *Options) error {
	if err := e.settler.reopenUnbooked(ctx, e.store); err != nil {
		return err
	}
	e.settler.countAside()
	if err := e.settler.takeUp(ctx); err != nil {
		return err
	}
	if _, err := store.Recover(ctx); err != nil {
		return err
	}
	e.shared = shared.Open(store, e.settler.spool, shared.Options{Now: o.Now, After: o.After, Logger: e.Logger(),
		Apply: func(ctx context.Context) (int64, error) { return e.settler.apply(ctx, nil) }})
	e.away = func() (bool, live.Backlog) {
		away, waiting, since := e.shared.Away()
		return away, live.Backlog{Settlements: waiting, Since: since}
	}
	e.store = e.shared // and decisions about what is aside go by the store itself, so that none comes into the spool
	return nil
}

// reopenUnbooked has what was decided about the spool in another copy of the ledger decided anew.
func (t *settler) reopenUnbooked(ctx context.Context, books ledger.Books) error {
	unbooked, err := findUnbooked(ctx, books, t.spool.Aside().Items())
	if err == nil && len(unbooked) > 0 {
		t.log.Error("what was decided about the spool was decided in another copy of the ledger: it is to be applied "+
			"to this one, or decided anew: "+toDecide, "items", len(unbooked))
		t.spool.Aside().Reopen(unbooked)
	}
	return err
}

// takeUpEverything takes up what dead processes left: the ledger's own spool, then what takeUpLeft does. Nobody decides
// about the ledger meanwhile.
func (t *settler) takeUpEverything(ctx context.Context, p *predecessors, store live.Store) error {
	if err := t.takeUp(ctx); err != nil {
		return err
	}
	return t.takeUpLeft(ctx, p, store)
}

// Durability is what a charge survives that was acknowledged.
func (c *configuration) Durability() config.Durability {
	return cmp.Or(c.where.Durability, config.DurablePower)
}

// spooled is what waits in the spool because the store is away.
func (e *Engine) spooled() live.Backlog {
	if e.store.Loss() != nil {
		return live.Backlog{Settlements: e.settler.spool.Len()}
	}
	_, waiting := e.away()
	return waiting
}

// AcceptLoss goes on without what the ledger has lost (see ledger.Store), and takes up what was left for it.
func (e *Engine) AcceptLoss(ctx context.Context, reason string) (ledger.Loss, error) {
	loss, err := e.store.AcceptLoss(ctx, reason)
	if err != nil || e.live == nil {
		return loss, err
	}
	ctx = context.WithoutCancel(ctx)
	err = e.live.ExcludeAll(ctx, func() error { return e.settler.takeUpEverything(ctx, &e.predecessors, e.base) })
	if err != nil {
		return loss, fmt.Errorf("the loss is accepted, and what dead processes left could not be taken up, which a "+
			"restart does: %w", err)
	}
	return loss, nil
}

func (e *Engine) closeLedger() error {
	var errs []error
	if e.syncer != nil {
		errs = append(errs, e.syncer.close())
	}
	if err := e.store.Close(); err != nil {
		errs = append(errs, fmt.Errorf("closing the ledger: %w", err))
	}
	if e.settler != nil {
		errs = append(errs, e.settler.spool.Close())
	}
	return errors.Join(errs...)
}

// Ledger is the one door through which requests come to the ledger. The store behind it bounds the waiting: what takes
// longer than Options.LedgerTimeout is ledger.ErrUnavailable.
type Ledger struct {
	store ledger.Store
}

// Ledger is the engine's.
func (c *core) Ledger() Ledger { return Ledger{c.store} }

// Account is an account with its balance.
func (l Ledger) Account(ctx context.Context, id string) (ledger.Account, error) {
	return l.store.Account(ctx, id)
}

// Check returns what Hold would refuse with, and holds nothing.
func (l Ledger) Check(ctx context.Context, account, key string, microcents, tokens int64) error {
	return l.store.Check(ctx, account, key, microcents, tokens)
}

// Hold admits a request and records its first attempt: both are durable when it returns nil, unless they may be behind
// (see ledger.Hold).
func (l Ledger) Hold(ctx context.Context, h ledger.Hold) error {
	_, err := l.store.Hold(ctx, h)
	return err
}

// Begin records a further attempt of a request, and raises its hold where that takes more (see ledger.Store).
func (l Ledger) Begin(ctx context.Context, n ledger.Next) error { return l.store.Begin(ctx, n) }

// Refer notes what the upstream of a running attempt is asked by for its receipt. It does not wait (see ledger.Store).
func (l Ledger) Refer(attempt, reference string) { l.store.Refer(attempt, reference) }

// Settle ends a request. It is durable when Settle returns nil, also while the store is away: it is in the spool then.
//
// Settle does not depend on ctx's end. A settlement that the ledger refuses is a failure of the service: the request
// is settled as free, and the error says why. ledger.ErrUnavailable says that neither the spool nor the store has it
// yet.
func (l Ledger) Settle(ctx context.Context, s ledger.Settlement) (ledger.Charge, error) {
	charge, err := l.store.Settle(context.WithoutCancel(ctx), s)
	if err == nil || errors.Is(err, ledger.ErrUnavailable) || s.Free {
		return charge, err
	}
	_, freeErr := l.Settle(ctx, asFree(s))
	return ledger.Charge{}, errors.Join(err, freeErr)
}
