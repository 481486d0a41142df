package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

const (
	// maxCourses is how many requests one transaction of the store takes up.
	maxCourses = 2048
	// The pauses after the store has not taken anything up: the first one, doubled each time up to the longest.
	firstPause = 250 * time.Millisecond
	maxPause   = 5 * time.Second
	// idleTime is after how long without a request the log is emptied.
	idleTime = time.Second
	// longWrite is after how long it is in doubt whether the store takes up what it has been given.
	longWrite = time.Second
)

// queue has what was decided and the store has not taken up.
type queue struct {
	l *Ledger

	mu        sync.Mutex // guards what follows
	holds     []*request // whose rows are behind
	ends      []*ended   // in the order of their decision
	logged    int64      // how many of those that have ended the log has
	arrived   uint64     // how often something came into it
	takenUpTo uint64     // what came until then is taken up
	waiting   []waiter

	failed   atomic.Bool  // the store did not take up what it was given last
	refusing atomic.Bool  // of the holds that it took up last, it refused some
	writing  atomic.Int64 // since when it has what it was given, in nanoseconds of clock; 0 when it has nothing
	epoch    time.Time

	courses []book.Course // empty, with room for a batch; takeUpBatch's

	// Of one signal each: something has come, somebody waits.
	dirty, urgent chan struct{}
	stop, stopped chan struct{}
}

// ended is a request that has ended.
type ended struct {
	course  book.Course
	end     book.End // the course's, unless that was replaced
	request *request
	after   ledger.Balance // of its account, as decided

	// The queue's lock guards these.
	logNumber           uint64 // in the log
	isAppended, takenUp bool
}

type waiter struct {
	number uint64
	answer chan answer
}

type answer struct {
	batch int
	err   error
}

func (q *queue) start(l *Ledger) {
	q.l, q.epoch = l, time.Now()
	q.dirty, q.urgent = make(chan struct{}, 1), make(chan struct{}, 1)
	q.stop, q.stopped = make(chan struct{}), make(chan struct{})
	go q.run()
}

// close ends the queue after a last try to have everything taken up.
func (q *queue) close() {
	close(q.stop)
	<-q.stopped
}

// isHealthy reports whether the store takes up what it is given.
func (q *queue) isHealthy() bool {
	since := q.writing.Load()
	return !q.failed.Load() && !q.refusing.Load() && (since == 0 || time.Since(q.epoch)-time.Duration(since) < longWrite)
}

// refusal is why the store has not taken up a request's hold as it is now.
func (q *queue) refusal(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.refused
}

// queueHold has the store see a running request as it is.
func (q *queue) queueHold(r *request) {
	q.mu.Lock()
	r.shown = r.Running
	if !r.queued {
		r.queued = true
		q.holds = append(q.holds, r)
	}
	q.arrived++
	q.mu.Unlock()
	signal(q.dirty)
}

// queueEnd has the store take up a request that has ended.
func (q *queue) queueEnd(e *ended) {
	q.mu.Lock()
	e.request.over, e.course.Kept = true, e.request.kept
	q.ends = append(q.ends, e)
	q.arrived++
	q.mu.Unlock()
	signal(q.dirty)
}

// replace has the store be given another course of a request that has ended; false where it is being given the one.
func (q *queue) replace(e *ended, by book.Course) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Contains(q.ends, e) {
		return false
	}
	by.Kept = e.course.Kept
	e.course = by
	return true
}

