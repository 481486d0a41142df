// Package shared is the ledger of a process that shares its store with others. The store decides; while it is away,
// what has ended is kept in a log of this process, the spool, and given to the store when it is back.
//
// Holds and attempts never go there: without the store nobody knows what an account has left, so they are refused with
// ledger.ErrUnavailable, before anything is called upstream (GAP-45). A settlement is answered as soon as the store or
// the spool has it. It may come to the store late, when another node has released the request already: the store
// charges it once then. What fair use leaves free (GAP-135) of one that is in the spool the store decides when it
// comes.
package shared

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
	"github.com/fareway/fareway/modules/internal/spool"
)

// Store is a store that several processes share, each as a node of its own.
type Store interface {
	ledger.Store
	// BootID names this process as the owner of what it holds.
	BootID() string
	// ReadPrice finds a version of a route's price, and what it costs the operator.
	ReadPrice(ctx context.Context, route string, version int64) (price, cost config.Price, err error)
	// ClaimChore makes a chore this node's for a duration, and reports whether it is: at most one node has it.
	ClaimChore(ctx context.Context, name string, d time.Duration) (bool, error)
	// Describe says what this node is, for the others.
	Describe(about ledger.About)
	// Server is how the store's server does.
	Server() ledger.Server
	// Node finds a node that is or was, by its boot id, without its Holds.
	Node(ctx context.Context, id string) (ledger.Node, error)
	// Nodes lists the nodes, those that left included while anything is held for them.
	Nodes(ctx context.Context) ([]ledger.Node, error)
}

// Log is where settlements wait for the store (spool.Spool).
type Log interface {
	Append(r *spool.Record) (spool.Number, error)
	Len() int64
	Oldest(n int) spool.Batch
}

// Options say how settlements come from the log into the store.
type Options struct {
	Now    func() time.Time
	Logger *slog.Logger
	// After is the clock of the pauses. Default: time.After.
	After func(time.Duration) <-chan time.Time
	// Apply gives the store the oldest settlements of the log and releases them there, and returns how many they were. A
	// repetition changes nothing. An error is that the store is away.
	Apply func(ctx context.Context) (applied int64, err error)
}

// The pauses between two attempts to apply what is in the log: the first one, doubled each time up to the longest.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 2 * time.Second
)

// Ledger is a ledger over a store that others share. What it does not say itself is the store's.
type Ledger struct {
	Store
	log Log
	o   Options

	// away: the store did not take a settlement, and has taken none of the log since. While it is set, nobody waits for
	// the store in vain.
	away atomic.Bool
	wake chan struct{} // capacity 1: something came into the log

	mu      sync.Mutex
	running map[string]*request // that this process holds

	stop  context.CancelFunc
	ended sync.WaitGroup
}

// request is what this process knows of one that it runs: enough to say what its settlement comes to.
type request struct {
	account, key string
	held         int64
	attempts     []attempt
}

type attempt struct {
	ledger.Attempt
	price, cost config.Price
	begun       time.Time
}

