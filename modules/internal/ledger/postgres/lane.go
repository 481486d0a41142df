package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

const (
	queueLen = 4096 // operations that may wait in a lane; more of them wait to get in
	maxBatch = 512  // operations in one transaction
	// retries are how often a transaction that met another one is made again.
	retries = 20
	// pause is how long a lane waits until it connects again, and until it tries again to release orphans.
	pause = 100 * time.Millisecond
	// maxTransaction is how many time-outs of callers a transaction may take.
	maxTransaction = 3
)

// Of an operation's life: whoever moves it out of queued decides whether it runs, and whoever moves it out of taken
// whether its caller hears of it.
const (
	queued    int32 = iota
	cancelled       // its caller gave up before it ran
	taken
	abandoned // its caller gave up after it ran, before the commit was known
	answered
)

// operation is what a caller waits for.
type operation struct {
	account string      // that it is about, "" for none
	keys    []keyID     // that it reads, of that account
	request []requestID // likewise
	// run decides, and changes the unit's rows. It may be called again, in another unit, so it sets its results anew; and
	// also when its caller has given up, who leaves them alone then.
	run func(*unit) error
	// holds is the request that it makes a hold for, begins the attempt that it records: see lane.answer.
	holds, begins string
	// fresh: this process remembers the request that it holds for its sake alone.
	fresh bool
	// recalls: it writes of its request whatever it decides, so that what this process remembers of that will do.
	recalls bool
	// alone: it looks at more than unit.request finds of what its neighbours do.
	alone bool
	// impatient: it waits for no lock that somebody has.
	impatient bool
	// decided is the act that run has recorded last, of an operation alone: how it is found again where nobody knows
	// whether its commit is, for not everything that operators do can be repeated.
	decided book.Act

	state atomic.Int32
	done  chan struct{}
	err   error
	batch int
}

func (op *operation) begin() bool {
	return op.state.CompareAndSwap(queued, taken) || op.state.Load() == taken
}

// lane runs the operations of some accounts, on a connection of its own: it takes all that wait, runs them in one
// transaction, and answers them when that is committed.
type lane struct {
	s         *Store
	config    *pgx.ConnConfig
	conn      *pgx.Conn
	queue     chan *operation
	postponed *operation // taken from the queue, and to run next
	ended     chan struct{}

	mu     sync.RWMutex // held for reading while sending to queue
	closed bool

	// The lane's own: requests whose caller was told that there is no hold, and there may be one, with their accounts, and
	// when it last tried to release them.
	orphans map[string]string
	tried   time.Time
	added   writeBuffer
	doubt   bool // of the last commit nobody knows whether it is where it has to be
}

func startLane(s *Store, config *pgx.ConnConfig) *lane {
	l := &lane{s: s, config: config, queue: make(chan *operation, queueLen), ended: make(chan struct{}),
		orphans: map[string]string{}}
	go l.loop()
	return l
}

// laneOf is the lane of an account, or of what is about none. All nodes divide accounts in the same way, so that only
// those lanes wait for one another that are of the same accounts.
func (s *Store) laneOf(account string) *lane {
	last := len(s.lanes) - 1
	if account == "" {
		return s.lanes[last]
	}
	h := fnv.New32a()
	h.Write([]byte(account))
	return s.lanes[h.Sum32()%uint32(last)]
}

// perform runs an operation. When ctx ends while it waits, it never runs; once it is in a transaction, its true
// outcome is waited for. Neither takes longer than the time-out.
func (s *Store) perform(ctx context.Context, name string, op *operation) error {
	start := time.Now()
	err := s.wait(ctx, op)
	batch := 0
	if op.state.Load() == answered { // else the lane may be writing it
		batch = op.batch
	}
	s.o.Observe(name, time.Since(start), batch)
	return err
}

