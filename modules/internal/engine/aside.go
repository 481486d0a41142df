package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/spool"
)

// SpoolState is what there is to know of a spool.
type SpoolState struct {
	live.Backlog
	Undecided int64 // items of Aside that wait for an operator
	// Damaged is what is damaged in a spool that nobody has open, and not yet kept aside.
	Damaged []spool.Item
	Aside   string // the path of the file with what was kept aside
}

// Spool is the state of the engine's spool.
func (e *Engine) Spool() SpoolState {
	s := e.settler.spool
	return SpoolState{Backlog: e.spooled(), Undecided: s.Aside().Undecided(), Aside: s.Aside().Path()}
}

// ReadSpool reads the state of the spool beside a database that no gateway has open, and what was kept aside, for the
// books of that database. It changes nothing.
func ReadSpool(ctx context.Context, database string, books ledger.Books) (SpoolState, []spool.Item, error) {
	path := spool.Path(database)
	state := SpoolState{Aside: spool.AsidePath(path)}
	items, err := spool.ReadAside(state.Aside)
	if err != nil {
		return state, nil, err
	}
	unbooked, err := findUnbooked(ctx, books, items)
	if err != nil {
		return state, nil, err
	}
	for i, item := range items {
		if slices.Contains(unbooked, item.ID) {
			items[i] = item.Reopened()
		}
		if items[i].Decision == nil {
			state.Undecided++
		}
	}
	records, damaged, err := spool.Inspect(path)
	if err != nil {
		return state, items, err
	}
	left, err := spool.FindHandedOver(path)
	if err != nil {
		return state, items, err
	}
	for _, path := range left { // of processes that have handed it over
		more, _, err := spool.Inspect(path)
		if err != nil {
			return state, items, err
		}
		records = append(records, more...)
	}
	state.Damaged = damaged
	state.Backlog, err = live.MeasureBacklog(ctx, books, records)
	return state, items, err
}

// findUnbooked finds the items that were decided with an act on the audit trail, and the trail of this ledger does not
// have it: they were decided in another copy.
func findUnbooked(ctx context.Context, books ledger.Books, items []spool.Item) (ids []string, err error) {
	decided := make(map[string]bool)
	for _, item := range items {
		if item.Decision != nil && item.Decision.Booked {
			decided[item.ID] = true
		}
	}
	if len(decided) == 0 {
		return nil, nil
	}
	err = books.Audit(ctx, ledger.Query{}, func(a ledger.Act) error {
		delete(decided, a.Subject)
		return nil
	})
	return slices.Sorted(maps.Keys(decided)), err
}

// asideLedger is the part of the ledger that an operator's decision needs.
type asideLedger interface {
	requestSettler
	Loss() *ledger.Loss
	Correct(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error)
}

// Aside is what the spool had and the ledger does not have, for operators to decide about, each item once. Its
// methods may be called concurrently.
type Aside struct {
	file    *spool.Aside
	ledger  asideLedger
	now     func() time.Time
	changed func()

	mu sync.Mutex // one decision at a time
}

// Aside is the engine's.
func (e *Engine) Aside() *Aside { return e.aside }

// OpenAside opens the aside beside a database that no gateway has open, for decisions; what is damaged in the spool
// is kept aside first, as a gateway does. open opens that database,
// and store is it; closeAll ends all. ledger.ErrLocked when a gateway has it.
func OpenAside(database string, open func(ledger.Options) (live.Store, error), log *slog.Logger) (a *Aside,
	store ledger.Store, closeAll func() error, err error) {
	db, err := open(ledger.Options{Logger: log})
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := spool.Open(spool.Path(database), 0)
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	unbooked, err := findUnbooked(context.Background(), db, s.Aside().Items())
	if err != nil {
		return nil, nil, nil, errors.Join(err, s.Close(), db.Close())
	}
	s.Aside().Reopen(unbooked)
	a = &Aside{file: s.Aside(), ledger: db, now: time.Now, changed: func() {}}
	return a, db, func() error { return errors.Join(s.Close(), db.Close()) }, nil
}

// Path is the file's.
func (a *Aside) Path() string { return a.file.Path() }

// Items are all items, oldest first, those that are decided too.
func (a *Aside) Items() []spool.Item { return a.file.Items() }

