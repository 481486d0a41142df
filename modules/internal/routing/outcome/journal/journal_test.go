package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// book is a journal with a clock that a test turns.
type book struct {
	*Journal
	t        *testing.T
	dir      string
	log      *bytes.Buffer
	mu       sync.Mutex
	at       time.Time
	settings config.Outcomes
	lost     atomic.Int64
	gate     chan struct{} // closed where nobody is to wait
	asks     chan struct{} // has one once the writer has come to the gate
}

func newBook(t *testing.T) *book {
	t.Helper()
	b := &book{t: t, dir: filepath.Join(t.TempDir(), "fareway.db.outcomes"), log: new(bytes.Buffer),
		at: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), settings: config.DefaultOutcomes(), gate: make(chan struct{}),
		asks: make(chan struct{}, 1)}
	b.settings.On = true
	close(b.gate)
	b.open()
	return b
}

func (b *book) open() {
	b.Journal = Open(Options{Dir: b.dir, Logger: slog.New(slog.NewTextHandler(b.log, nil)),
		After: func(time.Duration) <-chan time.Time { return nil }, // only Flush writes
		Now: func() time.Time {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.at
		},
		Settings: func() config.Outcomes {
			select {
			case b.asks <- struct{}{}:
			default:
			}
			<-b.gate
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.settings
		},
		Lost: func(n int) { b.lost.Add(int64(n)) }})
	j := b.Journal
	b.t.Cleanup(func() {
		select {
		case <-j.stop:
		default:
			j.Close()
		}
	})
}

func (b *book) turn(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

func line(id string) Line {
	return Line{ID: id, Account: "acct_1", Route: "small", Model: "small-1", Score: 1, From: Agreed,
		Signal: []byte("signal")}
}

func (b *book) write(ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		b.Add(line(id))
	}
	require.NoError(b.t, b.Flush(b.t.Context()))
}

func (b *book) read() (ids []string, skipped []Skipped) {
	b.t.Helper()
	skipped, err := Read(b.dir, func(l *Line) error {
		ids = append(ids, l.ID)
		return nil
	})
	require.NoError(b.t, err)
	return ids, skipped
}

func (b *book) files(name string) []part {
	b.t.Helper()
	all, err := (&series{dir: b.dir, name: name}).list()
	require.NoError(b.t, err)
	return all
}

// TestLinesAreKept: whole, for the gateway's user alone, and what was asked in files of its own.
func TestLinesAreKept(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	require.NoDirExists(t, b.dir, "nothing is made before there is something to keep")
	b.AddText(Text{ID: "req_1", Account: "acct_1", Prompt: "Where is zanzibar?"})
	b.write("req_1", "req_2")
	ids, skipped := b.read()
	require.Equal(t, []string{"req_1", "req_2"}, ids)
	require.Empty(t, skipped)
	info, err := os.Stat(b.dir)
	require.NoError(t, err)
	require.Equal(t, privateFolder, info.Mode().Perm())
	for _, name := range []string{"lines", "texts"} {
		files := b.files(name)
		require.Len(t, files, 1)
		info, err := os.Stat(files[0].path)
		require.NoError(t, err)
		require.Equal(t, privateFile, info.Mode().Perm())
		text, err := os.ReadFile(files[0].path)
		require.NoError(t, err)
		require.Equal(t, name == "texts", strings.Contains(string(text), "zanzibar"))
	}
	require.NoError(t, b.Flush(t.Context()))
	b.Close()
	b.open()
	b.write("req_3")
	require.Len(t, b.files("lines"), 1, "it is continued")
	ids, _ = b.read()
	require.Equal(t, []string{"req_1", "req_2", "req_3"}, ids)
	var none *Journal
	none.Add(line("x"))
	none.Close()
	require.NoError(t, none.Flush(t.Context()))
}