// Open is a ledger over a store, which it closes in the end.
func Open(store Store, log Log, o Options) *Ledger {
	if o.After == nil {
		o.After = time.After
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Ledger{Store: store, log: log, o: o, wake: make(chan struct{}, 1), running: make(map[string]*request),
		stop: stop}
	if log.Len() > 0 {
		l.wake <- struct{}{}
	}
	l.ended.Go(func() { l.applyLog(ctx) })
	return l
}

// Close ends it and closes the store. What is in the log stays there for the next start.
func (l *Ledger) Close() error {
	l.stop()
	l.ended.Wait()
	return l.Store.Close()
}

// Away reports whether the store does not take settlements, and how many wait in the log, since when.
func (l *Ledger) Away() (away bool, waiting int64, since time.Time) {
	if waiting = l.log.Len(); waiting > 0 {
		if oldest := l.log.Oldest(1).Records; len(oldest) > 0 {
			since = oldest[0].Time
		}
	}
	return l.away.Load(), waiting, since
}

func (l *Ledger) checkAway() error {
	if l.away.Load() {
		return fmt.Errorf("%w: its database does not take settlements", ledger.ErrUnavailable)
	}
	return nil
}

// Check implements ledger.Store.
func (l *Ledger) Check(ctx context.Context, account, key string, microcents, tokens int64) error {
	if err := l.checkAway(); err != nil {
		return err
	}
	return l.Store.Check(ctx, account, key, microcents, tokens)
}

// Hold implements ledger.Store.
func (l *Ledger) Hold(ctx context.Context, h ledger.Hold) (b ledger.Balance, err error) {
	if err := l.checkAway(); err != nil {
		return b, err
	}
	r := &request{account: h.Account, key: h.Key, held: h.Microcents}
	if h.Attempt.ID != "" {
		first, err := l.beginAttempt(ctx, &h.Attempt)
		if err != nil {
			return b, err
		}
		r.attempts = []attempt{first}
	}
	if b, err = l.Store.Hold(ctx, h); err != nil {
		return b, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[h.Request] == nil { // else it is repeated, and may have further attempts
		l.running[h.Request] = r
	}
	return b, nil
}

func (l *Ledger) beginAttempt(ctx context.Context, a *ledger.Attempt) (begun attempt, err error) {
	begun = attempt{Attempt: *a, begun: l.o.Now().UTC()}
	begun.price, begun.cost, err = l.Store.ReadPrice(ctx, a.Route, a.PriceVersion)
	return begun, err
}

// Begin implements ledger.Store.
func (l *Ledger) Begin(ctx context.Context, n ledger.Next) error {
	if err := l.checkAway(); err != nil {
		return err
	}
	next, err := l.beginAttempt(ctx, &n.Attempt)
	if err != nil {
		return err
	}
	if err := l.Store.Begin(ctx, n); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[n.Request]; r != nil && r.find(n.Attempt.ID) == nil {
		r.held = max(r.held, n.Microcents)
		r.attempts = append(r.attempts, next)
	}
	return nil
}

// Settle implements ledger.Store: it is durable when the store or the log has it. ErrUnavailable where neither has.
func (l *Ledger) Settle(ctx context.Context, s ledger.Settlement) (c ledger.Charge, err error) {
	if err = l.checkAway(); err == nil {
		c, err = l.Store.Settle(ctx, s)
	}
	if !errors.Is(err, ledger.ErrUnavailable) {
		if err == nil {
			l.forget(s.Request)
		}
		return c, err
	}
	r := l.find(s.Request)
	if r == nil {
		return c, err
	}
	record, c := r.record(&s, l.o.Now().UTC())
	if _, failed := l.log.Append(&record); failed != nil {
		return ledger.Charge{}, errors.Join(fmt.Errorf("%w: %w", ledger.ErrUnavailable, failed), err)
	}
	l.forget(s.Request)
	if l.answersNobody(ctx) && !l.away.Swap(true) {
		l.o.Logger.Error("the ledger is away; settlements are kept in the spool until it is back", "error", err)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return c, nil
}

// lookFor is how long a store may take to say that it is there.
const lookFor = time.Second

// answersNobody reports whether the store is away, and not only what one account waits for, which somebody has locked.
func (l *Ledger) answersNobody(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	return l.Store.Ping(ctx) != nil
}

func (l *Ledger) find(id string) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running[id]
}

func (l *Ledger) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, id)
}

func (r *request) find(id string) *attempt {
	for i := range r.attempts {
		if r.attempts[i].ID == id {
			return &r.attempts[i]
		}
	}
	return nil
}

// record is what the log keeps of a settlement, and what its caller is told: what it comes to before fair use.
func (r *request) record(s *ledger.Settlement, now time.Time) (spool.Record, ledger.Charge) {
	c := s.Due(r.held, func(i int) (config.Price, int64) {
		if a := r.find(s.Results[i].Attempt); a != nil {
			return a.price, a.Worst
		}
		return config.Price{}, 0 // the store refuses such a settlement
	})
	record := spool.Record{Settlement: *s, Account: r.account, Key: r.key, Charge: &c.Microcents,
		Pending: c.Pending, Time: now}
	for i := range r.attempts {
		a := &r.attempts[i]
		record.Attempts = append(record.Attempts, spool.Attempt{ID: a.ID, Route: a.Route, Provider: a.Provider,
			Model: a.Model, PriceVersion: a.PriceVersion, Price: a.price, Cost: a.cost, Worst: a.Worst, Created: a.begun})
	}
	return record, c
}

// applyLog gives the store what comes into the log, until ctx ends.
func (l *Ledger) applyLog(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		var applied int64
		for pause := firstPause; l.log.Len() > 0; {
			n, err := l.o.Apply(ctx)
			if applied += n; err == nil {
				l.away.Store(false) // it takes settlements again
				pause = firstPause
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-l.o.After(pause):
			}
			pause = min(2*pause, maxPause)
		}
		l.away.Store(false)
		if applied > 0 {
			l.o.Logger.Info("the ledger is back; the settlements of the spool are taken up", "settlements", applied)
		}
	}
}
