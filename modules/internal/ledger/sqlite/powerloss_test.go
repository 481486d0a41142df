package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

// recording is a run of the workload: what its disk saw, and what each caller was told when.
type recording struct {
	events []event
	told   []answer
}

type answer struct {
	fact
	position int // how many events the disk had seen when the answer was given
}

// record runs the workload on a disk that is watched, from the making of the ledger to its closing, and once more on
// the ledger that is there by then.
func record(t *testing.T, goroutines, rounds int) recording {
	dir := t.TempDir()
	d := &disk{}
	t.Cleanup(watch(dir, d))
	var mu sync.Mutex
	var r recording
	var clock atomic.Int64
	clock.Store(workStart.UnixNano())
	for _, boot := range []string{"boot1", "boot2"} {
		w, err := newWorkload(filepath.Join(dir, "fareway.db"), boot, &clock, func(f fact) {
			mu.Lock()
			defer mu.Unlock()
			r.told = append(r.told, answer{f, d.position()})
		})
		require.NoError(t, err)
		errs := make([]error, goroutines)
		var wg sync.WaitGroup
		for worker := range goroutines {
			wg.Go(func() {
				for n := 0; n < rounds && errs[worker] == nil; n++ {
					errs[worker] = w.round(context.Background(), worker, n, requestID(boot, worker, n))
				}
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		require.NoError(t, w.store.Close())
	}
	r.events = d.events
	return r
}

// points are the positions right before each sync, and the end: where most is pending.
func (r recording) points() (points []int) {
	for i, e := range r.events {
		if e.kind == synced {
			points = append(points, i)
		}
	}
	return append(points, len(r.events))
}

// fail cuts the power at each point, with the losses that choose picks for it, and looks for what was answered by
// then. It returns the first thing that is wrong, and how often the power failed.
func (r recording) fail(t *testing.T, choose func(point int) []loss, seed uint64) (times int, err error) {
	platter, at := newPlatter(), 0
	random := rand.New(rand.NewPCG(seed, 1))
	for i, point := range r.points() {
		for ; at < point; at++ {
			platter.apply(r.events[at])
		}
		var told []fact
		for _, a := range r.told {
			if a.position <= point {
				told = append(told, a.fact)
			}
		}
		for _, l := range choose(i) {
			times++
			if err := survives(t, platter.after(l, random), told); err != nil {
				return times, fmt.Errorf("when the power fails before event %d of %d and %s: %w", point, len(r.events), l.name, err)
			}
		}
	}
	return times, nil
}

// survives opens the ledger on what a disk holds, as the gateway does after a crash, and checks that everything that
// was told is in it, whole and once.
func survives(t *testing.T, i image, told []fact) (err error) {
	dir := t.TempDir()
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // now, for there are many
	if err := i.save(dir); err != nil {
		return err
	}
	defer watch(dir, &disk{volatile: true})()
	s, err := Open(Options{Path: filepath.Join(dir, "fareway.db"), BootID: "after", Logger: quiet,
		Now: func() time.Time { return workStart }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx := context.Background()
	if lost := s.Loss(); lost != nil {
		return fmt.Errorf("what a power cut left is taken for damage: %s", lost)
	}

	// The spool has the settlements that were not answered: they are repeated before the rest is recovered.
	unanswered := map[string]bool{}
	for _, f := range told {
		switch f.what {
		case "hold":
			unanswered[f.id] = true
		case "settle":
			delete(unanswered, f.id)
		}
	}
	for id := range unanswered {
		c, err := s.Settle(ctx, settlement(id))
		if err != nil {
			return fmt.Errorf("repeating a settlement: %w", err)
		}
		if charged := c.Microcents + c.Waived; charged != amount(id, 1) && charged != amount(id, 1)+amount(id, 2) {
			return fmt.Errorf("repeating a settlement of %s: %+v", id, c)
		}
	}
	if _, err := s.Recover(ctx); err != nil {
		return err
	}
	left, err := look(ctx, s)
	if err != nil {
		return err
	}
	if len(left.held) > 0 {
		return fmt.Errorf("requests run after recovery: %v", left.held)
	}
	for _, f := range told {
		if err := left.has(f); err != nil {
			return err
		}
	}
	return left.consistent()
}

// TestPowerLoss cuts the power at every sync of a run of everything that a ledger does. At each point the disk keeps
// some of what was written since the syncs before, as disks do.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	r := record(t, 4, 8)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	times, err := r.fail(t, func(point int) []loss {
		if point%powerLossStep > 0 {
			return nil
		}
		return []loss{losses[0], losses[1+point%(len(losses)-1)]}
	}, seed)
	require.NoError(t, err, "seed %d", seed)
	t.Logf("the power failed %d times at %d points of %d events; %d answers", times, len(r.points()), len(r.events),
		len(r.told))
	require.Greater(t, times, 150/powerLossStep)
}

// TestPowerLossIsSeen shows that the test above sees what it looks for: on disks that do not do what they are told it
// fails.
func TestPowerLossIsSeen(t *testing.T) {
	t.Parallel()
	r := record(t, 3, 4)
	all := func(int) []loss { return losses[:1] }
	for name, forget := range map[string]func(event) bool{
		"no sync at all":                           func(event) bool { return true },
		"the log is never synced":                  func(e event) bool { return e.file == "fareway.db-wal" },
		"the main file only when it is made":       onceOf("fareway.db"),
		"only some of the syncs do what they have": everyFourth(),
	} {
		lying := recording{told: r.told}
		moved := make([]int, len(r.events)+1)
		for i, e := range r.events {
			moved[i] = len(lying.events)
			if e.kind != synced || !forget(e) {
				lying.events = append(lying.events, e)
			}
		}
		moved[len(r.events)] = len(lying.events)
		lying.told = nil
		for _, a := range r.told {
			lying.told = append(lying.told, answer{a.fact, moved[a.position]})
		}
		_, err := lying.fail(t, all, 1)
		require.Error(t, err, name)
		t.Logf("%s: %v", name, err)
	}
}

func everyFourth() func(event) bool {
	n := 0
	return func(event) bool { n++; return n%4 == 0 }
}

func onceOf(file string) func(event) bool {
	seen := false
	return func(e event) bool {
		forget := seen && e.file == file
		seen = seen || e.file == file
		return forget
	}
}

// openPlain opens a connection that knows nothing of the ledger.
func openPlain(path string) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(5 * time.Second)
	return conn, nil
}