// TestACrashLeavesWholeLines: what was cut in the middle is left out, and goes with the next line.
func TestACrashLeavesWholeLines(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.write("req_1", "req_2")
	b.Close()
	path := b.files("lines")[0].path
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, cut := range []int{1, 20, len(whole)/2 - 1} {
		require.NoError(t, os.WriteFile(path, whole[:len(whole)-cut], 0o600))
		ids, skipped := b.read()
		require.Equal(t, []string{"req_1"}, ids)
		require.Equal(t, []Skipped{{"the last line is not whole: the gateway was killed there, or writes it", 1, path, 2}},
			skipped)
		b.open()
		b.write("req_3")
		b.Close()
		ids, skipped = b.read()
		require.Equal(t, []string{"req_1", "req_3"}, ids)
		require.Empty(t, skipped)
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", 200_000)), 0o600))
	b.open()
	b.write("req_4")
	ids, _ := b.read()
	require.Equal(t, []string{"req_4"}, ids, "no line in it at all")
}

// TestJournalIsBounded: in age and in size, the oldest first; texts have their own age.
func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.settings.Keep, b.settings.TextKeep, b.settings.MaxSize = 16*time.Hour, 4*time.Hour, 1<<20
	began := b.at
	for hour := range 40 {
		b.AddText(Text{ID: fmt.Sprint(hour), Prompt: "x"})
		b.write(fmt.Sprint(hour))
		b.turn(time.Hour)
	}
	require.NoError(t, b.Flush(t.Context()))
	now := began.Add(40 * time.Hour)
	for name, keep := range map[string]time.Duration{"lines": b.settings.Keep, "texts": b.settings.TextKeep} {
		files := b.files(name)
		require.NotEmpty(t, files)
		require.LessOrEqual(t, len(files), parts)
		require.Less(t, now.Sub(files[0].begun), keep, "no line is older than it may be")
		require.GreaterOrEqual(t, now.Sub(files[0].begun), keep-2*time.Hour)
	}
	ids, _ := b.read()
	require.Equal(t, "39", ids[len(ids)-1])

	for n := range 8000 {
		b.Add(line(fmt.Sprint("more", n)))
		if n%500 == 0 {
			require.NoError(t, b.Flush(t.Context()))
			b.turn(time.Second)
		}
	}
	require.NoError(t, b.Flush(t.Context()))
	sum := int64(0)
	for _, p := range b.files("lines") {
		sum += p.size
	}
	require.LessOrEqual(t, sum, b.settings.MaxSize)
	require.Greater(t, sum, b.settings.MaxSize/2)
	ids, _ = b.read()
	require.Equal(t, "more7999", ids[len(ids)-1])
	b.turn(-48 * time.Hour) // the clock is turned back
	b.write("past")
	ids, _ = b.read()
	require.Equal(t, "past", ids[len(ids)-1])
	b.turn(1000 * time.Hour)
	require.NoError(t, b.Flush(t.Context()))
	require.Empty(t, b.files("lines"), "what nobody adds to grows old, too")
	require.Empty(t, b.files("texts"))
}

// TestAFullDiskHarmsNobody: what cannot be written is dropped and counted, said once, and so is its end.
func TestAFullDiskHarmsNobody(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	require.NoError(t, os.WriteFile(b.dir, nil, 0o600)) // no folder can be made there
	for range 3 {
		b.Add(line("lost"))
		require.Error(t, b.Flush(t.Context()))
	}
	require.EqualValues(t, 3, b.lost.Load())
	require.NoError(t, os.Remove(b.dir))
	b.write("kept")
	b.Close()
	require.Equal(t, 1, strings.Count(b.log.String(), "level=ERROR"))
	require.Equal(t, 1, strings.Count(b.log.String(), "kept for training again"))
	ids, _ := b.read()
	require.Equal(t, []string{"kept"}, ids)

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	at := b.files("lines")[0].begun
	s := series{dir: b.dir, name: "lines", file: full, begun: at, waits: []byte("{}\n"), count: 1}
	require.ErrorContains(t, s.write(at, time.Hour, 1<<20), "no space left")
	require.Nil(t, s.file, "the next write tries again")
	require.NoError(t, s.write(at, time.Hour, 1<<20))
	s.close()
}

