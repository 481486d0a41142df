package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

// openLedger takes the ledger and the spool beside it, and puts right what a dead process left: the settlements of
// the spool come first, then the holds without a settlement are released.
func (e *Engine) openLedger(o *Options, cfg *config.Config) (err error) {
	log := slog.New(e.log)
	path := cfg.Store.File(o.DataDir)
	store, err := sqlite.Open(sqlite.Options{
		Path:     path,
		Now:      o.Now,
		Terms:    e.plans.of,
		Patience: o.Patience,
		Logger:   log,
		Observe:  e.metrics.observeLedger,
	})
	if err != nil {
		return fmt.Errorf("opening the ledger: %w", err)
	}
	e.store = store
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
	if e.settler, err = openSettler(spoolPath(path), store, e.metrics, log, o); err != nil {
		return err
	}
	e.aside = &Aside{file: e.settler.spool.Aside(), ledger: store, now: o.Now, changed: e.settler.countAside}
	if err := e.settler.takeUp(ctx); err != nil {
		return err
	}
	if _, err := store.Recover(ctx); err != nil {
		return err
	}
	e.settler.start()
	return nil
}

func (e *Engine) closeLedger() error {
	var errs []error
	if e.settler != nil {
		errs = append(errs, e.settler.close())
	}
	if err := e.store.Close(); err != nil {
		errs = append(errs, fmt.Errorf("closing the ledger: %w", err))
	}
	return errors.Join(errs...)
}
