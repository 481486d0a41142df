package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// till is an account with a key, some credits and a price of one microcent a token, on a ledger.
type till struct {
	*Store
	t            testing.TB
	disk         *disk
	account, key string
	version      int64
}

const (
	tillTimeout = 500 * time.Millisecond // of bubbles
	eventually  = time.Minute
)

func newTill(t testing.TB, change func(*Options)) *till {
	t.Helper()
	dir := t.TempDir()
	p := &till{t: t, disk: &disk{volatile: true}}
	t.Cleanup(watch(dir, p.disk))
	p.Store = openStore(t, func(o *Options) {
		o.Path = filepath.Join(dir, "fareway.db")
		if change != nil {
			change(o)
		}
	})
	ctx := context.Background()
	a, err := p.CreateAccount(ctx, "main", "")
	require.NoError(t, err)
	k, err := p.CreateKey(ctx, a.ID, "laptop", [32]byte{1}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	p.account, p.key = a.ID, k.ID
	p.version, err = p.PriceVersion(ctx, "route", prices(1), prices(1))
	require.NoError(t, err)
	_, _, err = p.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 10})
	require.NoError(t, err)
	return p
}

func (p *till) hold(id string) error {
	_, err := p.Hold(context.Background(), ledger.Hold{
		Request: id, Account: p.account, Key: p.key, Endpoint: "chat", Profile: "max", Microcents: 1_000_000,
		Attempt: p.attempt(id, 1),
	})
	return err
}

func (p *till) attempt(id string, seq int64) ledger.Attempt {
	return ledger.Attempt{ID: ledger.AttemptID(id, seq), Route: "route", Provider: "p", Model: "m",
		PriceVersion: p.version, Worst: -1}
}

// settle settles a request whose first attempt used some tokens.
func (p *till) settle(id string, tokens int64) (ledger.Charge, error) {
	return p.Settle(context.Background(), ledger.Settlement{Request: id, Status: 200, Reason: "ok",
		Results: []ledger.Result{
			{Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Finished, Usage: &llm.Usage{Output: &tokens}},
		}})
}

func (p *till) balance() ledger.Balance {
	p.t.Helper()
	a, err := p.Account(context.Background(), p.account)
	require.NoError(p.t, err)
	return a.Balance
}

func (p *till) verified() {
	p.t.Helper()
	r, err := p.Verify(context.Background())
	require.NoError(p.t, err)
	require.True(p.t, r.OK, "%s: %s", r.Entry, r.Problem)
}

// stuck makes every sync wait until release is called.
func (p *till) stuck() (release func()) {
	wait := make(chan struct{})
	p.setFault(func(kind eventKind, _ string) int32 {
		if kind == synced {
			<-wait
		}
		return lib.SQLITE_OK
	})
	return sync.OnceFunc(func() { close(wait) })
}

// impatient makes callers give up almost at once, until patient is called. The database itself waits as before.
func (p *till) impatient() (patient func()) {
	was := p.writer.timeout
	p.writer.timeout = time.Millisecond
	return func() { p.writer.timeout = was }
}

func (p *till) setFault(fault func(eventKind, string) int32) {
	if fault == nil {
		p.disk.fault.Store(nil)
		return
	}
	p.disk.fault.Store(&fault)
}

// bubble is a test in a bubble of synctest, whose time goes on only when everybody waits: on the slowest of machines a
// time-out is reached by those who wait for what does not come, and by nobody else.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

func TestDiskThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	hurried := func(o *Options) { o.WaitTimeout = tillTimeout }
	bubble(t, "GAP-99 a hold that nobody waited for is released", func(t *testing.T) {
		p := newTill(t, hurried)
		release := p.stuck()
		defer release()
		start := time.Now()
		require.ErrorIs(t, p.hold("r1"), ledger.ErrUnavailable)
		require.GreaterOrEqual(t, time.Since(start), tillTimeout)
		release()
		require.Eventually(t, func() bool {
			r, err := p.Request(t.Context(), "r1")
			return err == nil && !r.Running
		}, eventually, time.Millisecond)
		r, err := p.Request(t.Context(), "r1")
		require.NoError(t, err)
		require.True(t, r.Free)
		require.False(t, r.Pending)
		require.Equal(t, ledger.NotMade, r.Attempts[0].Outcome)
		require.Equal(t, ledger.Balance{Credits: 10}, p.balance())
		releases := p.releases()
		require.Positive(t, releases)
		for range 3 {
			require.ErrorIs(t, p.hold("r1"), ledger.ErrExists)
		}
		require.Equal(t, releases, p.releases(), "what is released is done with")
		p.verified()
	})
	bubble(t, "what only reads does not wait longer either", func(t *testing.T) {
		p := newTill(t, hurried)
		for range readers {
			conn, err := p.readers.acquire(t.Context())
			require.NoError(t, err)
			defer p.readers.release(conn, nil)
		}
		start := time.Now()
		_, err := p.Lookup(context.Background(), [32]byte{})
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.ErrorIs(t, p.Check(context.Background(), "", "", 0, 0), ledger.ErrUnavailable)
		require.GreaterOrEqual(t, time.Since(start), 2*tillTimeout)
	})
	bubble(t, "a hold that is repeated meanwhile belongs to who repeated it", func(t *testing.T) {
		p := newTill(t, hurried)
		release := p.stuck()
		defer release()
		require.ErrorIs(t, p.hold("r1"), ledger.ErrUnavailable)
		var wg sync.WaitGroup
		var again error
		wg.Go(func() { again = p.hold("r1") })
		require.Eventually(t, func() bool { return len(p.writer.queue) == 1 }, eventually, time.Millisecond)
		release()
		wg.Wait()
		require.NoError(t, again)
		require.NoError(t, p.hold("r2"), "and everything that the writer had to do is done")
		require.Equal(t, int64(2_000_000), p.balance().Held)
		for _, id := range []string{"r1", "r2"} {
			c, err := p.settle(id, 7)
			require.NoError(t, err)
			require.EqualValues(t, 7, c.Microcents)
		}
		p.verified()
	})
	bubble(t, "an attempt that nobody waited for was not made", func(t *testing.T) {
		p := newTill(t, hurried)
		require.NoError(t, p.hold("r1"))
		release := p.stuck()
		defer release()
		next := ledger.Next{Request: "r1", Attempt: p.attempt("r1", 2), Microcents: 2_000_000}
		require.ErrorIs(t, p.Begin(t.Context(), next), ledger.ErrUnavailable)
		release()
		require.Eventually(t, func() bool { return p.balance().Held == 2_000_000 }, eventually, time.Millisecond)
		c, err := p.settle("r1", 7)
		require.NoError(t, err)
		require.False(t, c.Pending, "nothing is to come for an attempt that was never made")
		r, err := p.Request(t.Context(), "r1")
		require.NoError(t, err)
		require.Equal(t, ledger.NotMade, r.Attempts[1].Outcome)
		p.verified()
	})
	bubble(t, "a settlement can be repeated", func(t *testing.T) {
		p := newTill(t, hurried)
		require.NoError(t, p.hold("r1"))
		release := p.stuck()
		defer release()
		_, err := p.settle("r1", 7)
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		release()
		for _, tokens := range []int64{7, 8} {
			c, err := p.settle("r1", tokens)
			require.NoError(t, err)
			require.EqualValues(t, 7, c.Microcents, "it was charged once")
		}
		require.Equal(t, ledger.Balance{Credits: 10, Accrued: 7}, p.balance())
		p.verified()
	})
	bubble(t, "what waits behind is never done", func(t *testing.T) {
		p := newTill(t, hurried)
		release := p.stuck()
		defer release()
		var wg sync.WaitGroup
		var refused atomic.Int64
		for _, id := range []string{"r1", "r2", "r3", "r4", "r5", "r6"} {
			wg.Go(func() {
				if err := p.hold(id); err != nil {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 6, refused.Load())
		require.Equal(t, ledger.Balance{Credits: 10}, p.balance(), "reading goes on")
		release()
		require.Eventually(t, func() bool {
			_, err := p.topUp("after")
			return err == nil && p.balance().Held == 0
		}, eventually, time.Millisecond)
		p.verified()
	})
}

// releases is how often holds that nobody waited for were released.
func (p *till) releases() (n int64) {
	require.NoError(p.t, p.write(p.t.Context(), "test", func(t *tx) error {
		return t.query(`SELECT releases FROM meta`, func(row *sqlite.Stmt) error { n = row.ColumnInt64(0); return nil })
	}))
	return n
}

// topUp tops up one credit with a reference.
func (p *till) topUp(reference string) (ledger.Balance, error) {
	b, _, err := p.AddCredit(context.Background(), ledger.Credit{Account: p.account, Credits: 1, Reference: reference})
	return b, err
}

func TestDiskThatFails(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int32{
		"full":      lib.SQLITE_FULL,
		"read-only": lib.SQLITE_READONLY,
		"write":     lib.SQLITE_IOERR_WRITE,
		"sync":      lib.SQLITE_IOERR_FSYNC,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTill(t, nil)
			require.NoError(t, p.hold("r1"))
			kind := written
			if name == "sync" {
				kind = synced
			}
			var broken atomic.Bool
			p.setFault(func(k eventKind, _ string) int32 {
				if k == kind && broken.Load() {
					return code
				}
				return lib.SQLITE_OK
			})
			broken.Store(true)
			for range 3 {
				require.ErrorIs(t, p.hold("r2"), ledger.ErrUnavailable)
				_, err := p.settle("r1", 7)
				require.ErrorIs(t, err, ledger.ErrUnavailable)
				_, err = p.topUp("invoice")
				require.ErrorIs(t, err, ledger.ErrUnavailable)
				require.Equal(t, ledger.Balance{Credits: 10, Held: 1_000_000}, p.balance(),
					"reading goes on, and nothing has changed")
			}
			broken.Store(false)
			require.NoError(t, p.hold("r2"))
			for id, tokens := range map[string]int64{"r1": 7, "r2": 8} {
				c, err := p.settle(id, tokens)
				require.NoError(t, err)
				require.Equal(t, tokens, c.Microcents)
			}
			require.Equal(t, ledger.Balance{Credits: 10, Accrued: 15}, p.balance())
			p.verified()
		})
	}
}

