package decisions_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// book is a log of a test, with its clock and its settings.
type book struct {
	*decisions.Log
	path     string
	now      time.Time
	settings config.DecisionLog
	lost     atomic.Int64
}

func open(t testing.TB) *book {
	b := &book{path: filepath.Join(t.TempDir(), "log"), now: noon, settings: config.DefaultDecisionLog()}
	b.reopen(t)
	t.Cleanup(func() { b.Close() })
	return b
}

func (b *book) reopen(t testing.TB) {
	t.Helper()
	l, err := decisions.Open(decisions.Options{Path: b.path, Now: func() time.Time { return b.now },
		Settings: func() config.DecisionLog { return b.settings }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Lost: func(n int) { b.lost.Add(int64(n)) }})
	require.NoError(t, err)
	b.Log = l
}

// ids are what each request since a time is called.
func (b *book) ids(t testing.TB, since time.Time) (ids []string) {
	t.Helper()
	require.NoError(t, b.Flush(t.Context()))
	require.NoError(t, b.Each(t.Context(), since, func(r *decisions.Record) error {
		ids = append(ids, r.ID)
		return nil
	}))
	return ids
}

// full is a record that has everything.
func full() decisions.Record {
	return decisions.Record{
		ID: "req_00112233445566778899aabbccddeeff", Account: "acct_0123456789abcdef01234567", Plan: "starter",
		Endpoint: "chat", Profile: "balanced", Config: "0123456789ab", Begun: noon, Ended: noon.Add(1234 * time.Millisecond),
		InputTokens: 5, InputBound: 6, Allowance: 7, Graphics: true,
		Needs:        routing.Needs{Tools: true, Format: llm.FormatJSONSchema},
		Requires:     config.Requires{Regions: []string{"eu", "ch"}, Retention: new(time.Hour)},
		Traits:       routing.Traits{Turns: 8, Loop: true, Signal: []byte{9, 10}},
		Conversation: affinity.Key{1, 2, 3},
		Past: &routing.Past{Home: "small", Served: [2]routing.Served{{Route: "deep", Warm: 11}, {Route: "small"}},
			Work: routing.Work{Turns: 3, Work: predict.Work{Kinds: [predict.NumKinds]float32{0.3, 0.7}, Ease: -1.1}}},
		Choice: "small", Stay: routing.StayHome, Full: []string{"b", "c"}, LeftOut: []string{"d"},
		Waited:  2345 * time.Millisecond,
		Stood:   []decisions.Stood{{Route: "a", Why: "down", Busy: true, Behind: true}, {Route: "d"}},
		Refused: "rate_limit_exceeded", Status: 200, Reason: "ok", Charge: 12, Cost: 13, Free: true, Pending: true,
		Attempts: []decisions.Attempt{{Route: "small", Outcome: "failed"},
			{Route: "deep", Outcome: "finished", Usage: decisions.Usage{Known: true, Input: 14, CacheRead: 15, CacheWrite: 16,
				Output: 17}}},
		Shadow: &decisions.Shadow{Route: "large", Result: "answered", Finish: "stop", Cost: 18, Took: 19 * time.Millisecond,
			First: 20 * time.Millisecond, ReplyFinish: "length", ReplyTook: 21 * time.Millisecond,
			ReplyFirst: 22 * time.Millisecond,
			Usage:      decisions.Usage{Known: true, Input: 23, CacheRead: 24, CacheWrite: 25, Output: 26}},
	}
}

// TestRecordsAreFoundAsTheyWere: what is kept of a request comes back, over a restart too.
func TestRecordsAreFoundAsTheyWere(t *testing.T) {
	t.Parallel()
	b := open(t)
	want := full()
	bare := decisions.Record{ID: "own", Begun: noon, Ended: noon}
	b.Add(new(want))
	b.Add(new(bare))
	for range 2 {
		for _, r := range []decisions.Record{want, bare} {
			got, err := b.Find(t.Context(), r.ID)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%+v %+v", r.Past, *orZero(r.Requires.Retention)),
				fmt.Sprintf("%+v %+v", got.Past, *orZero(got.Requires.Retention)))
			require.Equal(t, r.Shadow, got.Shadow)
			require.Equal(t, fmt.Sprintf("%+v", plain(r)), fmt.Sprintf("%+v", plain(got)))
		}
		_, err := b.Find(t.Context(), "req_00112233445566778899aabbccddeefe")
		require.ErrorIs(t, err, decisions.ErrNotFound)
		b.Close()
		b.reopen(t)
	}
}

func orZero(d *time.Duration) *time.Duration {
	if d == nil {
		return new(time.Duration)
	}
	return d
}

// plain is a record without its pointers.
func plain(r decisions.Record) decisions.Record {
	r.Past, r.Requires.Retention, r.Shadow = nil, nil, nil
	return r
}

