package engine

import (
	"context"
	"errors"

	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
)

// JournalPath is the folder in which outcomes are kept to train by, of a ledger.
func JournalPath(database string) string { return database + ".outcomes" }

// Journal keeps outcomes to train by.
func (l *learning) Journal() *journal.Journal { return l.journal }

// keepFeedback keeps what somebody says of a request, where outcomes of its account may be kept: by what it and its
// plan demanded then, and demand now.
func (l *learning) keepFeedback(ctx context.Context, id, route, model string, good bool) error {
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
