package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/spool"
)

// A process that drains hands its ledger over to one that waits for it (live.Ledger.HandOver). What it still runs it
// settles into its spool, which has another name from then on and is locked for as long as the process lives:
//
//	PATH.spool.of-OWNER
//
// The process that has the ledger then counts that owner's holds, and takes the spool up when its lock is free.

const (
	// handOverEvery is how often a process that drains looks whether another one waits, and one that has the ledger
	// whether a process before it has ended.
	handOverEvery = 10 * time.Millisecond
	// tryAgain is after how long what went wrong with that is tried again.
	tryAgain = 5 * time.Second
)

// predecessors are the processes that have handed the ledger over.
type predecessors struct {
	spool string // the path of the ledger's

	mu       sync.Mutex
	living   map[string]*flock.Flock // by owner, those that had their spool locked when it was last tried
	watchers sync.WaitGroup          // of those who wait for their end
	allEnded chan struct{}           // closed when none lives any more
}

// PredecessorsEnded is closed once no process before this one runs requests any more.
func (e *Engine) PredecessorsEnded() <-chan struct{} { return e.predecessors.allEnded }

// AwaitPredecessors begins a drain and waits until no process before this one runs requests any more, or its time is
// over.
func (e *Engine) AwaitPredecessors() {
	e.BeginDrain(0)
	if e.predecessors.allEnded == nil || e.isHandedOver() { // or the one that has the ledger waits for them
		return
	}
	select {
	case <-e.predecessors.allEnded:
		return
	default:
	}
	_, until := e.WaitsFor()
	e.Logger().Info("waiting for the process before this one, which still runs requests", "until", until)
	select {
	case <-e.predecessors.allEnded:
	case <-e.life.ctx.Done():
	}
}

// lockEnded finds the spools of processes that have handed the ledger over: of those that have ended, and of those
// that live. Those that have ended are locked until release is called.
func (p *predecessors) lockEnded() (dead map[string]*flock.Flock, release func(), err error) {
	spools, err := spool.FindHandedOver(p.spool)
	if err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	dead, p.living = map[string]*flock.Flock{}, map[string]*flock.Flock{}
	release = func() {
		for _, lock := range dead {
			_ = lock.Close()
		}
	}
	for owner, path := range spools {
		lock := flock.New(path, flock.SetFlag(os.O_RDWR))
		got, err := lock.TryLock()
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("locking a spool of a process before: %w", err)
		}
		if got {
			dead[owner] = lock
		} else {
			p.living[owner] = lock
		}
	}
	return dead, release, nil
}

// livingOwners are those of the ones that live.
func (p *predecessors) livingOwners() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for owner := range p.living {
		all = append(all, owner)
	}
	return all
}

// takeUpLeft takes up what processes left that have ended: spools of those that had handed the ledger over, then holds
// without a settlement. Nobody decides about the ledger meanwhile.
func (t *settler) takeUpLeft(ctx context.Context, p *predecessors, store live.Store) error {
	dead, release, err := p.lockEnded()
	if err != nil {
		return err
	}
	defer release()
	for _, lock := range dead {
		if err := t.takeUpFile(ctx, lock.Path()); err != nil {
			return err
		}
	}
	_, err = store.Recover(ctx, p.livingOwners()...)
	return err
}

// takeUpFile gives the ledger what is in a spool that a process has left, and removes it.
func (t *settler) takeUpFile(ctx context.Context, path string) error {
	left, err := t.spool.OpenLeft(path)
	if err != nil {
		return err
	}
	of := *t
	of.spool = left
	if err := errors.Join(of.takeUpSpool(ctx, new(lines)), left.Close()); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing a spool whose settlements are taken up: %w", err)
	}
	return nil
}

// awaitPredecessors takes up what processes leave that have handed the ledger over, each when it ends.
func (e *Engine) awaitPredecessors() {
	p := &e.predecessors
	p.mu.Lock()
	defer p.mu.Unlock()
	for owner, lock := range p.living {
		e.Logger().Info("an earlier process still runs requests; the ledger counts what they hold, and takes up what they "+
			"come to when it has ended", "owner", owner)
		p.watchers.Go(func() { e.awaitPredecessor(owner, lock) })
	}
	p.allEnded = make(chan struct{})
	go func() {
		p.watchers.Wait()
		close(p.allEnded)
	}()
}

// awaitPredecessor takes up what one of them leaves, unless this engine ends before or has handed the ledger over.
func (e *Engine) awaitPredecessor(owner string, lock *flock.Flock) {
	for {
		got, err := lock.TryLockContext(e.life.ctx, handOverEvery)
		_ = lock.Close() // lockEnded locks it
		if got && !e.isHandedOver() && e.store.Loss() == nil {
			err = e.live.ExcludeAll(context.Background(), func() error {
				return e.settler.takeUpLeft(context.Background(), &e.predecessors, e.base)
			})
			if err == nil {
				e.Logger().Info("what an earlier process has left is taken up", "owner", owner)
				return
			}
		}
		if got && err != nil {
			e.Logger().Error("what an earlier process has left could not be taken up yet", "owner", owner, "error", err)
		}
		if e.isHandedOver() || !e.pause(tryAgain) {
			return
		}
	}
}

// offer hands the ledger over when another process waits for it, from the end of a delay until this engine stops.
func (e *Engine) offer(delay time.Duration) {
	let := func() bool {
		err := e.base.Offer()
		if err != nil {
			e.Logger().Warn("the ledger cannot be handed over to another process", "error", err)
		}
		return err == nil
	}
	if delay == 0 && !let() {
		return
	}
	e.offered.Go(func() {
		if delay > 0 && (!e.pause(delay) || !let()) {
			return
		}
		for e.pause(handOverEvery) {
			if !e.base.IsAwaited() {
				continue
			}
			err := e.handOver()
			if err == nil {
				return
			}
			e.Logger().Error("the ledger could not be handed over yet", "error", err)
			if !e.pause(tryAgain) {
				return
			}
		}
	})
}

// pause waits; false when the engine stops.
func (e *Engine) pause(d time.Duration) bool {
	select {
	case <-e.life.ctx.Done():
		return false
	case <-e.timer(d):
		return true
	}
}

// handOver hands the ledger over.
func (e *Engine) handOver() error {
	e.background.stop()
	if err := e.saveCounts(context.Background()); err != nil {
		e.Logger().Warn("what was learned of routes in the last minute is lost", "error", err)
	}
	e.closing.Do(e.learning.close)
	path := e.predecessors.spool
	to := spool.HandedOverPath(path, e.base.BootID())
	err := e.live.HandOver(context.Background(), func() error {
		if e.handed != nil {
			return nil // it was done before
		}
		if err := os.Rename(path, to); err != nil {
			return err
		}
		e.handed = flock.New(to, flock.SetFlag(os.O_RDWR)) // for as long as this engine is open
		got, err := e.handed.TryLock()
		if err == nil && !got {
			err = errors.New("its spool is locked")
		}
		if err == nil {
			e.settler.spool.SetWitness(nil) // which is the other process's now
		}
		return errors.Join(err, files.SyncFolder(filepath.Dir(path)))
	})
	if err != nil {
		return err
	}
	running, until := e.WaitsFor()
	e.Logger().Info("the ledger is handed over to another process; requests that run go on here", "requests", running,
		"until", until)
	return nil
}
