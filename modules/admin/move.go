package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/move"
	"github.com/fareway/fareway/modules/internal/stores"
)

// Moved is what came of moving a ledger.
type Moved struct {
	To string `json:"to"` // without what is secret of the dsn
	// Already: it had been moved there before; nothing was done now.
	Already bool `json:"already,omitempty"`
	// NoStandby: commits of that database wait for no standby.
	NoStandby bool             `json:"no_standby,omitempty"`
	Resumed   bool             `json:"resumed,omitempty"` // an earlier move was gone on with
	Rows      map[string]int64 `json:"rows,omitempty"`    // by table
	Report    *ledger.Report   `json:"verified,omitempty"`
}

// Move takes the ledger, on which no gateway runs, into an empty database, and ends its being served here.
func (o Offline) Move(ctx context.Context, dsn string, progress func(step string, done, of int64)) (m Moved,
	err error) {
	server := stores.Server(dsn)
	if m.To, err = server.Name(); err != nil {
		return m, err
	}
	file := stores.File(o.Ledger)
	quiet := slog.New(slog.DiscardHandler)
	mark, err := file.ReadMove()
	if err != nil {
		return m, fmt.Errorf("looking whether the ledger was moved: %w", err)
	}
	if mark.Done.IsZero() {
		if err := file.CheckUnlocked(); err != nil { // before anything is asked
			return m, err
		}
	}
	target, err := server.OpenTarget(ctx, quiet)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	m.NoStandby = !target.WaitsForStandby()
	if !mark.Done.IsZero() {
		if err := m.finish(ctx, mark, file, target, progress); err != nil {
			return m, err
		}
		return m, o.renameBeside()
	}
	store, closeAll, err := engine.OpenToMove(ctx, o.Ledger, o.Config, file.Open, quiet)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	source, is := store.(move.Source)
	if !is {
		return m, fmt.Errorf("%w: the ledger at %s cannot be moved", ledger.ErrInvalid, o.Ledger)
	}
	// Before the ledger, which is served there once it is moved.
	n, portal, err := file.MovePeople(ctx, server)
	if err != nil {
		return m, err
	}
	done, err := move.Run(ctx, source, target, move.Options{From: here(o.Ledger), To: m.To, Progress: progress})
	if err != nil {
		return m, err
	}
	m.Resumed, m.Rows, m.Report = done.Resumed, done.Rows, &done.Report
	if portal {
		m.Rows["portal_people"] = int64(n)
	}
	return m, o.renameBeside()
}

// finish has the target of a ledger that was moved told so, if it was not.
func (m *Moved) finish(ctx context.Context, mark move.Mark, file stores.File, target move.Target,
	progress func(step string, done, of int64)) error {
	old, err := file.OpenMoved(ctx)
	if err != nil {
		return fmt.Errorf("opening the old ledger, with which the new one is compared: %w", err)
	}
	done, finished, err := move.Finish(ctx, mark, old, target, move.Options{Progress: progress})
	if err = errors.Join(err, old.Close()); err != nil {
		return err
	}
	if m.Already = !finished; finished {
		m.Resumed, m.Rows, m.Report = true, done.Rows, &done.Report
	}
	return nil
}

// renameBeside has what lies beside the ledger belong to the node that the data folder is of from now on.
func (o Offline) renameBeside() error {
	return engine.RenameBeside(o.Ledger, config.Store{Kind: config.Postgres}.File(o.Data))
}

// UndoMove has the ledger served here again that was moved, and returns where it was. What was done there since is not
// in it. The database that it was moved to, by its dsn, is told first, so that at no moment both are served; where dsn
// is "" nobody is told.
func (o Offline) UndoMove(ctx context.Context, dsn string) (was move.Mark, err error) {
	file := stores.File(o.Ledger)
	if was, err = file.ReadMove(); err != nil {
		return was, err
	}
	if was.Done.IsZero() {
		return was, fmt.Errorf("%w: the ledger was not moved", ledger.ErrInvalid)
	}
	if err := file.CheckUnlocked(); err != nil {
		return was, err
	}
	if dsn != "" {
		if err := undoTarget(ctx, stores.Server(dsn), was); err != nil {
			return was, err
		}
	}
	if err := file.UndoMove(); err != nil {
		return was, err
	}
	return was, engine.RenameBeside(config.Store{Kind: config.Postgres}.File(o.Data), o.Ledger)
}

// undoTarget has the database that a ledger was moved to served by nobody.
func undoTarget(ctx context.Context, server stores.Server, was move.Mark) error {
	target, err := server.OpenTarget(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	stage, err := target.FindMove(ctx, was.ID)
	switch {
	case err != nil:
	case stage == "":
		err = fmt.Errorf("%w: this database does not have the ledger, which was moved to %s: name that one",
			ledger.ErrInvalid, was.Target)
	default:
		err = target.UndoMove(ctx, was.ID)
	}
	return errors.Join(err, target.Close())
}

// here names a file of this machine.
func here(path string) string {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return machine + ":" + path
}
