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
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/spool"
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

// TakeUp settles each course by itself.
func (l *till) TakeUp(ctx context.Context, courses []book.Course) (all []book.TakenUp, err error) {
	for i := range courses {
		_, before := l.has(courses[i].ID)
		c, err := l.Settle(ctx, courses[i].End.Settlement)
		if errors.Is(err, ledger.ErrUnavailable) {
			return nil, err
		}
		all = append(all, book.TakenUp{Charge: c, Before: before, Err: err})
	}
	return all, nil
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
	return s, log
}

// computed is what the tests' settlements come to.
const computed = 5

// courseOf is a request that has ended, as its process decided it.
func courseOf(request string) *book.Course {
	price := config.Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Tiers: []config.Tier{{Above: 9, Output: 8}}}
	at := time.Unix(1, 0).UTC()
	c := &book.Course{Running: book.Running{ID: request, Account: "acct_1", Key: "key_1", Owner: "boot", Endpoint: "chat",
		Profile: "balanced", Held: 100, Created: at}, Kept: true}
	c.Attempts = []book.Attempt{book.BeginAttempt(ledger.Attempt{ID: request + ".1", Route: "small", Provider: "echo",
		Model: "echo-1", PriceVersion: 2, Worst: 100}, price, price, at)}
	s := ledger.Settlement{Request: request, Status: 200, Reason: "ok",
		Results: []ledger.Result{{Attempt: request + ".1", Outcome: ledger.Finished}}}
	c.End = &book.End{Settlement: s, Part: book.Part{Charge: computed}, Pending: true, At: at}
	return c
}

// spoolIn appends requests that have ended to the spool in a folder, as a process that dies leaves them.
func spoolIn(t *testing.T, dir string, all ...*book.Course) {
	t.Helper()
	s, err := spool.Open(filepath.Join(dir, "spool"), 0)
	require.NoError(t, err)
	for _, c := range all {
		r := live.RecordOf(c)
		_, err := s.Append(&r)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
}

// TestSpoolOfADeadProcess: what a process left is applied by the next one before anything else.
func TestSpoolOfADeadProcess(t *testing.T) {
	t.Parallel()
	dir, l := t.TempDir(), newTill()
	l.away = true
	const n = 3*applyAtOnce + 1
	var all []*book.Course
	for i := range n {
		all = append(all, courseOf(fmt.Sprint(i)))
	}
	spoolIn(t, dir, all...)
	away, err := openSettler(filepath.Join(dir, "spool"), l, newMetrics(""), slog.New(slog.DiscardHandler), timing)
	require.NoError(t, err)
	require.ErrorIs(t, away.takeUp(t.Context()), ledger.ErrUnavailable, "it does not start without them")
	require.EqualValues(t, n, away.spool.Len())
	require.NoError(t, away.spool.Close())

	l.away = false
	second, log := settlerOn(t, dir, l)
	require.Len(t, l.settled, n)
	require.Zero(t, second.spool.Len())
	require.Equal(t, 1, log.count(fmt.Sprintf("settlements=%d", n)))
	require.NoError(t, second.spool.Close())
}

// TestWhatADeadProcessHasChargedIsNoted: it may have brought its account to a limit that somebody hears of; what was
// refused has charged nothing.
func TestWhatADeadProcessHasChargedIsNoted(t *testing.T) {
	t.Parallel()
	dir, l := t.TempDir(), newTill()
	good, refused := courseOf("a"), courseOf("b")
	good.End.Part = book.Part{} // as nothing was proven
	refused.Account = "acct_2"
	spoolIn(t, dir, good, refused)
	s, err := openSettler(filepath.Join(dir, "spool"), l, newMetrics(""), slog.New(slog.DiscardHandler), timing)
	require.NoError(t, err)
	var charged []string
	s.noteCharged = func(account string) { charged = append(charged, account) }
	require.NoError(t, s.takeUp(t.Context()))
	require.Equal(t, []string{"acct_1"}, charged)
	require.NoError(t, s.spool.Close())
}

// TestTornSpool: the operator is told of a settlement whose writing was cut off, and of nothing else.
func TestTornSpool(t *testing.T) {
	t.Parallel()
	dir, l := t.TempDir(), newTill()
	read := func() []byte {
		content, err := os.ReadFile(filepath.Join(dir, "spool"))
		require.NoError(t, err)
		return content
	}
	spoolIn(t, dir, courseOf("a"))
	before := read()
	cut := courseOf("b")
	cut.End.Settlement.Reason = strings.Repeat("x", 2000)
	spoolIn(t, dir, cut)
	content := read()
	const header, sector = 4096, 512
	copy(content[:header], before) // which counts what Append has returned for
	clear(content[(len(bytes.TrimRight(content, "\x00"))-1)/sector*sector:])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "spool"), content, 0o600))
	s, log := settlerOn(t, dir, l)
	require.Equal(t, 1, log.count("the spool ends in a settlement that was not written to its end"))
	require.Contains(t, l.settled, "a")
	require.NotContains(t, l.settled, "b")
	require.NoError(t, s.spool.Close())
}

// TestSettleRefused: what the ledger refuses is a failure of the service (BILL-25), and free; where it does not settle
// that either, both are said, and it is not asked for ever.
func TestSettleRefused(t *testing.T) {
	t.Parallel()
	refusal := errors.New("refused by the test")
	l := newTill()
	l.refuses["a"], l.unknown["b"] = refusal, true
	door := Ledger{refusing{Store: nil, till: l}}
	settlement := courseOf("a").End.Settlement
	_, err := door.Settle(t.Context(), settlement)
	require.ErrorIs(t, err, refusal)
	require.NotErrorIs(t, err, ledger.ErrUnavailable)
	require.Equal(t, asFree(settlement), l.of("a"))
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err = door.Settle(ctx, courseOf("b").End.Settlement)
	require.ErrorIs(t, err, ledger.ErrNotFound, "a settlement does not end with its request")
	require.Equal(t, 4, l.questions())
}

// refusing is a store of which only what settles is asked.
type refusing struct {
	ledger.Store
	till *till
}

func (r refusing) Settle(ctx context.Context, s ledger.Settlement) (ledger.Charge, error) {
	if err := ctx.Err(); err != nil {
		return ledger.Charge{}, err
	}
	return r.till.Settle(ctx, s)
}
