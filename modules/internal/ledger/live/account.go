package live

import (
	"context"
	"errors"
	"sync"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// account is an account in memory: as the store has it, with what was decided since.
type account struct {
	id string

	mu   sync.Mutex    // guards what follows
	busy chan struct{} // until this is closed, the store is asked about it, and nobody decides but an end
	gone bool          // it is kept no more: whoever has it looks for it anew
	book.Account
	loaded bool
	own    int64            // microcents that its running requests hold
	keys   map[string]*line // by the ids of keys
	lines  map[int64]*line  // by their roots
	// It is kept while it has running requests, or some that have ended and that the store has not taken up.
	running, unwritten int
	decided            int64 // how many have ended ever
}

// line is a line of keys in memory.
type line struct {
	book.Line
	loaded  bool
	ownHeld int64 // microcents that running requests hold
	others  int64 // that requests of other owners hold
}

// payer is who pays by a line.
func (l *Ledger) payer(a *account, ln *line) book.Payer {
	return book.Payer{Account: &a.Account, Line: &ln.Line, Terms: l.terms(a), Held: ln.ownHeld + ln.others}
}

func (l *Ledger) terms(a *account) ledger.Terms {
	if l.o.Terms == nil {
		return ledger.Terms{}
	}
	return a.Limits.Over(l.o.Terms(a.Plan))
}

// isOverdue reports whether the account's periods are not up to date. Who does not know the plans ends no periods.
func (l *Ledger) isOverdue(a *account) bool {
	return l.o.Terms != nil && a.Overdue(l.terms(a), l.now())
}

// lockLoaded finds an account with the line of one of its keys, both as they are, and locks it.
func (l *Ledger) lockLoaded(ctx context.Context, id, key string) (*account, *line, error) {
	for {
		a, err := l.lock(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		if ln := a.keys[key]; a.loaded && ln != nil && ln.loaded && !l.isOverdue(a) {
			return a, ln, nil
		}
		if err := l.load(ctx, a, key); err != nil {
			return nil, nil, err
		}
	}
}

// lock locks an account that nobody asks the store about, which may not be loaded.
func (l *Ledger) lock(ctx context.Context, id string) (*account, error) {
	for {
		a, err := l.account(id)
		if err != nil {
			return nil, err
		}
		a.mu.Lock()
		barrier := l.barrier.Load()
		switch {
		case barrier != nil:
			a.mu.Unlock()
			err = l.wait(ctx, *barrier)
		case a.busy != nil:
			busy := a.busy
			a.mu.Unlock()
			err = l.wait(ctx, busy)
		case a.gone:
			a.mu.Unlock()
		default:
			return a, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// account finds or makes an account in memory.
func (l *Ledger) account(id string) (*account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, closedError()
	}
	a, ok := l.accounts[id]
	if !ok {
		if len(l.accounts) >= l.o.MaxAccounts {
			l.forgetIdle()
		}
		a = &account{id: id, keys: map[string]*line{}, lines: map[int64]*line{}}
		l.accounts[id] = a
	}
	return a, nil
}

// forgetIdle lets go of half of the accounts, of those that run nothing.
func (l *Ledger) forgetIdle() {
	left := len(l.accounts) / 2
	for id, a := range l.accounts {
		if !a.mu.TryLock() {
			continue // it is used
		}
		if a.busy == nil && a.running == 0 && a.unwritten == 0 {
			a.gone = true
			delete(l.accounts, id)
			left--
		}
		a.mu.Unlock()
		if left <= 0 {
			return
		}
	}
}

// load reads an account and the line of a key. The account is locked, and is not afterwards.
func (l *Ledger) load(ctx context.Context, a *account, key string) error {
	leave := a.occupy()
	r, err := l.readRows(ctx, a, key)
	defer leave()
	if err != nil {
		if errors.Is(err, ledger.ErrNotFound) && !a.loaded && a.running == 0 {
			l.forget(a)
		}
		return err
	}
	if a.loaded && a.Period != r.Account.Period {
		a.unload()
	}
	a.Account, a.loaded = r.Account, true
	a.Held += a.own
	ln := a.lines[r.Root]
	if ln == nil {
		ln = &line{}
		a.lines[r.Root] = ln
	}
	ln.Line, ln.others, ln.loaded = r.Line, r.Others, true
	a.keys[key] = ln
	return nil
}

// readRows reads an account and the line of a key with everything in them that was decided, and locks the account.
func (l *Ledger) readRows(ctx context.Context, a *account, key string) (r book.Rows, err error) {
	for {
		a.mu.Lock()
		decided := a.decided
		a.mu.Unlock()
		if err = l.flush(ctx); err == nil {
			r, err = l.store.ReadPayer(ctx, a.id, key)
		}
		a.mu.Lock()
		if err != nil || a.decided == decided {
			return r, err
		}
		a.mu.Unlock() // a request has ended that would not wait
	}
}

// occupy keeps others from an account that is locked, and unlocks it. leave, with the account locked again, ends that
// and unlocks it.
func (a *account) occupy() (leave func()) {
	a.busy = make(chan struct{})
	a.mu.Unlock()
	return func() {
		close(a.busy)
		a.busy = nil
		a.mu.Unlock()
	}
}

// unload has the account and its lines read again before they are used.
func (a *account) unload() {
	a.loaded = false
	for _, ln := range a.lines {
		ln.loaded = false
	}
}

// forget lets go of an account that is locked.
func (l *Ledger) forget(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.gone = true
	delete(l.accounts, a.id)
}

// exclude runs an operation of the store about one account ("": about none that is known): what was decided before is
// taken up, and nobody decides about the account meanwhile.
func (l *Ledger) exclude(ctx context.Context, id string, run func() error) error {
	if id == "" {
		if err := l.flush(ctx); err != nil {
			return err
		}
		return run()
	}
	a, err := l.lock(ctx, id)
	if err != nil {
		return err
	}
	leave := a.occupy()
	flushed := l.flush(ctx)
	if err = flushed; err == nil {
		err = run()
	}
	a.mu.Lock()
	if flushed == nil {
		a.unload()
	}
	if !a.loaded && a.running == 0 && a.unwritten == 0 {
		l.forget(a)
	}
	leave()
	return err
}

// ExcludeAll runs an operation of the store about any accounts while nobody decides about one, as exclude does.
func (l *Ledger) ExcludeAll(ctx context.Context, run func() error) error {
	return l.excludeWhile(ctx, func() (bool, error) { return true, run() })
}

// excludeWhile is ExcludeAll for an operation that may find nothing to change: then what memory has stays as it is.
func (l *Ledger) excludeWhile(ctx context.Context, run func() (changed bool, err error)) error {
	l.whole.Lock()
	defer l.whole.Unlock()
	barrier := make(chan struct{})
	l.barrier.Store(&barrier)
	defer func() {
		l.barrier.Store(nil)
		close(barrier)
	}()
	l.mu.Lock()
	closed := l.closed
	all := make([]*account, 0, len(l.accounts))
	for _, a := range l.accounts {
		all = append(all, a)
	}
	l.mu.Unlock()
	if closed {
		return closedError()
	}
	for _, a := range all {
		if err := l.awaitQuiet(ctx, a); err != nil {
			return err
		}
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	changed, err := run()
	if changed || err != nil {
		for _, a := range all {
			a.mu.Lock()
			a.unload()
			a.mu.Unlock()
		}
	}
	return err
}

// awaitQuiet waits until nobody asks the store about an account any more. Who decides about it meanwhile waits then.
func (l *Ledger) awaitQuiet(ctx context.Context, a *account) error {
	for {
		a.mu.Lock()
		if a.busy == nil {
			a.mu.Unlock()
			return nil
		}
		busy := a.busy
		a.mu.Unlock()
		if err := l.wait(ctx, busy); err != nil {
			return err
		}
	}
}