func (s *Store) wait(ctx context.Context, op *operation) error {
	op.done = make(chan struct{})
	timer := time.NewTimer(s.o.WaitTimeout)
	defer timer.Stop()
	if err := s.laneOf(op.account).send(ctx, op, timer.C); err != nil {
		return err
	}
	select {
	case <-op.done:
		return op.err
	case <-ctx.Done():
		if op.state.CompareAndSwap(queued, cancelled) {
			return gaveUp(ctx)
		}
		select {
		case <-op.done:
			return op.err
		case <-timer.C:
		}
	case <-timer.C:
	}
	if op.state.CompareAndSwap(queued, cancelled) || op.state.CompareAndSwap(taken, abandoned) {
		return tooSlow(s.o.WaitTimeout)
	}
	<-op.done
	return op.err
}

// post queues an operation that nobody waits for: it is lost where the queue is full, or the store closed.
func (s *Store) post(op *operation) {
	op.done = make(chan struct{})
	l := s.laneOf(op.account)
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- op:
	default:
	}
}

func (l *lane) send(ctx context.Context, op *operation, timeout <-chan time.Time) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return errClosed
	}
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	select {
	case l.queue <- op:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	case <-timeout:
		return tooSlow(l.s.o.WaitTimeout)
	}
}

var errClosed = fmt.Errorf("%w: it is closed", ledger.ErrUnavailable)

func gaveUp(ctx context.Context) error {
	return fmt.Errorf("waiting for the ledger: %w: %w", ledger.ErrUnavailable, context.Cause(ctx))
}

func tooSlow(timeout time.Duration) error {
	return fmt.Errorf("waiting for the ledger: %w: its database did not answer within %s", ledger.ErrUnavailable, timeout)
}

// close runs what is queued and ends the lane.
func (l *lane) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	<-l.ended
}

func (l *lane) loop() {
	defer close(l.ended)
	batch := make([]*operation, 0, maxBatch)
	for {
		op, open := l.next()
		if op != nil {
			batch = l.collect(batch[:0], op)
			l.commit(batch)
			clear(batch)
		}
		if len(l.orphans) > 0 && (!open || time.Since(l.tried) >= pause) {
			l.releaseOrphans()
			l.tried = time.Now()
		}
		if !open {
			l.disconnect()
			return
		}
	}
}

// next waits for an operation; nil when the time has come to look after orphans.
func (l *lane) next() (op *operation, open bool) {
	if op, l.postponed = l.postponed, nil; op != nil {
		return op, true
	}
	if len(l.orphans) == 0 {
		op, open = <-l.queue
		return op, open
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case op, open = <-l.queue:
		return op, open
	case <-timer.C:
		return nil, true
	}
}

// collect takes what waits behind op.
func (l *lane) collect(batch []*operation, op *operation) []*operation {
	for {
		if op.alone && len(batch) > 0 {
			l.postponed = op
			return batch
		}
		batch = append(batch, op)
		if op.alone || len(batch) == maxBatch {
			return batch
		}
		var ok bool
		select {
		case op, ok = <-l.queue:
			if !ok {
				return batch
			}
		default:
			return batch
		}
	}
}

// commit runs a batch and answers it. Where the server refuses what it writes, or an account is locked for too long,
// each account's operations run alone, and then each operation.
func (l *lane) commit(batch []*operation) {
	l.commitOf(batch, func(op *operation) string { return op.account }, false)
}

// commitOf runs operations of which an earlier transaction may have been committed, where that was doubted.
func (l *lane) commitOf(batch []*operation, part func(*operation) string, doubted bool) {
	doubted, err := l.transact(batch, doubted)
	if err == nil || len(batch) == 1 || !isSaid(err) || part == nil {
		for _, op := range batch {
			if err != nil {
				op.err = unavailable(err)
			}
			l.answer(op, len(batch), doubted)
		}
		return
	}
	parts := map[string][]*operation{}
	var order []string
	for _, op := range batch {
		if parts[part(op)] == nil {
			order = append(order, part(op))
		}
		parts[part(op)] = append(parts[part(op)], op)
	}
	for _, name := range order {
		switch of := parts[name]; {
		case len(order) > 1:
			l.commitOf(of, part, doubted)
		case isLocked(err): // all of them are of an account that is locked
			for _, op := range of {
				op.err = unavailable(err)
				l.answer(op, len(batch), doubted)
			}
		default:
			for i := range of {
				l.commitOf(of[i:i+1], nil, doubted)
			}
		}
	}
}