// noteAppended notes that the log has a request that has ended.
func (q *queue) noteAppended(e *ended, number uint64) {
	q.mu.Lock()
	e.logNumber, e.isAppended = number, true
	takenUp := e.takenUp
	if !takenUp {
		q.logged++
	}
	q.mu.Unlock()
	if takenUp {
		q.l.log.Release(0, number)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// flush waits until what was decided is taken up, and returns with how many others that was.
func (q *queue) flush(ctx context.Context) (batch int, err error) {
	q.mu.Lock()
	if q.takenUpTo >= q.arrived {
		q.mu.Unlock()
		return 0, nil
	}
	w := waiter{q.arrived, make(chan answer, 1)}
	q.waiting = append(q.waiting, w)
	q.mu.Unlock()
	signal(q.urgent)
	timer := time.NewTimer(q.l.o.WaitTimeout)
	defer timer.Stop()
	select {
	case a := <-w.answer:
		return a.batch, a.err
	case <-q.stopped:
		return 0, closedError()
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for the ledger: %w: %w", ledger.ErrUnavailable, context.Cause(ctx))
	case <-timer.C:
		return 0, tooSlow(q.l.o.WaitTimeout)
	}
}

func (l *Ledger) flush(ctx context.Context) error {
	_, err := l.queue.flush(ctx)
	return err
}

func (q *queue) run() {
	defer close(q.stopped)
	var (
		pause time.Duration
		idle  <-chan time.Time // comes where the log may have something
	)
	for {
		select {
		case <-q.stop:
			if q.takeUp() == nil { // else the log has what is left
				q.emptyLog()
			}
			return
		case <-idle:
			q.emptyLog()
			idle = nil
			continue
		case <-q.urgent:
		case <-q.dirty:
			wait := max(pause, q.l.o.Interval)
			select {
			case <-q.urgent:
			case <-q.stop:
			case <-q.l.o.After(wait):
			}
		}
		if err := q.takeUp(); err == nil {
			pause, idle = 0, q.l.o.After(idleTime)
			continue
		}
		pause = min(max(firstPause, 2*pause), maxPause)
		signal(q.dirty) // for the next try
	}
}

// emptyLog empties a log of which everything is taken up: so a restart has nothing to read, and a copy of its file says
// nothing twice.
func (q *queue) emptyLog() {
	if err := q.l.log.Empty(); err != nil {
		q.l.o.Logger.Warn("the spool has settlements that the ledger has, too; a restart finds them", "error", err)
	}
}

// takeUp gives the store everything that was decided. Who waits for it is answered; what the store does not take up
// stays.
func (q *queue) takeUp() error {
	q.mu.Lock()
	ends, holds, number, waiting := q.ends, q.holds, q.arrived, q.waiting
	q.ends, q.holds, q.waiting = nil, nil, nil
	q.mu.Unlock()

	batch := len(ends) + len(holds)
	var err error
	q.writing.Store(int64(time.Since(q.epoch)))
	defer q.writing.Store(0)
	for len(ends)+len(holds) > 0 && err == nil {
		n := min(len(ends), maxCourses)
		m := min(len(holds), maxCourses-n)
		if err = q.takeUpBatch(ends[:n], holds[:m]); err == nil {
			ends, holds = ends[n:], holds[m:]
		}
	}
	if was := q.failed.Swap(err != nil); err != nil && !was {
		q.l.o.Logger.Error("the ledger is away; settlements are kept in the spool until it is back", "error", err)
	} else if err == nil && was {
		q.l.o.Logger.Info("the ledger is back; the settlements of the spool are applied")
	}
	q.mu.Lock()
	q.ends = append(ends, q.ends...)
	q.holds = append(holds, q.holds...)
	if err == nil {
		q.takenUpTo = number
	}
	q.mu.Unlock()
	for _, w := range waiting {
		w.answer <- answer{batch, err}
	}
	return err
}

// takeUpBatch gives the store requests that have ended, and running ones behind them. After an error all are to be
// given again.
func (q *queue) takeUpBatch(ends []*ended, holds []*request) error {
	courses, given := q.courses[:0], make([]*request, 0, len(holds))
	q.courses = nil // a store that has failed may still read them
	for _, e := range ends {
		courses = append(courses, e.course)
	}
	q.mu.Lock()
	for _, r := range holds {
		if r.queued = false; r.over {
			continue // it comes with its end
		}
		courses, given = append(courses, book.Course{Running: r.shown, Kept: r.kept}), append(given, r)
	}
	q.mu.Unlock()
	all, err := TakeUp(context.Background(), q.l.store, courses) // the store bounds the waiting
	if err == nil {
		err = q.noteEnds(ends, all)
	}
	if err != nil {
		q.mu.Lock()
		for _, r := range given {
			r.queued = true
		}
		q.mu.Unlock()
		return err
	}
	q.noteHolds(given, all[len(ends):])
	clear(courses)
	q.courses = courses
	return nil
}

// noteEnds notes what became of requests that have ended. An error is that one is refused, and nobody can be told.
func (q *queue) noteEnds(ends []*ended, all []book.TakenUp) error {
	if len(ends) == 0 {
		return nil
	}
	for i, e := range ends {
		if t := all[i]; t.Err != nil || t.Before {
			if err := q.l.o.Refuse(&e.course, t); err != nil {
				return err
			}
		}
	}
	appended := make([]uint64, 0, len(ends))
	for i, e := range ends {
		e.request.account.noteEnd(e, all[i])
		q.mu.Lock()
		if e.takenUp = true; e.isAppended {
			q.logged--
			appended = append(appended, e.logNumber)
		}
		q.mu.Unlock()
	}
	q.l.log.Release(all[len(ends)-1].Entries, appended...)
	return nil
}

// noteHolds notes what became of running requests.
func (q *queue) noteHolds(given []*request, all []book.TakenUp) {
	if len(given) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	refusing := false
	for i, r := range given {
		if r.refused = all[i].Err; r.refused == nil {
			r.kept = true
			continue
		}
		refusing = true
		q.l.o.Logger.Error("a hold cannot be put on record", "request_id", r.ID, "error", r.refused)
	}
	q.refusing.Store(refusing)
}

// noteEnd notes that a request of an account is on record. Where the account is not as it was decided to be, somebody
// else has written: it is read again.
func (a *account) noteEnd(e *ended, t book.TakenUp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unwritten--
	b := t.Charge.Balance
	if t.Err != nil || t.Before || b.Credits != e.after.Credits || b.Accrued != e.after.Accrued {
		a.unload()
	}
}

// TakeUp has a store take up courses. Where one of them breaks the transaction, each half is taken up by itself, and so
// on, until that one is alone. An error is ledger.ErrUnavailable: all are to be taken up again.
func TakeUp(ctx context.Context, store interface {
	TakeUp(ctx context.Context, courses []book.Course) ([]book.TakenUp, error)
}, courses []book.Course) ([]book.TakenUp, error) {
	if len(courses) == 0 {
		return nil, nil
	}
	all, err := store.TakeUp(ctx, courses)
	switch {
	case err == nil || errors.Is(err, ledger.ErrUnavailable):
		return all, err
	case len(courses) == 1:
		return []book.TakenUp{{Err: err}}, nil
	}
	all, err = TakeUp(ctx, store, courses[:len(courses)/2])
	if err != nil {
		return nil, err
	}
	rest, err := TakeUp(ctx, store, courses[len(courses)/2:])
	if err != nil {
		return nil, err
	}
	return append(all, rest...), nil
}