// The log keeps the end of a commit whose sync failed, and whoever opens the file next takes it for a commit.
func TestCommitThatComesBack(t *testing.T) {
	t.Parallel()
	p := newTill(t, nil)
	require.NoError(t, p.hold("r1"))
	p.setFault(func(kind eventKind, _ string) int32 {
		if kind == synced {
			return lib.SQLITE_IOERR_FSYNC
		}
		return lib.SQLITE_OK
	})
	open := gate(t, p.Store)
	var wg sync.WaitGroup
	var errs [4]error
	wg.Go(func() { errs[0] = p.hold("r2") })
	wg.Go(func() { errs[1] = p.Begin(t.Context(), ledger.Next{Request: "r1", Attempt: p.attempt("r1", 2)}) })
	wg.Go(func() { errs[2] = p.hold("r1") })
	wg.Go(func() {
		errs[3] = p.write(t.Context(), "test", func(*tx) error { p.db.broken = true; return nil })
	})
	require.Eventually(t, func() bool { return len(p.writer.queue) == len(errs) }, eventually, time.Millisecond)
	open()
	wg.Wait()
	for _, err := range errs {
		require.ErrorIs(t, err, ledger.ErrUnavailable)
	}
	require.ErrorIs(t, p.hold("r3"), ledger.ErrUnavailable, "the file is open anew, and fails as before")
	running, err := p.Request(t.Context(), "r2")
	require.NoError(t, err)
	require.True(t, running.Running, "it came back")
	p.setFault(nil)
	require.Eventually(t, func() bool {
		r, err := p.Request(t.Context(), "r2")
		return err == nil && r.Free && !r.Running
	}, eventually, time.Millisecond)
	require.Equal(t, int64(1_000_000), p.balance().Held, "r1 runs on: somebody knows of it")
	c, err := p.settle("r1", 7)
	require.NoError(t, err)
	require.False(t, c.Pending)
	p.verified()
}

func TestLockedByAnotherProgram(t *testing.T) {
	t.Parallel()
	p := newTill(t, unhurried)
	require.NoError(t, p.hold("r1"))
	other, err := sqlite.OpenConn(p.opts.Path, sqlite.OpenReadWrite)
	require.NoError(t, err)
	require.NoError(t, run(other, `BEGIN IMMEDIATE`, nil))
	patient := p.impatient()
	start := time.Now()
	require.ErrorIs(t, p.hold("r2"), ledger.ErrUnavailable)
	require.Less(t, time.Since(start), eventually)
	_, err = p.settle("r1", 7)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	patient()
	require.NoError(t, p.Check(t.Context(), p.account, p.key, 1, 1), "reading goes on")
	require.NoError(t, other.Close())

	require.Eventually(t, func() bool {
		c, err := p.settle("r1", 7)
		return err == nil && c.Microcents == 7
	}, eventually, time.Millisecond)
	_, err = p.Request(t.Context(), "r2")
	require.ErrorIs(t, err, ledger.ErrNotFound, "who gave up while another program had the lock changed nothing")
	require.Equal(t, ledger.Balance{Credits: 10, Accrued: 7}, p.balance())
	p.verified()
}