// Apply charges what a settlement comes to and its request was not charged: through the ledger's own settlement and
// receipts where it knows the request, and otherwise as a correction of the account's balance, with the reason and
// the request as its reference, which the account takes once. It returns the item with its decision.
// ledger.ErrInvalid for what cannot be applied; spool.ErrUnknown, spool.ErrDecided.
func (a *Aside) Apply(ctx context.Context, id, reason string) (spool.Item, error) {
	return a.decide(ctx, id, reason, spool.Applied)
}

// Discard lets an item be: nobody is charged for it.
func (a *Aside) Discard(ctx context.Context, id, reason string) (spool.Item, error) {
	return a.decide(ctx, id, reason, spool.Discarded)
}

func (a *Aside) decide(ctx context.Context, id, reason string, outcome spool.Outcome) (spool.Item, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	item, err := a.file.Find(id)
	if err != nil {
		return item, err
	}
	if loss := a.ledger.Loss(); loss != nil {
		return item, fmt.Errorf("%w: %s; %s, before the spool is decided about", ledger.ErrLost, loss, ledger.LossAdvice)
	}
	d := spool.Decision{ID: id, Outcome: outcome, Time: a.now(), Actor: ledger.ActorOf(ctx), Reason: reason}
	if outcome == spool.Applied {
		if d.Microcents, err = a.charge(ctx, &item, reason); err != nil {
			return item, err
		}
	}
	if err := recordDecision(ctx, a.ledger, a.file, &item, d); err != nil {
		return item, err
	}
	a.changed()
	item.Decision = &d
	return item, nil
}

// recordDecision puts a decision about an item on the audit trail and into the file, in this order: a crash between
// them leaves an act twice, and none is missing.
func recordDecision(ctx context.Context, l requestSettler, file *spool.Aside, item *spool.Item,
	d spool.Decision) error {
	after := map[string]any{"kind": item.Kind, "reason": d.Reason, "microcents": d.Microcents}
	var account string
	if item.Record != nil {
		account = item.Record.Account
		after["request"] = item.Record.Settlement.Request
	}
	action := "spool.apply"
	if d.Outcome == spool.Discarded {
		action = "spool.discard"
	}
	if err := l.RecordAct(ctx, action, account, item.ID, after); err != nil {
		return err
	}
	d.Booked = true
	return file.Decide(d)
}

// charge charges what an item's request was not charged, and returns how much that is.
func (a *Aside) charge(ctx context.Context, item *spool.Item, reason string) (microcents int64, err error) {
	r := item.Record
	if r == nil {
		return 0, fmt.Errorf("%w: what is damaged cannot be applied; see what its requests were charged "+
			"(`fareway gateway usage REQUEST`), put that right with `fareway gateway credit adjust`, and discard it",
			ledger.ErrInvalid)
	}
	c, err := a.charged(ctx, r)
	if err != nil {
		return 0, err
	}
	switch {
	case r.Charge == nil && c == nil:
		return 0, fmt.Errorf("%w: an older fareway kept it, without what it came to; charge its account with "+
			"`fareway gateway credit adjust` and discard it", ledger.ErrInvalid)
	case r.Charge == nil:
		return 0, nil // the ledger has settled it itself
	}
	missing := *r.Charge
	if c != nil {
		missing -= sumCharged(*c)
	}
	if missing <= 0 {
		return 0, nil
	}
	_, _, err = a.ledger.Correct(ctx, ledger.Correction{
		Account: r.Account, Microcents: -missing, Reference: "spool " + r.Settlement.Request, Reason: reason,
	})
	if errors.Is(err, ledger.ErrNotFound) {
		return 0, fmt.Errorf("%w: the ledger has no account %s; bring the newer copy of the database back, or discard it",
			ledger.ErrInvalid, r.Account)
	}
	return missing, err
}

// charged is what the ledger has charged for a settlement's request, now that it was asked once more; nil when it
// knows nothing of the request.
func (a *Aside) charged(ctx context.Context, r *spool.Record) (*ledger.Charge, error) {
	c, err := a.ledger.Settle(ctx, r.Settlement)
	switch {
	case errors.Is(err, ledger.ErrUnavailable):
		return nil, err
	case err != nil:
		return nil, nil // it refuses it as before
	}
	c, err = addReceipts(ctx, a.ledger, r, c)
	return &c, err
}
