package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// ledgerTimeout is how long a till lets its callers wait while it hangs, as the ledger does.
const ledgerTimeout = 5 * time.Second

// till is a ledger that only settles.
type till struct {
	mu      sync.Mutex
	away    bool
	hangs   bool // while it is away
	refuses map[string]error
	settled map[string]ledger.Settlement
	charges map[string]ledger.Charge // of those that are not 7 microcents
	unknown map[string]bool          // requests
	used    map[string]llm.Usage     // by attempt: the receipts that were taken
	asked   int
}

func newTill() *till {
	return &till{refuses: make(map[string]error), settled: make(map[string]ledger.Settlement),
		charges: make(map[string]ledger.Charge),
		unknown: make(map[string]bool), used: make(map[string]llm.Usage)}
}

func (*till) RecordAct(context.Context, string, string, string, map[string]any) error { return nil }

func (l *till) Settle(ctx context.Context, s ledger.Settlement) (ledger.Charge, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.away && l.hangs {
		l.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(ledgerTimeout):
		}
		l.mu.Lock()
	}
	if l.away {
		return ledger.Charge{}, fmt.Errorf("asked in vain: %w", ledger.ErrUnavailable)
	}
	if l.unknown[s.Request] {
		return ledger.Charge{}, fmt.Errorf("%w: a request with this id", ledger.ErrNotFound)
	}
	if err := l.refuses[s.Request]; err != nil && !s.Free {
		return ledger.Charge{}, err
	}
	if _, repeated := l.settled[s.Request]; !repeated {
		l.settled[s.Request] = s
	}
	if c, ok := l.charges[s.Request]; ok {
		return c, nil
	}
	return ledger.Charge{Microcents: 7}, nil
}

// AddReceipt takes each attempt's receipt once, at 5 microcents.
func (l *till) AddReceipt(_ context.Context, attempt string, usage llm.Usage) (ledger.Charge, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return ledger.Charge{}, false, ledger.ErrUnavailable
	}
	request, _, _ := ledger.ParseAttemptID(attempt)
	c := l.charges[request]
	if err := l.refuses[attempt]; err != nil {
		return c, false, err
	}
	if _, repeated := l.used[attempt]; repeated || !c.Pending {
		return c, false, nil
	}
	l.used[attempt] = usage
	c.Microcents, c.Pending = c.Microcents+5, false
	l.charges[request] = c
	return c, true, nil
}

// of is the settlement of a request, the zero one when there is none.
func (l *till) of(request string) ledger.Settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settled[request]
}

func (l *till) questions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

func (l *till) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

func (l *till) has(request string) (ledger.Settlement, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.settled[request]
	return s, ok
}

// safe is a log that may be read while it is written.
type safe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safe) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), text)
}

var timing = &Options{Now: time.Now, After: time.After}

// settlerOn opens a settler in a folder, as a process does that starts there.
func settlerOn(t *testing.T, dir string, l *till) (*settler, *safe) {
	t.Helper()
	log := new(safe)
	s, err := openSettler(filepath.Join(dir, "spool"), l, newMetrics(""), slog.New(slog.NewTextHandler(log, nil)), timing)
	require.NoError(t, err)
	require.NoError(t, s.takeUp(t.Context()))
	s.start()
	return s, log
}

// spooled is what the metric says of the spool.
func spooled(t *testing.T, s *settler) float64 {
	return s.metrics.values(t)["fareway_spooled_settlements{}"]
}

// computed is what the tests' settlements come to.
var computed = ledger.Charge{Microcents: 5, Pending: true}

func endOf(request string) Ending {
	s := ledger.Settlement{Request: request, Status: 200, Reason: "ok",
		Results: []ledger.Result{{Attempt: request + ".1", Outcome: ledger.Finished}}}
	return Ending{Settlement: s, Account: "acct_1", Key: "key_1", Charge: computed, Attempts: []Tried{
		{Attempt: ledger.Attempt{ID: request + ".1", Route: "small", Provider: "echo", Model: "echo-1", PriceVersion: 2},
			Price: config.Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Tiers: []config.Tier{{Above: 9, Output: 8}}}},
	}}
}

func TestSettleWhileTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newTill()
		s, log := settlerOn(t, t.TempDir(), l)
		got, err := s.settle(t.Context(), endOf("a"))
		require.NoError(t, err)
		require.EqualValues(t, 7, got.Microcents, "the ledger's own word")

		l.away, l.hangs = true, true
		begin := time.Now()
		got, err = s.settle(t.Context(), endOf("b"))
		require.NoError(t, err)
		require.Equal(t, computed, got)
		require.Equal(t, ledgerTimeout, time.Since(begin))
		got, err = s.settle(t.Context(), endOf("c"))
		require.NoError(t, err)
		require.Equal(t, computed, got)
		require.Equal(t, ledgerTimeout, time.Since(begin), "nobody waits for a ledger that is known to be away")
		require.InDelta(t, 2, spooled(t, s), 0)

		<-time.After(time.Minute)
		require.Less(t, l.questions(), 40, "it is asked in growing intervals")
		l.set(false)
		<-time.After(maxApplyPause + ledgerTimeout)
		for _, request := range []string{"a", "b", "c"} {
			require.Equal(t, endOf(request).Settlement, l.of(request))
		}
		require.Zero(t, spooled(t, s))
		got, err = s.settle(t.Context(), endOf("d"))
		require.NoError(t, err)
		require.EqualValues(t, 7, got.Microcents)

		l.set(true)
		_, err = s.settle(t.Context(), endOf("e"))
		require.NoError(t, err)
		l.set(false)
		<-time.After(maxApplyPause + ledgerTimeout)
		require.Equal(t, endOf("e").Settlement, l.of("e"), "one alone is applied, too")
		require.Equal(t, 2, log.count("the ledger is away"), "%s", &log.b)
		require.Equal(t, 2, log.count("the ledger is back"), "%s", &log.b)
		require.NoError(t, s.close())
	})
}

// TestOneThatIsNotTaken: as soon as the ledger takes something of the spool, what ends then does not wait for the
// rest.
func TestOneThatIsNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newTill()
		s, _ := settlerOn(t, t.TempDir(), l)
		l.set(true)
		for _, request := range []string{"a", "b"} {
			_, err := s.settle(t.Context(), endOf(request))
			require.NoError(t, err)
		}
		l.mu.Lock()
		l.away, l.refuses["b"] = false, ledger.ErrUnavailable
		l.mu.Unlock()
		<-time.After(time.Second)
		require.EqualValues(t, 2, s.spool.Len(), "they stay together")
		got, err := s.settle(t.Context(), endOf("c"))
		require.NoError(t, err)
		require.EqualValues(t, 7, got.Microcents, "the ledger's own word")
		l.mu.Lock()
		delete(l.refuses, "b")
		l.mu.Unlock()
		<-time.After(2 * maxApplyPause)
		require.Zero(t, s.spool.Len())
		require.Equal(t, endOf("b").Settlement, l.of("b"))
		require.NoError(t, s.close())
	})
}

// TestSettleAfterTheClientLeft: a settlement does not end with its request.
func TestSettleAfterTheClientLeft(t *testing.T) {
	t.Parallel()
	l := newTill()
	s, _ := settlerOn(t, t.TempDir(), l)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err := s.settle(ctx, endOf("a"))
	require.NoError(t, err)
	require.Contains(t, l.settled, "a")
	require.NoError(t, s.close())
}

func TestSettleRefused(t *testing.T) {
	t.Parallel()
	refusal := errors.New("refused by the test")
	synctest.Test(t, func(t *testing.T) {
		l := newTill()
		l.refuses["a"], l.refuses["b"], l.refuses["c"] = refusal, refusal, refusal
		s, log := settlerOn(t, t.TempDir(), l)
		_, err := s.settle(t.Context(), endOf("a"))
		require.ErrorIs(t, err, refusal)
		require.NotErrorIs(t, err, ledger.ErrUnavailable)
		require.Equal(t, asFree(endOf("a").Settlement), l.of("a"), "BILL-25: a failure of the service is free")

		l.set(true)
		_, err = s.settle(t.Context(), endOf("b"))
		require.NoError(t, err)
		_, err = s.settle(t.Context(), endOf("d"))
		require.NoError(t, err)
		l.set(false)
		<-time.After(2 * maxApplyPause)
		require.Equal(t, asFree(endOf("b").Settlement), l.of("b"))
		require.Equal(t, endOf("d").Settlement, l.of("d"), "it does not keep others from theirs")
		require.Equal(t, 1, log.count("a settlement of the spool cannot be applied and is kept aside"))
		require.Zero(t, s.spool.Len())
		require.NoError(t, s.close())
	})
}

// TestSettleOfNothing: what the ledger does not settle as free either is an error, and it is not asked for ever.
func TestSettleOfNothing(t *testing.T) {
	t.Parallel()
	l := newTill()
	l.unknown["a"] = true
	s, _ := settlerOn(t, t.TempDir(), l)
	_, err := s.settle(t.Context(), endOf("a"))
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.Equal(t, 2, l.questions())
	require.NoError(t, s.close())
}

