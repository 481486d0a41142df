package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/spool"
)

// OpenToMove opens the ledger in a database that no gateway has open, and leaves nothing beside it that belongs into
// it: the settlements of the spool are taken up, and what dead processes held is released, as a gateway does when it
// starts. cfg is the gateway's; without one (nil) no period ends. ledger.ErrLocked when a gateway has it;
// ledger.ErrInvalid while an operator has something to decide about what lies beside it.
func OpenToMove(ctx context.Context, database string, cfg *config.Config,
	open func(ledger.Options) (live.Store, error), log *slog.Logger) (store live.Store, closeAll func() error, err error) {
	options := ledger.Options{Logger: log}
	if cfg != nil {
		terms := newPlans(log)
		terms.use(cfg.Plans)
		options.Terms = terms.of
	}
	store, err = open(options)
	if err != nil {
		return nil, nil, err
	}
	closeAll = store.Close
	if err = checkPlans(ctx, store, cfg); err == nil {
		err = store.Loss().Undecided()
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	left, err := openSettler(spool.Path(database), store, newMetrics(""), log, &Options{Now: time.Now})
	if err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	closeAll = func() error { return errors.Join(store.Close(), left.spool.Close()) }
	if err := left.settleToMove(ctx, &predecessors{spool: spool.Path(database)}, store); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return store, closeAll, nil
}

// checkPlans refuses a configuration that lacks a plan that accounts are on, as a gateway's start does.
func checkPlans(ctx context.Context, store ledger.Store, cfg *config.Config) error {
	inUse, err := store.Plans(ctx)
	if err != nil || cfg == nil {
		return err
	}
	for _, name := range inUse {
		if _, has := cfg.Plan(name); !has {
			return fmt.Errorf("%w: accounts are on the plan %q, which the configuration lacks: put its block back first",
				ledger.ErrInvalid, name)
		}
	}
	return nil
}

func (t *settler) settleToMove(ctx context.Context, p *predecessors, store live.Store) error {
	if err := t.reopenUnbooked(ctx, store); err != nil {
		return err
	}
	if err := t.takeUpEverything(ctx, p, store); err != nil {
		return err
	}
	if len(p.livingOwners()) > 0 {
		return fmt.Errorf("%w: a process that has handed the ledger over still runs requests; wait until it has ended",
			ledger.ErrLocked)
	}
	if n := t.spool.Aside().Undecided(); n > 0 {
		return fmt.Errorf("%w: %d items of the spool are kept aside and wait for a decision: %s; then move the ledger",
			ledger.ErrInvalid, n, toDecide)
	}
	return nil
}

// besideDatabase are what lies beside a database and is no part of its ledger, by what stands behind its name: how
// requests were routed, what came of them, and what was decided about the spool.
var besideDatabase = []func(database string) string{DecisionsPath, JournalPath,
	func(database string) string { return spool.AsidePath(spool.Path(database)) }}

// RenameBeside has what lies beside a database belong to another one in the same folder: to the name that a gateway
// uses whose ledger is a server's. What is there under that name stays. It is repeated without harm.
func RenameBeside(from, to string) error {
	for _, path := range besideDatabase {
		_, err := os.Lstat(path(to))
		if !errors.Is(err, fs.ErrNotExist) {
			continue // it is there, or nobody can tell
		}
		for _, part := range [...]string{"-wal", "-shm", ""} { // of a database's files the log first, and it last
			if err := os.Rename(path(from)+part, path(to)+part); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("renaming what lies beside the ledger: %w", err)
			}
		}
	}
	return nil
}
