package live_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/plugins/llm"
)

// flaky is a store that takes nothing up when it is told so, or does and loses the answer.
type flaky struct {
	live.Store
	mu           sync.Mutex
	away, unsure bool
}

func (f *flaky) set(away, unsure bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away, f.unsure = away, unsure
}

func (f *flaky) TakeUp(ctx context.Context, courses []book.Course) ([]book.TakenUp, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, fmt.Errorf("the test's: %w", ledger.ErrUnavailable)
	}
	all, err := f.Store.TakeUp(ctx, courses)
	if f.unsure {
		return nil, fmt.Errorf("the test's, after the commit: %w", ledger.ErrUnavailable)
	}
	return all, err
}

// noon is when the clock of a gateway begins.
var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// gateway is a process with a ledger in a folder.
type gateway struct {
	t     require.TestingT
	dir   string
	boots int
	clock atomic.Int64 // milliseconds since noon
	store *flaky
	spool *spool.Spool
	*live.Ledger
}

// start opens the ledger as a process does: what is in the log is taken up, then what runs is released.
func (g *gateway) start() {
	g.boots++
	quiet := slog.New(slog.DiscardHandler)
	now := func() time.Time { return noon.Add(time.Duration(g.clock.Load()) * time.Millisecond) }
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(g.dir, "ledger.db"), BootID: fmt.Sprint("boot-", g.boots),
		Now: now, Logger: quiet})
	require.NoError(g.t, err)
	g.store = &flaky{Store: store}
	g.spool, err = spool.Open(filepath.Join(g.dir, "ledger.db.spool"), 1<<18)
	require.NoError(g.t, err)
	require.Zero(g.t, g.spool.Aside().Undecided())
	ctx := context.Background()
	records, damaged, err := spool.Inspect(filepath.Join(g.dir, "ledger.db.spool"))
	require.NoError(g.t, err)
	require.Empty(g.t, damaged)
	waiting, err := live.MeasureBacklog(ctx, store, records)
	require.NoError(g.t, err)
	require.NoError(g.t, waiting.Wrong)
	for g.spool.Len() > 0 {
		batch := g.spool.Oldest(100)
		var courses []book.Course
		for i := range batch.Records {
			c, ok, err := live.CourseOf(&batch.Records[i])
			require.NoError(g.t, err)
			require.True(g.t, ok)
			courses = append(courses, c)
		}
		all, err := store.TakeUp(ctx, courses)
		require.NoError(g.t, err)
		for i, t := range all {
			require.NoError(g.t, t.Err)
			require.Equal(g.t, courses[i].End.Charge, t.Charge.Microcents)
			require.Equal(g.t, courses[i].End.Waived, t.Charge.Waived)
			require.Equal(g.t, courses[i].End.Over, t.Charge.Over)
			if !t.Before {
				waiting.Settlements--
			}
		}
		require.NoError(g.t, g.spool.ReleaseBatch(batch))
	}
	require.Zero(g.t, waiting.Settlements, "those that MeasureBacklog found are those that were not on record")
	_, err = store.Recover(ctx)
	require.NoError(g.t, err)
	g.Ledger, err = live.Open(ctx, g.store, live.SpoolLog{g.spool}, live.Options{
		Options: ledger.Options{Now: now, Logger: quiet},
		Refuse: func(c *book.Course, u book.TakenUp) error {
			if u.Before { // an answer was lost
				require.Equal(g.t, c.End.Charge, u.Charge.Microcents)
				return nil
			}
			require.Fail(g.t, "refused", "%s: %v", c.ID, u.Err)
			return nil
		}})
	require.NoError(g.t, err)
}

// crash ends the process: nothing more comes into the store.
func (g *gateway) crash() {
	g.store.set(true, false)
	require.NoError(g.t, g.Close())
	require.NoError(g.t, g.spool.Close())
}

