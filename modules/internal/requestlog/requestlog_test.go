package requestlog_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/requestlog"
)

// fixture is a log with a clock.
type fixture struct {
	t    *testing.T
	dir  string
	now  atomic.Pointer[time.Time]
	lost atomic.Int64
	said bytes.Buffer
	*requestlog.Log
}

const keep = 80 * time.Hour

func open(t *testing.T, size int64) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: filepath.Join(t.TempDir(), "requests")}
	f.turn(time.Now().UTC())
	f.open(size)
	t.Cleanup(func() { f.Close() })
	return f
}

func (f *fixture) open(size int64) {
	var err error
	f.Log, err = requestlog.Open(requestlog.Options{
		Dir: f.dir, Size: size, Keep: func() time.Duration { return keep }, Now: func() time.Time { return *f.now.Load() },
		Logger: slog.New(slog.NewTextHandler(&f.said, nil)), Lost: func(n int) { f.lost.Add(int64(n)) },
	})
	require.NoError(f.t, err)
}

func (f *fixture) turn(to time.Time) { f.now.Store(&to) }

// record is the n-th request, of an account or of nobody.
func (f *fixture) record(n int, account string) requestlog.Record {
	r := requestlog.Record{
		ID: id(n), Time: *f.now.Load(), Endpoint: "chat", Status: 429, Code: "rate_limit_exceeded",
		Limit:   "key_requests_per_minute",
		Account: account,
	}
	if account != "" {
		r.Key = "key_1"
	}
	return r
}

func id(n int) string { return fmt.Sprintf("req_%032x", n) }

func (f *fixture) find(n int) (requestlog.Record, error) { return f.Find(f.t.Context(), id(n)) }

func (f *fixture) files() []string {
	all, err := filepath.Glob(filepath.Join(f.dir, "*"))
	require.NoError(f.t, err)
	return all
}