// TestAnyRecord: what is written is what is read, whatever it is, and in order.
func TestAnyRecord(t *testing.T) {
	t.Parallel()
	b := open(t)
	text := rapid.SampledFrom([]string{"", "small", "deep", "über", "a b"})
	number := rapid.Int64Range(-1<<62, 1<<62)
	at := rapid.Int64Range(0, 4_000_000_000_000)
	rapid.Check(t, func(t *rapid.T) {
		since := b.now
		b.now = b.now.Add(time.Second)
		var want []decisions.Record
		for i := range rapid.IntRange(1, 4).Draw(t, "records") {
			begun := time.UnixMilli(at.Draw(t, "at")).UTC()
			r := decisions.Record{
				ID: fmt.Sprintf("req_%032x", number.Draw(t, "id")&0xffffff), Begun: begun, Ended: b.now,
				Account: text.Draw(t, "account"), Plan: text.Draw(t, "plan"), Reason: text.Draw(t, "reason"),
				InputTokens: number.Draw(t, "input"), Charge: number.Draw(t, "charge"), Pending: rapid.Bool().Draw(t, "pending"),
				Traits: routing.Traits{Turns: i, Signal: rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "signal")},
			}
			for range rapid.IntRange(0, 3).Draw(t, "attempts") {
				r.Attempts = append(r.Attempts, decisions.Attempt{Route: text.Draw(t, "route"),
					Usage: decisions.Usage{Known: true, Output: number.Draw(t, "output")}})
			}
			want = append(want, r)
			b.Add(new(r))
		}
		i := 0
		require.NoError(t, b.Flush(context.Background()))
		require.NoError(t, b.Each(context.Background(), since.Add(time.Millisecond), func(r *decisions.Record) error {
			require.Equal(t, fmt.Sprintf("%+v", want[i]), fmt.Sprintf("%+v", *r))
			i++
			return nil
		}))
		require.Len(t, want, i)
	})
}

// TestTheLogIsBounded: by age and by number, the oldest first.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.settings.Keep, b.settings.MaxRequests = time.Hour, 5
	add := func(names ...string) {
		for _, name := range names {
			b.Add(&decisions.Record{ID: name, Begun: b.now, Ended: b.now})
		}
		require.NoError(t, b.Flush(t.Context()))
	}
	add("a", "b")
	b.now = b.now.Add(time.Minute)
	add("c", "d")
	require.Equal(t, []string{"a", "b", "c", "d"}, b.ids(t, noon))
	require.Equal(t, []string{"c", "d"}, b.ids(t, noon.Add(time.Second)))
	n, err := b.Count(t.Context(), noon)
	require.NoError(t, err)
	require.Equal(t, int64(4), n)

	add("e")
	require.Len(t, b.ids(t, noon), 5)
	add("f")
	require.Equal(t, []string{"c", "d", "e", "f"}, b.ids(t, noon), "one too many: the oldest block goes")
	b.Close()
	b.reopen(t)
	add("g", "h")
	require.Equal(t, []string{"e", "f", "g", "h"}, b.ids(t, noon), "what is there after a start counts")

	b.now = b.now.Add(time.Hour)
	require.Equal(t, []string{"e", "f", "g", "h"}, b.ids(t, noon), "not older than an hour")
	b.now = b.now.Add(time.Millisecond)
	require.Empty(t, b.ids(t, noon), "also where nothing comes")
}

// TestManyRecordsAreOneRow: a busy gateway pays for few rows.
func TestManyRecordsAreOneRow(t *testing.T) {
	t.Parallel()
	b := open(t)
	var want []string
	for i := range 2000 {
		want = append(want, fmt.Sprintf("req_%032x", i))
		b.Add(&decisions.Record{ID: want[i], Begun: b.now, Ended: b.now})
	}
	require.Equal(t, want, b.ids(t, noon))
	for _, id := range []string{want[0], want[511], want[512], want[1999]} {
		r, err := b.Find(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, id, r.ID)
	}
	require.Zero(t, b.lost.Load())
}

// TestTheLogCanBeSwitchedOff: nothing is kept then.
func TestTheLogCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.True(t, b.On())
	b.settings.Mode = config.DecisionsOff
	require.False(t, b.On())
	var none *decisions.Log
	require.False(t, none.On())
	none.Add(&decisions.Record{})
	require.NoError(t, none.Flush(t.Context()))
	_, err := none.Find(t.Context(), "x")
	require.ErrorIs(t, err, decisions.ErrNotFound)
	n, err := none.Count(t.Context(), noon)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, none.Each(t.Context(), noon, nil))
	none.Close()
}

// TestAnotherFileIsLeftAlone: what is no decision log is said with what to do, and stays as it is.
func TestAnotherFileIsLeftAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("this is no database, and long enough to be one\n"), 0o600))
	_, err := decisions.Open(decisions.Options{Path: path})
	require.ErrorContains(t, err, "remove the file")
}

// TestWhatCannotBeWrittenIsCounted: a request never fails for it.
func TestWhatCannotBeWrittenIsCounted(t *testing.T) {
	t.Parallel()
	b := open(t)
	other, err := sqlite.OpenConn(b.path, sqlite.OpenReadWrite)
	require.NoError(t, err)
	require.NoError(t, sqlitex.ExecuteTransient(other, `DROP TABLE blocks`, nil))
	require.NoError(t, other.Close())
	b.Add(&decisions.Record{ID: "a"})
	require.Error(t, b.Flush(t.Context()))
	require.Equal(t, int64(1), b.lost.Load())
}

// FuzzBlock: no damage makes a reader fall over.
func FuzzBlock(f *testing.F) {
	f.Add(decisions.EncodeForTest(full()))
	f.Add([]byte{1, 0, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		n := 0
		err := decisions.DecodeForTest(data, func(*decisions.Record) { n++ })
		if err == nil && len(data) == 0 {
			t.Fatal("nothing is no block")
		}
	})
}

// TestTheLogIsItsOwnersOnly: also one that an older fareway left for everybody to read.
func TestTheLogIsItsOwnersOnly(t *testing.T) {
	t.Parallel()
	b := open(t)
	files := []string{b.path, b.path + "-wal", b.path + "-shm"}
	for _, file := range files {
		requirePrivate(t, file)
		require.NoError(t, os.Chmod(file, 0o644))
	}
	b.reopen(t)
	for _, file := range files {
		requirePrivate(t, file)
	}
}

func requirePrivate(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
}
