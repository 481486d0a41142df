package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

const (
	queueLen = 1024 // operations that may wait; more of them wait to get in
	maxBatch = 512  // operations in one commit
	// retryRelease is how long the writer waits until it tries again to release holds that nobody waited for.
	retryRelease = 100 * time.Millisecond
)

// Of an operation's life: whoever moves it out of queued decides whether it runs, and whoever moves it out of
// taken whether its caller hears of it. It is taken inside the transaction: one that waits for another program's
// lock with its batch can still be cancelled.
const (
	queued    int32 = iota
	cancelled       // its caller gave up before it ran
	taken
	abandoned // its caller gave up after it ran, before the commit was known to be durable
	answered
)

var errGivenUp = errors.New("its caller has given up")

type operation struct {
	// run may be called again, when the transaction was rolled back because of a neighbour. So it sets its
	// results anew each time.
	run func(*tx) error
	// holds is the request that it makes a hold for, begins the attempt that it records. When its caller has
	// given up, nobody else would give the hold back or say that the attempt was never made.
	holds, begins string
	made          bool // it made that hold or recorded that attempt, rather than found it

	state atomic.Int32
	done  chan struct{} // gets one value when err and batch are set
	timer *time.Timer
	err   error
	batch int
}

func newOperation() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &operation{done: make(chan struct{}, 1), timer: timer}
}

// begin reports whether the operation is to run, perhaps again.
func (op *operation) begin() bool {
	return op.state.CompareAndSwap(queued, taken) || op.state.Load() == taken
}

// writer owns the database's one connection that writes. It takes all the operations that wait, runs them in one
// transaction and commits once (group commit), then answers them all: an answer means durable.
type writer struct {
	db      *database
	timeout time.Duration
	queue   chan *operation
	ended   chan struct{}
	spare   sync.Pool // of operations

	mu     sync.RWMutex // held for reading while sending to queue
	closed bool

	// The writer's own: requests whose caller was told that there is no hold, and there may be one: its commit came
	// after the caller had given up, or failed in a way that can bring it back. Those of the last batch are fresh.
	orphans, fresh map[string]struct{}
}

func startWriter(db *database, timeout time.Duration) *writer {
	w := &writer{
		db: db, timeout: timeout, queue: make(chan *operation, queueLen), ended: make(chan struct{}),
		orphans: make(map[string]struct{}), fresh: make(map[string]struct{}),
		spare: sync.Pool{New: newOperation},
	}
	go w.loop()
	return w
}

// runOperation runs one operation and returns how many shared its commit. holds and begins are as in operation.
//
// When ctx ends while the operation waits, it never runs; once it is in a transaction, its true outcome is
// waited for. Neither takes longer than the writer's time-out.
func (w *writer) runOperation(ctx context.Context, holds, begins string, run func(*tx) error) (batch int, err error) {
	op, _ := w.spare.Get().(*operation)
	op.run, op.holds, op.begins = run, holds, begins
	op.timer.Reset(w.timeout)
	if err := w.send(ctx, op); err != nil {
		w.recycle(op)
		return 0, err
	}
	select {
	case <-op.done:
		return w.wrapResult(op)
	case <-ctx.Done():
		if op.state.CompareAndSwap(queued, cancelled) {
			return 0, gaveUp(ctx)
		}
		select {
		case <-op.done:
			return w.wrapResult(op)
		case <-op.timer.C:
		}
	case <-op.timer.C:
	}
	if op.state.CompareAndSwap(queued, cancelled) || op.state.CompareAndSwap(taken, abandoned) {
		return 0, tooSlow(w.timeout)
	}
	<-op.done
	return w.wrapResult(op)
}

// post queues an operation that nobody waits for: it is in one of the next commits, or lost where the queue is full,
// the store is closed, or its commit fails.
func (w *writer) post(run func(*tx) error) {
	op, _ := newOperation().(*operation)
	op.run = run
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return
	}
	select {
	case w.queue <- op:
	default:
	}
}

func (w *writer) wrapResult(op *operation) (batch int, err error) {
	batch, err = op.batch, op.err
	w.recycle(op)
	return batch, err
}

// recycle keeps an operation for another caller, when the writer has it no more.
func (w *writer) recycle(op *operation) {
	op.timer.Stop()
	op.run, op.holds, op.begins, op.err = nil, "", "", nil
	op.state.Store(queued)
	w.spare.Put(op)
}

func (w *writer) send(ctx context.Context, op *operation) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return closed()
	}
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	select {
	case w.queue <- op:
		return nil
	default:
	}
	select {
	case w.queue <- op:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	case <-op.timer.C:
		return tooSlow(w.timeout)
	}
}

var errClosed = errors.New("it is closed")

// closed is the answer of a store that was closed.
func closed() error { return fmt.Errorf("%w: %w", ledger.ErrUnavailable, errClosed) }

