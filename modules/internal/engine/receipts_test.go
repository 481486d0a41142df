package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// desk is a reconciler on fakes, whose clock the test turns.
type desk struct {
	*reconciler
	room     *waitingRoom
	clock    *clock
	backends map[string]Backend
	logged   bytes.Buffer
}

func newDesk(backends map[string]Backend) *desk {
	d := &desk{room: newWaitingRoom(), clock: &clock{now: time.Unix(1_000_000, 0)}, backends: backends}
	d.reconciler = &reconciler{
		ledger: d.room,
		acquire: func() (*Generation, func()) {
			return &Generation{Config: &config.Config{}, backends: d.backends}, func() {}
		},
		metrics: newMetrics(""),
		log:     slog.New(slog.NewTextHandler(&d.logged, nil)),
		now:     d.clock.read,
	}
	return d
}

// pass looks as often as the engine does in the given time.
func (d *desk) pass(t interface{ Context() context.Context }, span time.Duration) error {
	var errs []error
	for range int(span / receiptsEvery) {
		errs = append(errs, d.look(t.Context()))
		d.clock.now = d.clock.now.Add(receiptsEvery)
	}
	return errors.Join(errs...)
}

func TestReceiptsAreCharged(t *testing.T) {
	t.Parallel()
	d := newDesk(map[string]Backend{
		"tells":  &archive{answer: proof},
		"silent": &archive{silent: true},
		"away":   &archive{answer: proof, away: true},
	})
	ids := d.room.enter("tells", 3)
	d.room.enter("silent", 1)
	d.room.enter("away", 1)
	d.room.enter("gone", 1)
	require.NoError(t, d.look(t.Context()))

	for _, id := range ids {
		require.Equal(t, 1, d.room.charged[id])
	}
	require.Len(t, d.room.charged, 3, "the others are not asked, and go on waiting")
	values := d.metrics.values(t)
	require.Equal(t, 3.0, values[`fareway_receipts_total{provider="tells" result="charged"}`])
	require.Equal(t, 30.0, values[`fareway_tokens_total{class="input" route="small"}`])
	require.Equal(t, 15.0, values[`fareway_tokens_total{class="output" route="small"}`])

	back := &archive{answer: proof}
	d.backends = map[string]Backend{"gone": back, "away": back}
	require.NoError(t, d.look(t.Context()))
	require.Len(t, d.room.charged, 5, "a reload that brings a provider back finds what waited for it")
}

func TestManyReceiptsComeInBatches(t *testing.T) {
	t.Parallel()
	a := &archive{answer: proof}
	d := newDesk(map[string]Backend{"p": a})
	d.room.enter("p", receiptBatch*receiptBatches+1)
	require.NoError(t, d.look(t.Context()))
	require.Len(t, d.room.charged, receiptBatch*receiptBatches, "one look is bounded")
	require.NoError(t, d.look(t.Context()))
	require.Empty(t, d.room.waiting["p"])
	for _, page := range a.asked {
		require.LessOrEqual(t, len(page), receiptBatch)
	}
}

func TestQuestionsBecomeRare(t *testing.T) {
	t.Parallel()
	t.Run("while nothing comes", func(t *testing.T) {
		t.Parallel()
		a := &archive{answer: nothing}
		d := newDesk(map[string]Backend{"p": a})
		d.room.enter("p", 1)
		require.NoError(t, d.pass(t, time.Minute))
		require.Equal(t, 4, a.questions(), "at 0, 5, 15 and 35 seconds")
		require.NoError(t, d.pass(t, 10*time.Minute))
		require.InDelta(t, 14, a.questions(), 1, "then once a minute")

		a.answer = proof
		require.NoError(t, d.pass(t, maxQuietPause+receiptsEvery))
		require.Len(t, d.room.charged, 1)
		d.room.enter("p", 1)
		require.NoError(t, d.look(t.Context()))
		require.Len(t, d.room.charged, 2, "where receipts come, the next one is asked for at once")
	})
	t.Run("while many wait in vain", func(t *testing.T) {
		t.Parallel()
		a := &archive{answer: nothing}
		d := newDesk(map[string]Backend{"p": a})
		d.room.enter("p", 10*receiptBatch)
		require.NoError(t, d.pass(t, time.Minute))
		require.LessOrEqual(t, a.questions(), 12, "one question a look")
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.asked...)))), 10*receiptBatch,
			"and each has its turn")
	})
	t.Run("while the provider fails", func(t *testing.T) {
		t.Parallel()
		a := &archive{answer: func(context.Context, []string) ([]host.Receipt, error) {
			return nil, llm.Errorf(llm.ErrUpstream, "the archive is on fire")
		}}
		d := newDesk(map[string]Backend{"p": a})
		d.room.enter("p", 1)
		require.NoError(t, d.pass(t, time.Hour), "it is no error of the ledger")
		require.Less(t, a.questions(), 30)
		require.Equal(t, 1, strings.Count(d.logged.String(), "does not give receipts"), "said once")
		require.Contains(t, d.logged.String(), "the archive is on fire")

		a.answer = proof
		require.NoError(t, d.pass(t, maxFailedPause+maxQuietPause))
		require.Len(t, d.room.charged, 1)
		require.Equal(t, 1, strings.Count(d.logged.String(), "gives receipts again"))

		d.room.enter("p", 1000)
		require.NoError(t, d.pass(t, receiptsEvery))
		require.Len(t, a.asked[a.questions()-2], receiptBatch, "the questions have become large again")
	})
}

