package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	queueLen = 1024 // operations that may wait; more of them wait to get in
	maxBatch = 256  // operations in one commit
)

// tx is what an operation sees of the transaction it runs in.
type tx struct {
	conn  *sqlite.Conn
	wrote bool // by the running operation
}

func (t *tx) query(query string, row func(*sqlite.Stmt) error, args ...any) error {
	return run(t.conn, query, row, args...)
}

func (t *tx) exec(query string, args ...any) error {
	t.wrote = true
	return run(t.conn, query, nil, args...)
}

// Of an operation's life: whoever moves it out of queued decides whether it runs.
const (
	queued int32 = iota
	taken
	cancelled
)

type operation struct {
	// run may be called twice: again and alone, when a neighbour in its batch failed half way. So it
	// sets its results anew each time.
	run   func(*tx) error
	state atomic.Int32
	done  chan struct{} // closed when err and batch are set
	err   error
	batch int
}

// writer owns the one connection that writes. It takes all the operations that wait, runs them in one
// transaction and commits once (group commit), then answers them all: an answer means durable.
type writer struct {
	conn  *sqlite.Conn
	queue chan *operation
	ended chan struct{}

	mu     sync.RWMutex // held for reading while sending to queue
	closed bool
}

func startWriter(conn *sqlite.Conn) *writer {
	w := &writer{conn: conn, queue: make(chan *operation, queueLen), ended: make(chan struct{})}
	go w.loop()
	return w
}

// do runs one operation and returns how many shared its commit. When ctx ends while the operation waits, it
// never runs; once it is in a transaction, its true outcome is waited for.
func (w *writer) do(ctx context.Context, fn func(*tx) error) (batch int, err error) {
	op := &operation{run: fn, done: make(chan struct{})}
	if err := w.send(ctx, op); err != nil {
		return 0, err
	}
	select {
	case <-op.done:
	case <-ctx.Done():
		if op.state.CompareAndSwap(queued, cancelled) {
			return 0, gaveUp(ctx)
		}
		<-op.done
	}
	return op.batch, op.err
}

func (w *writer) send(ctx context.Context, op *operation) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return fmt.Errorf("%w: it is closed", ledger.ErrUnavailable)
	}
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	select {
	case w.queue <- op:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	}
}

func gaveUp(ctx context.Context) error {
	return fmt.Errorf("waiting for the ledger: %w: %w", ledger.ErrUnavailable, context.Cause(ctx))
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
	for op := range w.queue {
		// Callers that are about to queue get their turn: not a wait, only a place in this commit.
		runtime.Gosched()
		batch = take(batch[:0], op)
		for more := true; more && len(batch) < maxBatch; {
			select {
			case op, ok := <-w.queue:
				if more = ok; ok {
					batch = take(batch, op)
				}
			default:
				more = false
			}
		}
		if len(batch) == 0 {
			continue
		}
		w.commit(batch)
		for _, op := range batch {
			op.batch = len(batch)
			close(op.done)
		}
	}
}

func take(batch []*operation, op *operation) []*operation {
	if !op.state.CompareAndSwap(queued, taken) {
		return batch
	}
	return append(batch, op)
}

// commit runs a batch in one transaction. An operation that fails before it wrote anything has simply its
// answer; one that fails later takes the transaction with it, and then each runs in one of its own.
func (w *writer) commit(batch []*operation) {
	if w.together(batch) {
		return
	}
	for _, op := range batch {
		w.together([]*operation{op})
	}
}

// together returns false when the batch was rolled back and is to be run one by one.
func (w *writer) together(batch []*operation) bool {
	fail := func(err error) bool {
		w.rollback()
		for _, op := range batch {
			op.err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
		return true
	}
	if err := run(w.conn, `BEGIN IMMEDIATE`, nil); err != nil {
		return fail(fmt.Errorf("beginning a transaction: %w", err))
	}
	t := &tx{conn: w.conn}
	for _, op := range batch {
		t.wrote = false
		op.err = failure(op.run(t))
		// SQLite ends the transaction itself after some errors, such as a full disk.
		if op.err != nil && (t.wrote || w.conn.AutocommitEnabled()) {
			w.rollback()
			return len(batch) == 1
		}
	}
	if err := run(w.conn, `COMMIT`, nil); err != nil {
		// Also the answers that changed nothing go: they may rest on what was rolled back.
		return fail(fmt.Errorf("committing: %w", err))
	}
	return true
}

func (w *writer) rollback() {
	if !w.conn.AutocommitEnabled() {
		// Should it fail, the next BEGIN fails and says so.
		_ = run(w.conn, `ROLLBACK`, nil)
	}
}