// TestATextThatCannotBeKeptIsSaidOnce: GAP-131 that lines can be written is no end of texts that cannot.
func TestATextThatCannotBeKeptIsSaidOnce(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	texts := series{dir: b.dir, name: "texts"}
	require.NoError(t, os.MkdirAll(texts.path(b.at), 0o700)) // no file can be made there
	for range 3 {
		b.AddText(Text{ID: "req_1", Prompt: "lost"})
		b.Add(line("req_1"))
		require.Error(t, b.Flush(t.Context()))
	}
	b.Close()
	require.Equal(t, 1, strings.Count(b.log.String(), "level=ERROR"), b.log.String())
	require.NotContains(t, b.log.String(), "again")
	require.EqualValues(t, 3, b.lost.Load())
	ids, _ := b.read()
	require.Len(t, ids, 3)
}

// TestTooManyAtOnce: what comes while the writer is busy waits, up to a bound; nobody waits for it.
func TestTooManyAtOnce(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.gate = make(chan struct{})
	flushed := make(chan error)
	go func() { flushed <- b.Flush(t.Context()) }()
	<-b.asks // until then the writer takes what comes
	for b.lost.Load() == 0 {
		b.Add(line("x"))
	}
	require.Len(t, b.lines, waiting)
	close(b.gate)
	require.NoError(t, <-flushed)
	require.NoError(t, b.Flush(t.Context()), "what waited makes room")
	b.write("y")
	ids, _ := b.read()
	require.Equal(t, "y", ids[len(ids)-1])
}

// TestWhatIsNoLine: it is left out, and said where it stands.
func TestWhatIsNoLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lines-000000000001.jsonl")
	good := `{"v":1,"t":"2026-11-01T12:00:00Z","id":"req_1","account":"a","route":"small","model":"m","score":0.5,` +
		`"from":"agreed","signal":"c2lnbmFs"}` + "\n"
	text := good + "garbage\n" + strings.Replace(good, `"v":1`, `"v":2`, 1) + strings.Repeat("x", maxLine+10) + "\n" +
		strings.Replace(good, "0.5", "1.5", 1) + strings.Replace(good, "c2lnbmFs", "", 1) + "\n" + good + `{"v":1`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	n := 0
	skipped, err := Read(path, func(l *Line) error {
		n++
		require.Equal(t, "small", l.Route)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	why := map[string]int64{}
	for _, s := range skipped {
		why[s.Why] = s.Line
		require.Contains(t, s.String(), fmt.Sprintf("from line %d of %s on", s.Line, path))
	}
	require.Equal(t, map[string]int64{"it is no line of outcomes": 2, "it is of version 2, and this fareway reads 1": 3,
		fmt.Sprintf("it is longer than %d bytes", maxLine): 4, "its score is not from 0 to 1": 5,
		"it has no route, no model or no signal":                                 6,
		"the last line is not whole: the gateway was killed there, or writes it": 9}, why)
	enough := errors.New("enough")
	_, err = Read(path, func(*Line) error { return enough })
	require.ErrorIs(t, err, enough)
	_, err = Read(path+".none", nil)
	require.ErrorContains(t, err, "no such file")
	_, err = Read(filepath.Join(t.TempDir()), nil)
	require.ErrorContains(t, err, "holds no outcomes")
}

// TestGigabytesAreReadInPart: so much is read, and the rest is said to be left out.
func TestGigabytesAreReadInPart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lines-000000000001.jsonl")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(2*MaxRead)) // zeros, which take no room
	require.NoError(t, f.Close())
	r := reader{take: func(*Line) error { return nil }, read: MaxRead - 1<<20}
	require.NoError(t, r.file(path))
	require.Len(t, r.skipped, 1)
	require.Contains(t, r.skipped[0].String(), "more than 1 GiB is not read")
}