// TestUselessReceiptsAreForgottenAtLast: a provider that proves nonsense for ever does not fill the memory.
func TestUselessReceiptsAreForgottenAtLast(t *testing.T) {
	t.Parallel()
	w := &walk{useless: make(map[string]bool)}
	for i := range maxRemembered {
		require.True(t, w.once(strconv.Itoa(i)))
		require.False(t, w.once(strconv.Itoa(i)), "said once")
	}
	require.Len(t, w.useless, maxRemembered)
	require.True(t, w.once("one more"))
	require.Len(t, w.useless, 1)
}

func TestReceiptsAfterTheClockWentBack(t *testing.T) {
	t.Parallel()
	a := &archive{answer: nothing}
	d := newDesk(map[string]Backend{"p": a})
	ids := d.room.enter("p", 1)
	require.NoError(t, d.pass(t, time.Minute))
	a.answer = proof
	d.clock.now = d.clock.now.AddDate(-1, 0, 0)
	require.NoError(t, d.look(t.Context()))
	require.Equal(t, 1, d.room.charged[ids[0]])
}

// One attempt that a provider cannot answer for, with an error for the whole question, must not keep the others.
func TestReceiptsBesideAnAttemptThatFails(t *testing.T) {
	t.Parallel()
	var poison string
	a := &archive{answer: func(ctx context.Context, attempts []string) ([]host.Receipt, error) {
		if slices.Contains(attempts, poison) {
			return nil, llm.Errorf(llm.ErrProtocol, "no idea")
		}
		return proof(ctx, attempts)
	}}
	d := newDesk(map[string]Backend{"p": a})
	poison = d.room.enter("p", 150)[70]
	require.NoError(t, d.pass(t, 2*time.Hour))
	require.Equal(t, []string{poison}, d.room.waiting["p"])
	require.Len(t, d.room.charged, 149)
}

// TestReceiptsOfOneBesideOneThatFails: nor its only neighbour, which is asked about alone in the end.
func TestReceiptsOfOneBesideOneThatFails(t *testing.T) {
	t.Parallel()
	var ids []string
	a := &archive{answer: func(ctx context.Context, attempts []string) ([]host.Receipt, error) {
		if slices.Contains(attempts, ids[0]) {
			return nil, llm.Errorf(llm.ErrProtocol, "no idea")
		}
		return proof(ctx, attempts)
	}}
	d := newDesk(map[string]Backend{"p": a})
	ids = d.room.enter("p", 2)
	require.NoError(t, d.pass(t, 2*time.Hour))
	require.Equal(t, map[string]int{ids[1]: 1}, d.room.charged)
}

func TestReceiptsBesideAnErrorCount(t *testing.T) {
	t.Parallel()
	a := &archive{answer: func(ctx context.Context, attempts []string) ([]host.Receipt, error) {
		some, _ := proof(ctx, attempts[:1])
		return some, llm.Errorf(llm.ErrUpstream, "the second page of the archive is missing")
	}}
	d := newDesk(map[string]Backend{"p": a})
	ids := d.room.enter("p", 2)
	require.NoError(t, d.look(t.Context()))
	require.Equal(t, map[string]int{ids[0]: 1}, d.room.charged)
}

func TestReceiptsThatAreNoUse(t *testing.T) {
	t.Parallel()
	var ids []string
	a := &archive{answer: func(ctx context.Context, attempts []string) ([]host.Receipt, error) {
		receipts, err := proof(ctx, attempts)
		for i := range receipts {
			switch receipts[i].Attempt {
			case ids[1]:
				receipts[i].Usage = llm.Usage{}
			case ids[2]:
				receipts[i].Usage.Output = nil
			}
		}
		return receipts, err
	}}
	d := newDesk(map[string]Backend{"p": a})
	ids = d.room.enter("p", 4)
	d.room.refuse[ids[0]] = ledger.ErrUsage
	require.NoError(t, d.pass(t, 10*time.Minute))
	require.Equal(t, ids[:3], d.room.waiting["p"], "they go on waiting")
	require.Equal(t, map[string]int{ids[3]: 1}, d.room.charged, "and don't stop the others")
	require.Equal(t, 1, strings.Count(d.logged.String(), "a receipt says only half of what was used"), "GAP-111")
	require.Equal(t, 1, strings.Count(d.logged.String(), "a receipt cannot be charged"), "said once for an attempt")
	require.Contains(t, d.logged.String(), ids[0])
	require.Positive(t, d.metrics.values(t)[`fareway_receipts_total{provider="p" result="refused"}`])
	require.Positive(t, d.metrics.values(t)[`fareway_receipts_total{provider="p" result="empty"}`])

	d.room.refuse = nil
	require.NoError(t, d.pass(t, 2*maxQuietPause))
	require.Equal(t, 1, d.room.charged[ids[0]], "until the numbers can be priced")
}

func TestReceiptsWhileTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	a := &archive{answer: proof}
	d := newDesk(map[string]Backend{"p": a})
	ids := d.room.enter("p", 1)
	d.room.refuse[ids[0]] = fmt.Errorf("adding a receipt: %w", ledger.ErrUnavailable)
	require.ErrorIs(t, d.look(t.Context()), ledger.ErrUnavailable)
	require.Empty(t, d.logged.String(), "an error is returned or logged")

	d.room.refuse = nil
	require.NoError(t, d.look(t.Context()), "the same question again")
	require.Equal(t, 1, d.room.charged[ids[0]])
}

func TestProviderThatHangs(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context, _ []string) ([]host.Receipt, error) {
		<-ctx.Done()
		return nil, llm.Errorf(llm.ErrUpstream, "it did not answer in time")
	}
	t.Run("is given up after a while, and holds no other up", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(map[string]Backend{"hangs": &archive{answer: hang}, "works": &archive{answer: proof}})
			d.room.enter("hangs", 1)
			d.room.enter("works", 1)
			begin := time.Now()
			var looked sync.WaitGroup
			looked.Go(func() { _ = d.look(t.Context()) })
			synctest.Wait()
			require.Len(t, d.room.charged, 1, "before the other has answered")
			looked.Wait()
			require.Equal(t, receiptTimeout, time.Since(begin))
		})
	})
	t.Run("does not hold up Close", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(map[string]Backend{"hangs": &archive{answer: hang}})
			d.room.enter("hangs", 1)
			var b background
			b.loops = []*loop{{chores: []*chore{{name: "charging receipts", every: receiptsEvery, do: d.look}}, log: d.log,
				now: time.Now, after: time.After}}
			ctx, stop := context.WithCancel(t.Context())
			b.start(ctx)
			synctest.Wait()
			begin := time.Now()
			stop()
			b.wait()
			require.Zero(t, time.Since(begin))
			require.Empty(t, d.logged.String(), "being interrupted is no failure")
		})
	})
}

// Whatever arrives, fails and is late: an attempt whose receipt exists for long enough is charged exactly once, and a
// provider is never asked more often than once a look, but for the questions that follow receipts.
func TestReceiptsEventuallyAllExactlyOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		known := make(map[string]bool) // attempts that the archive has
		failing := false
		a := &archive{}
		a.answer = func(ctx context.Context, attempts []string) ([]host.Receipt, error) {
			found := slices.DeleteFunc(slices.Clone(attempts), func(id string) bool { return !known[id] })
			receipts, _ := proof(ctx, append(found, found...)) // each of them twice
			if failing {
				return receipts[:len(receipts)/2], llm.Errorf(llm.ErrUpstream, "later")
			}
			return receipts, nil
		}
		d := newDesk(map[string]Backend{"p": a})
		var all []string
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				all = append(all, d.room.enter("p", rapid.IntRange(1, 150).Draw(t, "attempts"))...)
			},
			"archive": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "receipts") {
					if len(all) > 0 {
						known[rapid.SampledFrom(all).Draw(t, "attempt")] = true
					}
				}
			},
			"fail":    func(*rapid.T) { failing = !failing },
			"restart": func(*rapid.T) { d.walks = nil },
			"ledger":  func(*rapid.T) { d.room.down = map[bool]error{true: ledger.ErrUnavailable}[d.room.down == nil] },
			"time": func(t *rapid.T) {
				asked := a.questions()
				before := len(d.room.charged)
				_ = d.pass(t, time.Minute) // the ledger may be away
				productive := len(d.room.charged) - before
				if a.questions()-asked > int(time.Minute/receiptsEvery)+productive {
					t.Fatalf("%d questions in a minute for %d receipts", a.questions()-asked, productive)
				}
			},
		})
		failing, d.room.down = false, nil
		require.NoError(t, d.pass(t, time.Hour))
		for _, id := range all {
			if known[id] && d.room.charged[id] != 1 || !known[id] && d.room.charged[id] != 0 {
				t.Fatalf("attempt %s was charged %d times; its receipt exists: %v", id, d.room.charged[id], known[id])
			}
		}
	})
}