// TestCrashes lets processes die at any moment, with a store that fails before: what was answered is on record, once,
// at what was answered, and every account is what its requests came to.
func TestCrashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g := &gateway{t: rt, dir: t.TempDir()}
		g.start()
		ctx := t.Context()
		price := config.Price{Input: 3_000_000, CacheRead: 3_000_000, CacheWrite: 3_000_000, Output: 3_000_000}
		version, err := g.PriceVersion(ctx, "small", price, price)
		require.NoError(rt, err)
		var (
			accounts []ledger.Account
			keys     []ledger.Key
			credits  = map[string]int64{}
			charged  = map[string]int64{}         // microcents, by account
			running  = map[string]ledger.Hold{}   // by id
			settled  = map[string]ledger.Charge{} // as answered
			order    []string                     // of running
			made     int
		)
		for i := range 2 {
			a, err := g.CreateAccount(ctx, fmt.Sprint("account ", i), "")
			require.NoError(rt, err)
			k, err := g.CreateKey(ctx, a.ID, "key", [32]byte{byte(i + 1)}, "abcd",
				ledger.KeyChange{SpendCap: new(int64(50_000_000))})
			require.NoError(rt, err)
			accounts, keys = append(accounts, a), append(keys, k)
		}
		attempt := func(id string, seq int64) ledger.Attempt {
			return ledger.Attempt{ID: ledger.AttemptID(id, seq), Route: "small", Provider: "echo", Model: "m",
				PriceVersion: version, Worst: 10_000_000}
		}
		away := false
		steps := rapid.IntRange(1, 60).Draw(rt, "steps")
		for range steps {
			g.clock.Add(1)
			which := rapid.IntRange(0, 1).Draw(rt, "account")
			switch rapid.IntRange(0, 14).Draw(rt, "step") {
			case 0, 1, 2, 3:
				made++
				id := fmt.Sprintf("req_%032x", made)
				h := ledger.Hold{Request: id, Account: accounts[which].ID, Key: keys[which].ID, Endpoint: "chat",
					Profile: "balanced", Microcents: rapid.Int64Range(0, 3_000_000).Draw(rt, "hold"),
					WriteBehind: rapid.Bool().Draw(rt, "behind")}
				if rapid.IntRange(0, 3).Draw(rt, "with an attempt") > 0 {
					h.Attempt = attempt(id, 1)
				}
				_, err := g.Hold(ctx, h)
				switch {
				case err == nil:
					running[id], order = h, append(order, id)
				case errors.Is(err, ledger.ErrUnavailable):
					require.True(rt, away)
				default:
					require.ErrorIs(rt, err, ledger.ErrInsufficient)
				}
			case 4:
				if len(order) > 0 {
					id := order[len(order)-1]
					h := running[id]
					err := g.Begin(ctx, ledger.Next{Request: id, Attempt: attempt(id, 2), Microcents: h.Microcents + 10,
						WriteBehind: rapid.Bool().Draw(rt, "behind")})
					if err != nil && !errors.Is(err, ledger.ErrInsufficient) && !errors.Is(err, ledger.ErrInvalid) {
						require.True(rt, away && errors.Is(err, ledger.ErrUnavailable), "%v", err)
					}
				}
			case 5, 6, 7, 8:
				if len(order) > 0 {
					i := rapid.IntRange(0, len(order)-1).Draw(rt, "request")
					id := order[i]
					h := running[id]
					order = append(order[:i:i], order[i+1:]...)
					delete(running, id)
					st := ledger.Settlement{Request: id, Status: 200, Reason: "ok",
						Surcharge: rapid.Int64Range(0, 5).Draw(rt, "surcharge")}
					if h.Attempt.ID != "" {
						st.Results = []ledger.Result{{Attempt: h.Attempt.ID, Outcome: ledger.Finished, Usage: &llm.Usage{
							Input: llm.Count(rapid.Int64Range(0, 500_000).Draw(rt, "input")), Output: llm.Count(2)}}}
					}
					c, err := g.Settle(ctx, st)
					require.NoError(rt, err)
					charged[h.Account] += c.Microcents
					settled[id] = c
				}
			case 9:
				err := g.topUp(accounts[which].ID, 2)
				if err == nil {
					credits[accounts[which].ID] += 2
				} else {
					require.True(rt, away && errors.Is(err, ledger.ErrUnavailable), "%v", err)
				}
			case 10:
				away = !away
				g.store.set(away, false)
			case 11:
				g.store.set(false, true) // the next answers are lost
				away = true
			case 12:
				g.crash()
				g.start()
				away = false
				clear(running)
				order = nil
				g.check(rt, accounts, credits, charged, settled)
			default:
				for i, a := range accounts {
					now, err := g.Account(ctx, a.ID)
					require.NoError(rt, err)
					if !away {
						require.Equal(rt, credits[a.ID]*ledger.MicrocentsPerCredit-charged[a.ID], now.Balance.Net(), i)
					}
				}
			}
		}
		g.store.set(false, false)
		g.crash()
		g.start()
		g.check(rt, accounts, credits, charged, settled)
		require.NoError(rt, g.Close())
		require.NoError(rt, g.spool.Close())
	})
}

func (g *gateway) topUp(account string, credits int64) error {
	_, _, err := g.AddCredit(context.Background(), ledger.Credit{Account: account, Credits: credits})
	return err
}

// check checks everything that was answered.
func (g *gateway) check(t require.TestingT, accounts []ledger.Account, credits, charged map[string]int64,
	settled map[string]ledger.Charge) {
	ctx := context.Background()
	for id, c := range settled {
		r, err := g.Request(ctx, id)
		require.NoError(t, err)
		require.Equal(t, c.Microcents, r.Microcents, id)
	}
	for _, a := range accounts {
		now, err := g.Account(ctx, a.ID)
		require.NoError(t, err)
		require.Equal(t, credits[a.ID]*ledger.MicrocentsPerCredit-charged[a.ID], now.Balance.Net())
		require.Zero(t, now.Balance.Held)
	}
	r, err := g.Verify(ctx)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
}