// transact runs operations in one transaction, and again where that met another one, or the connection failed. It
// returns why nothing of it is known to be committed, and whether any of it may be all the same: by one of these
// transactions, or by one before them that was doubted.
func (l *lane) transact(batch []*operation, before bool) (doubted bool, err error) {
	doubted, l.doubt = before, l.doubt || before
	for range retries {
		if !l.awaited(batch) {
			return doubted, cmp.Or(err, errGivenUp)
		}
		if err = l.try(batch); err == nil {
			l.doubt = false
			return false, nil
		}
		again := doubted && isSaid(err) && batch[0].decided.Seq > 0 // it met itself, perhaps: who looks now finds it
		if errors.Is(err, errInDoubt) {
			doubted, l.doubt = true, true
		}
		switch {
		case isRetryable(err) || errors.Is(err, errStale) || again:
			continue
		case isElsewhere(err):
		case isSaid(err) || errors.Is(err, ledger.ErrUnavailable):
			return doubted, err
		}
		l.disconnect()
		timer := time.NewTimer(pause)
		<-timer.C
	}
	return doubted, err
}

var errGivenUp = fmt.Errorf("%w: its caller has given up", ledger.ErrUnavailable)

// awaited reports whether anybody still waits for an operation.
func (l *lane) awaited(batch []*operation) bool {
	for _, op := range batch {
		if s := op.state.Load(); s == queued || s == taken {
			return true
		}
	}
	return false
}

// commitsDurably has the transaction's commit wait for the disk, and for the standby where there is a synchronous one.
const commitsDurably = `set_config('synchronous_commit',
	CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
	THEN 'on' ELSE current_setting('synchronous_commit') END, true)`

// beginUnit begins a transaction. Nothing bounds its statements, for that would cancel a commit, but a wait for a
// lock, and the time between statements, in which a process that is stopped would keep its accounts locked. And
// whatever the database or the user is set to, its commit is durable, on the standby where there is a synchronous
// one. Plans are those of few rows among many, whatever the tables look like when they are made.
const beginUnit = `SELECT set_config('lock_timeout', '1s', true), set_config('statement_timeout', '0', true),
	set_config('idle_in_transaction_session_timeout', '10s', true),
	set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
	set_config('jit', 'off', true), ` + commitsDurably + `,
	current_setting('synchronous_standby_names')`

func (l *lane) try(batch []*operation) error {
	if err := l.connect(); err != nil {
		return err
	}
	ctx, conn := context.Background(), l.conn
	// A server that says nothing for so long is given up without a word, and so without cancelling anything.
	silent := time.AfterFunc(maxTransaction*l.s.o.WaitTimeout, func() { _ = conn.PgConn().Conn().Close() })
	defer silent.Stop()
	u := newUnit(ctx, l.s, conn, &l.added)
	err := l.begin(u, batch)
	if err == nil {
		for _, op := range batch {
			if !op.begin() {
				op.err = errGivenUp
				continue
			}
			if op.err = l.run(u, op); failure(op.err) != nil {
				err = failure(op.err)
				break
			}
		}
	}
	if err == nil {
		err = u.finish(l.doubt)
	}
	if err == nil {
		u.remember()
		return nil
	}
	u.forget()
	if !l.conn.IsClosed() {
		if _, again := l.conn.Exec(ctx, `ROLLBACK`); again != nil {
			l.disconnect()
		}
	}
	return err
}

// run runs an operation, unless it finds that it was carried out before.
func (l *lane) run(u *unit, op *operation) error {
	if d := &op.decided; l.doubt && d.Seq > 0 {
		if op.account == "" { // the lock of its chain
			if _, err := u.exists(`SELECT 1 FROM ledger FOR UPDATE`); err != nil {
				return err
			}
		}
		done, err := u.exists(`SELECT 1 FROM acts WHERE account = $1 AND seq = $2 AND hash = $3`, d.Account, d.Seq,
			d.Hash[:])
		if err != nil || done {
			u.repeats = true
			return err
		}
	}
	err := op.run(u)
	if n := len(u.acts); op.alone && n > 0 {
		op.decided = u.acts[n-1]
	}
	return err
}