// What another program commits between two operations is neither lost nor overwritten: a person with the sqlite3
// shell, say.
func TestAnotherProgramWrites(t *testing.T) {
	t.Parallel()
	p := newTill(t, nil)
	require.NoError(t, p.hold("r1"))
	require.NoError(t, p.hold("r2"))
	script(t, p.opts.Path, `UPDATE balances SET credits = 3, spent = 1000`)
	c, err := p.settle("r1", 7)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Credits: 3, Held: 1_000_000, Accrued: 7}, c.Balance)
	a, err := p.Account(t.Context(), p.account)
	require.NoError(t, err)
	require.EqualValues(t, 1_007, a.Period.Spent)

	script(t, p.opts.Path, `DELETE FROM holds; UPDATE meta SET holds = 0, held = 0`)
	_, err = p.settle("r2", 7)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.NoError(t, p.hold("r2"))
}

func TestFilesMoved(t *testing.T) {
	t.Parallel()
	t.Run("a database that was moved is refused until it is back", func(t *testing.T) {
		t.Parallel()
		p := newTill(t, nil)
		away := p.opts.Path + ".away"
		require.NoError(t, os.Rename(p.opts.Path, away))
		err := p.hold("r1")
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.ErrorContains(t, err, "was moved or replaced; put the file back")
		require.NoError(t, os.Rename(away, p.opts.Path))
		require.NoError(t, p.hold("r1"))
		_, err = p.settle("r1", 1)
		require.NoError(t, err)
		p.verified()
	})
	t.Run("another file in its place is left alone", func(t *testing.T) {
		t.Parallel()
		p := newTill(t, nil)
		away := p.opts.Path + ".away"
		require.NoError(t, os.Rename(p.opts.Path, away))
		require.NoError(t, os.WriteFile(p.opts.Path, []byte("a backup"), 0o600))
		require.ErrorIs(t, p.hold("r1"), ledger.ErrUnavailable)
		text, err := os.ReadFile(p.opts.Path)
		require.NoError(t, err)
		require.Equal(t, "a backup", string(text))
		require.NoError(t, os.Rename(away, p.opts.Path))
		require.NoError(t, p.hold("r1"))
	})
	for _, suffix := range []string{"-wal", "-shm"} {
		t.Run("without its "+suffix+" nothing is lost", func(t *testing.T) {
			t.Parallel()
			p := newTill(t, nil)
			require.NoError(t, p.hold("r1"))
			require.NoError(t, os.Remove(p.opts.Path+suffix))
			_, err := p.settle("r1", 7)
			require.NoError(t, err)
			require.FileExists(t, p.opts.Path+suffix, "what is written now can be found")
			require.Equal(t, ledger.Balance{Credits: 10, Accrued: 7}, p.balance())
			b, err := OpenBooks(t.Context(), p.opts.Path)
			require.NoError(t, err)
			a, err := b.Account(t.Context(), p.account)
			require.NoError(t, err)
			require.Equal(t, p.balance(), a.Balance)
			require.NoError(t, b.Close())
			p.verified()
		})
	}
}

// A hold whose commit failed may be in the log all the same, so that something is written over it, also when there is
// nothing to release.
func TestCommitInDoubtIsWrittenOver(t *testing.T) {
	t.Parallel()
	p := newTill(t, nil)
	var broken atomic.Bool
	var writes atomic.Int64
	broken.Store(true)
	p.setFault(func(kind eventKind, _ string) int32 {
		switch {
		case kind == synced && broken.Load():
			return lib.SQLITE_IOERR_FSYNC
		case kind == written && !broken.Load():
			writes.Add(1)
		}
		return lib.SQLITE_OK
	})
	require.ErrorIs(t, p.hold("r1"), ledger.ErrUnavailable)
	broken.Store(false)
	require.Eventually(t, func() bool { return writes.Load() > 0 }, eventually, time.Millisecond)
	p.verified()
}
