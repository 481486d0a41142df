package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Log keeps what has ended until the store has taken it up.
type Log interface {
	// Append keeps a request that has ended: it survives what the log is to survive when it returns nil. number is what
	// Release is told.
	Append(c *book.Course) (number uint64, err error)
	// Release says that the store has taken up appended ones. covered is how many movements it has with them and all
	// those before them, 0 where that was said before.
	Release(covered int64, numbers ...uint64)
	// Empty has nobody find what was released, where that is all.
	Empty() error
}

// Options say how requests are decided.
type Options struct {
	ledger.Options
	// Interval is how long the store may be behind what was decided. Default: 50 ms.
	Interval time.Duration
	// After is the clock of the Interval, and of the pauses after failures. Default: time.After.
	After func(time.Duration) <-chan time.Time
	// Refuse is told of an end that the store cannot take up, and of one that it had settled before (TakenUp.Before), at
	// another charge perhaps: it stays in the log while Refuse returns an error. Default: it logs what cannot be taken up.
	Refuse func(c *book.Course, t book.TakenUp) error
	// MaxAccounts bounds how many accounts are kept that run nothing. Default: 65,536.
	MaxAccounts int
}

func (o *Options) fill() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.WaitTimeout == 0 {
		o.WaitTimeout = 5 * time.Second
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration, int) {}
	}
	if o.Interval == 0 {
		o.Interval = 50 * time.Millisecond
	}
	if o.MaxAccounts == 0 {
		o.MaxAccounts = 1 << 16
	}
	if o.Refuse == nil {
		o.Refuse = func(c *book.Course, t book.TakenUp) error {
			if !t.Before {
				o.Logger.Error("a request cannot be put on record", "request_id", c.ID, "error", t.Err)
			}
			return nil
		}
	}
}

// Ledger decides requests in memory, over a store. Its methods may be called concurrently.
type Ledger struct {
	store Store
	log   Log
	o     Options
	owner string

	mu         sync.Mutex // guards what follows; who has an account's lock may take it
	accounts   map[string]*account
	requests   map[string]*request // that run
	settled    book.SettledIDs
	prices     map[priceID]prices
	closed     bool
	handedOver atomic.Bool // the ledger is handed over

	// barrier is set while an operation about more than one account runs, and closed after it.
	barrier atomic.Pointer[chan struct{}]
	whole   sync.Mutex // held by that operation

	queue queue
}

type priceID struct {
	route   string
	version int64
}

type prices struct{ price, cost config.Price }

// Open decides over a store, which it closes in the end. The store has taken up what was in the log before.
func Open(ctx context.Context, store Store, log Log, o Options) (*Ledger, error) {
	o.fill()
	highest, err := store.HighestRequest(ctx)
	if err != nil {
		return nil, err
	}
	l := &Ledger{
		store: store, log: log, o: o, owner: store.BootID(), accounts: map[string]*account{}, requests: map[string]*request{},
		prices: map[priceID]prices{},
	}
	l.settled.Reset(highest)
	l.queue.start(l)
	return l, nil
}

// Close has everything taken up that was decided, and closes the store. What it does not take up the log has.
func (l *Ledger) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	if !l.handedOver.Load() {
		l.queue.close()
	}
	return l.store.Close()
}

// Away reports whether the store does not take up what it is given, and which requests that have ended wait for it
// then.
func (l *Ledger) Away() (away bool, w Backlog) {
	q := &l.queue
	if !q.failed.Load() {
		return false, w
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.Settlements = q.logged; w.Settlements > 0 && len(q.ends) > 0 {
		w.Since = q.ends[0].course.End.At
	}
	return true, w
}

// HandOver hands the ledger over to the next process that opens the store: everything that was decided is taken up, the
// running holds too, and the store is closed. before is called in between, to put the log where the next process looks
// for it (see package engine).
//
// What still runs here settles into the log alone from then on, which the next process takes up once this one has
// ended; until then it counts the holds. Nothing is admitted any more but further attempts that need neither more
// credits nor a record before their call.
func (l *Ledger) HandOver(ctx context.Context, before func() error) error {
	return l.ExcludeAll(ctx, func() error {
		if err := before(); err != nil {
			return err
		}
		l.handedOver.Store(true)
		l.queue.close()
		return l.store.Close()
	})
}

// IsHandedOver reports whether the ledger is handed over.
func (l *Ledger) IsHandedOver() bool { return l.handedOver.Load() }

// CheckAlive returns unless something in this process that each request goes through hangs.
func (l *Ledger) CheckAlive() {
	l.findRunning("")
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
}

func (l *Ledger) now() time.Time { return l.o.Now().UTC() }

// observe reports how long a caller waited.
func (l *Ledger) observe(operation string, start time.Time, batch int) {
	l.o.Observe(operation, l.o.Now().Sub(start), batch)
}

// price finds a version of a route's price.
func (l *Ledger) price(ctx context.Context, route string, version int64) (prices, error) {
	id := priceID{route, version}
	l.mu.Lock()
	p, ok := l.prices[id]
	l.mu.Unlock()
	if ok {
		return p, nil
	}
	var err error
	if p.price, p.cost, err = l.store.ReadPrice(ctx, route, version); err != nil {
		return p, err
	}
	l.mu.Lock()
	l.prices[id] = p
	l.mu.Unlock()
	return p, nil
}

// findRunning finds a running request; nil for none.
func (l *Ledger) findRunning(id string) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests[id]
}

// wait waits for an event.
func (l *Ledger) wait(ctx context.Context, event <-chan struct{}) error {
	timer := time.NewTimer(l.o.WaitTimeout)
	defer timer.Stop()
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the ledger: %w: %w", ledger.ErrUnavailable, context.Cause(ctx))
	case <-timer.C:
		return tooSlow(l.o.WaitTimeout)
	}
}

func tooSlow(timeout time.Duration) error {
	return fmt.Errorf("waiting for the ledger: %w: its disk did not answer within %s", ledger.ErrUnavailable, timeout)
}

var (
	errClosed = errors.New("it is closed")
	errOver   = fmt.Errorf("%w: it is handed over to another process", ledger.ErrUnavailable)
)

func closedError() error { return fmt.Errorf("%w: %w", ledger.ErrUnavailable, errClosed) }