func TestFind(t *testing.T) {
	t.Parallel()
	t.Run("GAP-122 at once, after a restart, and without a gateway", func(t *testing.T) {
		t.Parallel()
		f := open(t, 0)
		a, b := f.record(1, "acct_1"), f.record(2, "")
		f.Add(a)
		f.Add(b)
		for range 3 {
			for n, want := range map[int]requestlog.Record{1: a, 2: b} {
				got, err := f.find(n)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			_, err := f.find(3)
			require.ErrorIs(t, err, requestlog.ErrNotFound)
			f.Close()
			got, err := requestlog.Find(f.dir, id(1), time.Time{})
			require.NoError(t, err)
			require.Equal(t, a, got)
			f.open(0)
		}
		for _, path := range f.files() {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode())
		}
	})
	t.Run("what is no id is not looked for", func(t *testing.T) {
		t.Parallel()
		f := open(t, 0)
		f.Add(f.record(1, ""))
		for _, id := range []string{"", "req_", "chat", id(1)[:35], id(1) + "0", "req_" + id(1)[4:35] + "G"} {
			_, err := f.Find(t.Context(), id)
			require.ErrorIs(t, err, requestlog.ErrNotFound, id)
		}
		_, err := requestlog.Find(filepath.Join(f.dir, "none"), id(1), time.Time{})
		require.ErrorIs(t, err, requestlog.ErrNotFound, "there is no log yet")
	})
	t.Run("what a crash cut off is passed over", func(t *testing.T) {
		t.Parallel()
		f := open(t, 0)
		f.Add(f.record(1, ""))
		f.Add(f.record(2, ""))
		f.Close()
		whole, err := os.ReadFile(f.files()[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(f.files()[0], whole[:len(whole)-20], 0o600))
		f.open(0)
		f.Add(f.record(3, ""))
		for n, found := range map[int]bool{1: true, 2: false, 3: true} {
			_, err := f.find(n)
			require.Equal(t, found, err == nil, n)
		}
	})
	t.Run("GAP-122 why attempts failed, apart from requests", func(t *testing.T) {
		t.Parallel()
		f := open(t, 0)
		request := f.record(1, "acct_1")
		attempt := requestlog.Record{ID: id(1) + ".2", Time: *f.now.Load(), Failure: "no such host"}
		f.Add(request)
		f.Add(attempt)
		got, err := f.find(1)
		require.NoError(t, err)
		require.Equal(t, request, got)
		got, err = f.Find(t.Context(), attempt.ID)
		require.NoError(t, err)
		require.Equal(t, attempt, got)
		for _, other := range []string{id(1) + ".1", id(1) + ".20", id(1) + ".", id(1) + ".x", id(2) + ".2"} {
			_, err = f.Find(t.Context(), other)
			require.ErrorIs(t, err, requestlog.ErrNotFound, other)
		}
		for _, path := range f.files() {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, filepath.Base(path) == "attempts-1.jsonl", bytes.Contains(text, []byte("no such host")), path)
		}
	})
	t.Run("who asks does not wait for ever", func(t *testing.T) {
		t.Parallel()
		f := open(t, 0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := f.Find(ctx, id(1))
		require.Error(t, err)
	})
}

func TestBounds(t *testing.T) {
	t.Parallel()
	t.Run("GAP-122 a record is found for so long", func(t *testing.T) {
		t.Parallel()
		f := open(t, 0)
		begin := *f.now.Load()
		f.Add(f.record(1, "acct_1"))
		f.turn(begin.Add(keep - 1))
		_, err := f.find(1)
		require.NoError(t, err)
		f.turn(begin.Add(keep))
		_, err = f.find(1)
		require.ErrorIs(t, err, requestlog.ErrNotFound)
	})
	t.Run("GAP-122 files do not grow beyond their size, and strangers drive out no customer's", func(t *testing.T) {
		t.Parallel()
		const size = 64 << 10
		f := open(t, size)
		f.Add(f.record(0, "acct_1"))
		for n := 1; n <= 3000; n++ {
			f.Add(f.record(n, ""))
			if n%1000 == 0 {
				_, err := f.find(n)
				require.NoError(t, err, "the newest is there")
			}
		}
		require.Zero(t, f.lost.Load())
		var total int64
		for _, path := range f.files() {
			info, err := os.Stat(path)
			require.NoError(t, err)
			total += info.Size()
		}
		require.Less(t, total, int64(size+1000))
		require.Greater(t, total, int64(size)/2, "most of the room is used")
		_, err := f.find(0)
		require.NoError(t, err)
		_, err = f.find(1)
		require.ErrorIs(t, err, requestlog.ErrNotFound)
	})
	t.Run("restarts leave many small files, and those count", func(t *testing.T) {
		t.Parallel()
		f := open(t, 4<<10)
		for n := range 60 {
			f.Add(f.record(n, ""))
			f.Close()
			f.open(4 << 10)
		}
		require.Less(t, len(f.files()), 30)
		_, err := f.find(59)
		require.NoError(t, err)
		_, err = f.find(50)
		require.NoError(t, err)
	})
	t.Run("a file is begun anew over time, so that the old can go", func(t *testing.T) {
		t.Parallel()
		f := open(t, 0)
		for n := range 5 {
			f.Add(f.record(n, ""))
			_, err := f.find(n)
			require.NoError(t, err)
			f.turn(f.now.Load().Add(keep / 8))
		}
		require.Len(t, f.files(), 5)
	})
}

// TestReopen: what comes after it is not in a file that was renamed before it.
func TestReopen(t *testing.T) {
	t.Parallel()
	f := open(t, 0)
	f.Reopen(t.Context())
	require.Empty(t, f.files(), "nothing was written")
	f.Add(f.record(1, "acct_1"))
	_, err := f.find(1)
	require.NoError(t, err)
	require.Len(t, f.files(), 1)
	require.NoError(t, os.Rename(f.files()[0], f.files()[0]+".1"))
	f.Add(f.record(2, "acct_1"))
	f.Reopen(t.Context())
	f.Add(f.record(3, "acct_1"))
	_, err = f.find(3)
	require.NoError(t, err)
	text, err := os.ReadFile(f.files()[0])
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(text, []byte("\n")), "what came before it")
	require.Zero(t, f.lost.Load())
	f.Close()
	f.Reopen(t.Context()) // returns
	f.open(0)
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t, 0)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for n := range 200 {
				f.Add(f.record(g*1000+n, []string{"", "acct_1"}[n%2]))
			}
		})
	}
	all.Wait()
	for g := range 8 {
		_, err := f.find(g*1000 + 199)
		require.NoError(t, err)
	}
	require.Zero(t, f.lost.Load())
}

// TestDiskFails: nobody waits and nothing fails because of the log; it says so once, and goes on when it can.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	f := open(t, 0)
	require.NoError(t, os.RemoveAll(f.dir))
	require.NoError(t, os.WriteFile(f.dir, nil, 0o600)) // a file where the folder should be
	for n := range 5 {
		f.Add(f.record(n, ""))
		_, err := f.find(n)
		require.Error(t, err)
	}
	require.EqualValues(t, 5, f.lost.Load())
	require.NoError(t, os.Remove(f.dir))
	require.NoError(t, os.Mkdir(f.dir, 0o700))
	f.Add(f.record(7, ""))
	_, err := f.find(7)
	require.NoError(t, err)
	f.Close()
	require.Equal(t, 1, bytes.Count(f.said.Bytes(), []byte("cannot be written")), f.said.String())
	require.Equal(t, 1, bytes.Count(f.said.Bytes(), []byte("can be written again")), f.said.String())
	f.open(0)
}