func gaveUp(ctx context.Context) error {
	return fmt.Errorf("waiting for the ledger: %w: %w", ledger.ErrUnavailable, context.Cause(ctx))
}

func tooSlow(timeout time.Duration) error {
	return fmt.Errorf("waiting for the ledger: %w: its disk did not answer within %s", ledger.ErrUnavailable, timeout)
}

// close runs what is queued and ends the writer.
func (w *writer) close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	<-w.ended
}

func (w *writer) loop() {
	defer close(w.ended)
	batch := make([]*operation, 0, maxBatch)
	for {
		op, open := w.next()
		if op != nil {
			// Callers that are about to queue get their turn: not a wait, only a place in this commit.
			runtime.Gosched()
			batch = w.collect(batch[:0], op)
			w.commit(batch)
			clear(batch)
		}
		w.sweep()
		if !open {
			w.sweep()
			return
		}
	}
}

// next waits for an operation; nil when the time has come to look after orphans.
func (w *writer) next() (op *operation, open bool) {
	if len(w.orphans) == 0 && len(w.fresh) == 0 {
		op, open = <-w.queue
		return op, open
	}
	timer := time.NewTimer(retryRelease)
	defer timer.Stop()
	select {
	case op, open = <-w.queue:
		return op, open
	case <-timer.C:
		return nil, true
	}
}

// sweep releases orphans and forgets attempts that have ended. Orphans get the time of one more batch, for a hold that
// is repeated there is somebody's again.
func (w *writer) sweep() {
	if len(w.orphans) > 0 {
		w.releaseOrphans()
	}
	for id := range w.fresh {
		w.orphans[id] = struct{}{}
	}
	clear(w.fresh)
	if len(w.db.unmade) > 0 {
		w.db.forgetUnmade()
	}
}

// collect takes what waits behind op.
func (w *writer) collect(batch []*operation, op *operation) []*operation {
	for {
		if op.state.Load() == queued {
			batch = append(batch, op)
		}
		if len(batch) == maxBatch {
			return batch
		}
		var ok bool
		select {
		case op, ok = <-w.queue:
			if !ok {
				return batch
			}
		default:
			return batch
		}
	}
}

// commit runs a batch and answers it. An operation that fails after it has changed something takes the
// transaction with it; then it runs alone, and the others without it. When nobody knows which it was, each runs alone.
func (w *writer) commit(batch []*operation) {
	together := slices.Clone(batch)
	var alone []*operation
	for len(together) > 0 {
		from, to := w.db.transact(together)
		if from == to {
			break
		}
		alone = append(alone, together[from:to]...)
		together = slices.Delete(together, from, to)
	}
	for i := range alone {
		w.db.transact(alone[i : i+1])
	}
	for _, op := range batch {
		w.answer(op, len(batch))
	}
}

func (w *writer) answer(op *operation, batch int) {
	op.batch = batch
	heard := op.state.CompareAndSwap(taken, answered) || op.state.CompareAndSwap(queued, answered)
	switch {
	case heard && op.err == nil:
		w.claim(op)
	case op.err == nil || errors.Is(op.err, errInDoubt):
		w.addOrphan(op)
	}
	if heard {
		op.done <- struct{}{}
	}
}

// addOrphan is for a hold or an attempt that nobody knows of.
func (w *writer) addOrphan(op *operation) {
	if !op.made {
		return // whoever made it knows
	}
	if op.holds != "" {
		w.fresh[op.holds] = struct{}{}
	}
	if op.begins != "" {
		w.db.unmade[op.begins] = true
	}
}

// claim is for a hold or an attempt that somebody knows of, whoever gave up on it before.
func (w *writer) claim(op *operation) {
	if op.holds != "" {
		delete(w.fresh, op.holds)
		delete(w.orphans, op.holds)
	}
	if op.begins != "" {
		delete(w.db.unmade, op.begins)
	}
}

// releaseOrphans settles the orphans that are running. As long as it fails they are kept, and while it fails nothing
// is committed that could become one, so that there are never more than a batch or two of them.
func (w *writer) releaseOrphans() {
	released := 0
	op := &operation{run: func(t *tx) error {
		released = 0
		for id := range w.orphans {
			r, running := t.live[id]
			if !running {
				continue
			}
			if _, err := t.settle(book.SettleUnanswered(&r.Running)); err != nil {
				return err
			}
			released++
		}
		// Written in any case: a commit that is in doubt cannot come back once the log goes on without it.
		// SQLite leaves a row alone that would be as it is, so that it is another one.
		return t.exec(`UPDATE meta SET releases = releases + 1`)
	}}
	w.db.transact([]*operation{op})
	if op.err != nil {
		return
	}
	clear(w.orphans)
	if released > 0 {
		w.db.opts.Logger.Warn("holds were released whose callers had given up waiting for the disk", "requests", released)
	}
}
