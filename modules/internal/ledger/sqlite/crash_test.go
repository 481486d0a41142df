package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// childLedger names the ledger that this executable, started again, works on until it is killed. childClock is where
// its clock begins.
const (
	childLedger = "FAREWAY_TEST_LEDGER"
	childClock  = "FAREWAY_TEST_CLOCK"
)

var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	if path := os.Getenv(childLedger); path != "" {
		if err := work(path, os.Getenv(childClock)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	if err := installVFS(); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const workers = 8 // of a child

// work does the workload without end, and prints each thing once the ledger has answered it. It ends when its standard
// input does, so that it does not outlive the test.
func work(path, begin string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var clock atomic.Int64
	var start int64
	if _, err := fmt.Sscan(begin, &start); err != nil {
		return err
	}
	clock.Store(start)
	var mu sync.Mutex
	boot := fmt.Sprintf("boot%d", os.Getpid())
	w, err := newWorkload(path, boot, &clock, func(f fact) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(f)
	})
	if err != nil {
		return err
	}
	errs := make(chan error)
	for worker := range workers {
		go func() {
			for n := 0; ; n++ {
				if err := w.round(context.Background(), worker, n, requestID(boot, worker, n)); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

// TestKilledAtAnyMoment kills the process in the middle of everything that a ledger does, again and again on the same
// ledger, and looks for what it had answered.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	killed(t, 6)
}

func killed(t *testing.T, cycles int) {
	path := filepath.Join(t.TempDir(), "fareway.db")
	var clock atomic.Int64
	clock.Store(workStart.UnixNano())
	w, err := newWorkload(path, "parent", &clock, func(fact) {})
	require.NoError(t, err)
	require.NoError(t, w.store.Close())

	var told []fact
	caught := int64(0) // requests that ran when they were killed
	for cycle := range cycles {
		lines := runAndKill(t, path, clock.Load(), 50+rand.IntN(600))
		told = append(told, lines...)
		for _, f := range lines {
			if f.what == "period" { // the next child's clock goes on from there
				clock.Store(max(clock.Load(), f.number))
			}
		}

		b, err := OpenBooks(t.Context(), path)
		require.NoError(t, err)
		r, err := b.Verify(t.Context())
		require.NoError(t, err)
		require.True(t, r.OK, "before anyone opens it to write: %s: %s", r.Entry, r.Problem)
		require.LessOrEqual(t, r.Holds, int64(workers))
		caught += r.Holds
		require.NoError(t, b.Close())

		s := openStore(t, func(o *Options) { o.Path, o.BootID, o.Terms = path, fmt.Sprint("after", cycle), nil })
		spooled := repeatUnanswered(t, s, told, cycle%2 == 0)
		n, err := s.Recover(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, r.Holds-spooled, n)
		left, err := look(t.Context(), s)
		require.NoError(t, err)
		require.Empty(t, left.held, "the holds of the dead are released")
		for _, f := range told {
			require.NoError(t, left.has(f))
		}
		require.NoError(t, left.consistent())
		require.InDelta(t, count(told, "hold"), len(left.requests), float64(workers*(cycle+1)),
			"what was done without a word is at most one thing a worker")
		require.NoError(t, s.Close())
	}
	require.Positive(t, caught)
}

func count(told []fact, what string) (n int) {
	for _, f := range told {
		if f.what == what {
			n++
		}
	}
	return n
}

// repeatUnanswered repeats the settlements of all requests, as a process does with those that its predecessor left in
// the spool, or of those only that were answered. It returns how many of them were running.
func repeatUnanswered(t *testing.T, s *Store, told []fact, everything bool) (running int64) {
	before, err := look(t.Context(), s)
	require.NoError(t, err)
	for _, f := range told {
		if f.what != "hold" && f.what != "settle" || f.what == "hold" && !everything {
			continue
		}
		if before.held[f.id] {
			running++
			delete(before.held, f.id)
		}
		c, err := s.Settle(t.Context(), settlement(f.id))
		require.NoError(t, err, "a hold that was answered is there")
		if r := before.requests[f.id]; r == nil || r.reason == "ok" {
			require.GreaterOrEqual(t, c.Microcents+c.Waived, amount(f.id, 1))
		} else {
			require.Equal(t, r.charged, c.Microcents+c.Waived, "what was recovered is charged by receipts only")
		}
	}
	return running
}

// runAndKill starts a child on the ledger, reads so many lines, and kills it in the middle of its work. What it had
// written by then is read to the end.
func runAndKill(t *testing.T, path string, clock int64, lines int) (told []fact) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childLedger+"="+path, fmt.Sprintf("%s=%d", childClock, clock))
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var once sync.Once
	kill := func() {
		once.Do(func() {
			_ = child.Process.Kill()
			_ = stdin.Close()
		})
	}
	defer kill()

	out := bufio.NewReader(stdout)
	for n := 0; ; n++ {
		line, err := out.ReadString('\n')
		if err != nil {
			break // a line that is not whole was not told
		}
		f, err := readFact(strings.TrimSpace(line))
		require.NoError(t, err, "the child said %s", line)
		told = append(told, f)
		switch n {
		case lines / 2:
			_, err := Open(Options{Path: path})
			require.ErrorIs(t, err, ledger.ErrLocked)
			require.ErrorContains(t, err, fmt.Sprintf("process %d has", child.Process.Pid))
		case lines:
			kill()
		}
	}
	require.ErrorContains(t, child.Wait(), "killed")
	return told
}
