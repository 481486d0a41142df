package engine

import (
	"context"
	"errors"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
)

// JournalPath is the folder in which outcomes are kept to train by, of a ledger.
func JournalPath(database string) string { return database + ".outcomes" }

// openJournal is called once the ledger's lock says that no other process has the data folder.
func (l *learning) openJournal(o *Options, cfg *config.Config) {
	l.journal = journal.Open(journal.Options{
		Dir: JournalPath(cfg.Store.File(o.DataDir)),
		Settings: func() config.Outcomes {
			if g := l.Current(); g != nil {
				return g.Config.Outcomes
			}
			return cfg.Outcomes
		},
		Now:    o.Now,
		Logger: l.Logger(),
		Lost:   l.metrics.outcomesLost,
	})
}

// Journal keeps outcomes to train by.
func (l *learning) Journal() *journal.Journal { return l.journal }

// keepTold keeps what somebody says of a request, where outcomes of its account may be kept: by what it and its plan
// demanded then, and demand now.
func (l *learning) keepTold(ctx context.Context, id, route, model string, good bool) error {
	g := l.Current()
	if g == nil || !g.Config.Outcomes.On {
		return nil
	}
	d, err := l.decisions.Find(ctx, id)
	if errors.Is(err, decisions.ErrNotFound) {
		return nil // what it looked like is not known any more
	}
	if err != nil {
		return err
	}
	account, err := l.store.Account(ctx, d.Account)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	demanded := d.Requires.And(PlanOf(g.Config, account).Requires)
	if len(d.Traits.Signal) == 0 || !g.Config.Outcomes.Allows(&demanded) {
		return nil
	}
	score := 0.0
	if good {
		score = 1
	}
	l.journal.Add(journal.Line{ID: id, Account: d.Account, Route: route, Model: model, Score: score, From: journal.Told,
		Signal: d.Traits.Signal})
	return nil
}