// TestSpoolOfADeadProcess: what a process left is applied by the next one before anything else.
func TestSpoolOfADeadProcess(t *testing.T) {
	t.Parallel()
	dir, l := t.TempDir(), newTill()
	l.away = true
	first, _ := settlerOn(t, dir, l)
	const n = 3*applyAtOnce + 1
	for i := range n {
		_, err := first.settle(t.Context(), endOf(fmt.Sprint(i)))
		require.NoError(t, err)
	}
	require.NoError(t, first.close())

	_, err := openSettler(filepath.Join(dir, "spool"), l, newMetrics(""), slog.New(slog.DiscardHandler), timing)
	require.NoError(t, err)
	away, err := openSettler(filepath.Join(dir, "spool"), l, newMetrics(""), slog.New(slog.DiscardHandler), timing)
	require.NoError(t, err)
	require.ErrorIs(t, away.takeUp(t.Context()), ledger.ErrUnavailable, "it does not start without them")
	require.InDelta(t, n, spooled(t, away), 0)
	require.NoError(t, away.close())

	l.away = false
	second, log := settlerOn(t, dir, l)
	require.Len(t, l.settled, n)
	require.Zero(t, spooled(t, second))
	require.Equal(t, 1, log.count(fmt.Sprintf("settlements=%d", n)))
	require.NoError(t, second.close())
}

// slow is a ledger whose answer comes when it is let, whoever waits no more.
type slow struct {
	*till
	answer chan struct{}
}

func (s slow) Settle(ctx context.Context, x ledger.Settlement) (ledger.Charge, error) {
	<-s.answer
	return s.till.Settle(ctx, x)
}

// TestCloseWaitsForTheLedger: the spool is closed when nobody uses it any more, and keeps what is not applied.
func TestCloseWaitsForTheLedger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := slow{newTill(), make(chan struct{})}
		s, err := openSettler(filepath.Join(t.TempDir(), "spool"), l, newMetrics(""), slog.New(slog.DiscardHandler), timing)
		require.NoError(t, err)
		s.start()
		_, err = s.keep(endOf("a"), ledger.ErrUnavailable)
		require.NoError(t, err)
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- s.close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			require.Fail(t, "it is in use", "%v", err)
		default:
		}
		close(l.answer)
		require.NoError(t, <-closed)
		require.Equal(t, endOf("a").Settlement, l.of("a"))
	})
}

// TestTornSpool: the operator is told of a settlement whose writing was cut off, and of nothing else.
func TestTornSpool(t *testing.T) {
	t.Parallel()
	dir, l := t.TempDir(), newTill()
	l.away = true
	s, log := settlerOn(t, dir, l)
	require.Zero(t, log.count("the spool ends in"))
	require.Zero(t, log.count("are taken up"))
	read := func() []byte {
		content, err := os.ReadFile(filepath.Join(dir, "spool"))
		require.NoError(t, err)
		return content
	}
	_, err := s.settle(t.Context(), endOf("a"))
	require.NoError(t, err)
	before := read()
	cut := endOf("b")
	cut.Reason = strings.Repeat("x", 2000)
	_, err = s.settle(t.Context(), cut)
	require.NoError(t, err)
	require.NoError(t, s.close())
	content := read()
	const header, sector = 4096, 512
	copy(content[:header], before) // which counts what Append has returned for
	clear(content[(len(bytes.TrimRight(content, "\x00"))-1)/sector*sector:])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "spool"), content, 0o600))
	l.away = false
	s, log = settlerOn(t, dir, l)
	require.Equal(t, 1, log.count("the spool ends in a settlement that was not written to its end"))
	require.NoError(t, s.close())
}

// TestSpoolFull: what neither the ledger nor the spool takes is an error.
func TestSpoolFull(t *testing.T) {
	t.Parallel()
	l := newTill()
	s, _ := settlerOn(t, t.TempDir(), l)
	l.set(true)
	big := endOf("a")
	big.Reason = strings.Repeat("x", 17<<20)
	_, err := s.settle(t.Context(), big)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.Zero(t, spooled(t, s))
	require.NoError(t, s.close())
}

// TestSettleConcurrently settles from many goroutines while the ledger comes and goes: each settlement arrives.
func TestSettleConcurrently(t *testing.T) {
	t.Parallel()
	l := newTill()
	s, _ := settlerOn(t, t.TempDir(), l)
	s.after = func(time.Duration) <-chan time.Time { return time.After(time.Millisecond) }
	const each, callers = 40, 16
	var settling sync.WaitGroup
	for c := range callers {
		settling.Go(func() {
			for i := range each {
				if i%8 == 0 {
					l.set(c%2 == 0)
				}
				_, err := s.settle(context.Background(), endOf(fmt.Sprint(c*each+i)))
				require.NoError(t, err)
			}
		})
	}
	settling.Wait()
	l.set(false)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); s.spool.Len() > 0; {
		select {
		case <-tick.C:
		case <-deadline:
			require.Fail(t, "settlements are left in the spool")
		}
	}
	for i := range each * callers {
		_, ok := l.has(fmt.Sprint(i))
		require.True(t, ok, "settlement %d", i)
	}
	require.NoError(t, s.close())
	require.Zero(t, spooled(t, s))
}