// failure is an operation's error where it is the database's, so that the transaction is over.
func failure(err error) error {
	var failed *queryError
	if errors.As(err, &failed) {
		return failed.err
	}
	return nil
}

// queryError is what the database said, or failed to, within an operation.
type queryError struct{ err error }

func (e *queryError) Error() string { return e.err.Error() }
func (e *queryError) Unwrap() error { return e.err }

// begin begins the transaction and reads what the operations need, in one round trip.
func (l *lane) begin(u *unit, batch []*operation) error {
	var accounts []string
	var keys []keyID
	var requests []requestID
	known := map[any]bool{}
	for _, op := range batch {
		if op.account != "" && !known[op.account] {
			known[op.account] = true
			accounts = append(accounts, op.account)
		}
		for _, k := range op.keys {
			if !known[k] {
				known[k] = true
				keys = append(keys, k)
			}
		}
		for _, r := range op.request {
			if !known[r.request] {
				known[r.request] = true
				if !op.recalls || !u.recall(r.request) {
					requests = append(requests, r)
				}
			}
		}
	}
	var standbys string
	var b pgx.Batch
	b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	b.Queue(beginUnit).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			columns := rows.RawValues()
			standbys = string(columns[len(columns)-1])
		}
		return rows.Err()
	})
	if batch[0].impatient {
		b.Queue(`SET LOCAL lock_timeout = '20ms'`)
	}
	if len(accounts) == 0 {
		b.Queue(selectNode, l.s.o.BootID).Query(u.readNode)
	}
	u.queueRead(&b, accounts, keys, requests)
	if err := l.conn.SendBatch(u.ctx, &b).Close(); err != nil {
		return err
	}
	if err := l.s.noteStandbys(standbys); err != nil {
		return err
	}
	return u.fill(keys)
}

func (l *lane) connect() (err error) {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), connecting{}, true), l.s.o.WaitTimeout)
	defer cancel()
	l.conn, err = pgx.ConnectConfig(ctx, l.config)
	return err
}

func (l *lane) disconnect() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pause)
	defer cancel()
	_ = l.conn.Close(ctx) // it is given up
	l.conn = nil
}

// answer tells an operation's caller. doubted is set where it may be committed whatever its error says.
func (l *lane) answer(op *operation, batch int, doubted bool) {
	op.batch = batch
	heard := op.state.CompareAndSwap(taken, answered) || op.state.CompareAndSwap(queued, answered)
	switch {
	case heard && op.err == nil:
		delete(l.orphans, op.holds)
		if op.begins != "" {
			l.s.unmade.Delete(op.begins)
		}
	case op.err == nil || doubted:
		if op.holds != "" {
			l.orphans[op.holds] = op.account
		}
		if op.begins != "" {
			l.s.unmade.Store(op.begins, true)
		}
	case op.fresh: // there is no hold
		l.s.held.Delete(op.holds)
	}
	close(op.done)
}

// releaseOrphans settles the requests that nobody knows of and that run. Others wait for the lane meanwhile, so it
// takes no longer than a pause, and waits for no account that is locked.
func (l *lane) releaseOrphans() {
	start := time.Now()
	locked := map[string]bool{}
	for request, account := range l.orphans {
		if locked[account] {
			continue
		}
		if time.Since(start) > pause {
			return
		}
		op := &operation{account: account, request: []requestID{{account, request}}, impatient: true}
		op.state.Store(taken)
		op.run = func(u *unit) error {
			r, _, err := u.request(account, request)
			if err != nil || r == nil {
				return err
			}
			_, err = u.settle(r, book.SettleUnanswered(&r.Running))
			return err
		}
		l.doubt = true
		err := l.try([]*operation{op})
		if isLocked(err) {
			locked[account] = true
			continue
		}
		if err != nil {
			return
		}
		if op.err != nil { // its own
			continue
		}
		delete(l.orphans, request)
		l.s.held.Delete(request)
		l.s.o.Logger.Warn("a hold was released whose caller had given up waiting for the database", "request", request)
	}
}
