package live_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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

// copied are the files of a ledger, as a dead process has left them.
type copied map[string][]byte

var ledgerFiles = []string{"", "-wal", ".witness", ".spool"}

func copyFiles(t require.TestingT, path string) copied {
	c := copied{}
	for _, suffix := range ledgerFiles {
		content, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		c[suffix] = content
	}
	return c
}

// put makes them a ledger in a folder.
func (c copied) put(t require.TestingT, dir string) (path string) {
	path = filepath.Join(dir, "ledger.db")
	for suffix, content := range c {
		require.NoError(t, os.WriteFile(path+suffix, content, 0o600))
	}
	return path
}

func (c copied) with(suffix string, content []byte) copied {
	d := copied{}
	for s, b := range c {
		d[s] = b
	}
	if d[suffix] = content; content == nil {
		delete(d, suffix)
	}
	return d
}

// killed is a ledger whose process died: of its settlements the store has taken up the first, and the log has the rest.
type killed struct {
	files, older copied // older: the spool has less of them
	charges      int64
}

// kill makes one. waiting settlements are in the log only.
func kill(t *testing.T, takenUp, waiting int) killed {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	quiet := slog.New(slog.DiscardHandler)
	base, err := sqlite.Open(sqlite.Options{Path: path, Logger: quiet})
	require.NoError(t, err)
	store := &flaky{Store: base}
	s, err := spool.Open(spool.Path(path), 1<<17)
	require.NoError(t, err)
	ctx := t.Context()
	never := func(time.Duration) <-chan time.Time { return nil }
	l, err := live.Open(ctx, store, live.SpoolLog{s}, live.Options{Options: ledger.Options{Logger: quiet}, After: never})
	require.NoError(t, err)
	s.SetWitness(base.WitnessLog)
	price := config.Price{Input: 1, CacheRead: 1, CacheWrite: 1, Output: 1}
	version, err := l.PriceVersion(ctx, "small", price, price)
	require.NoError(t, err)
	a, err := l.CreateAccount(ctx, "ann", "")
	require.NoError(t, err)
	k, err := l.CreateKey(ctx, a.ID, "key", [32]byte{1}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	_, _, err = l.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 100})
	require.NoError(t, err)
	made := 0
	trade := func(n int) {
		for range n {
			made++
			id := fmt.Sprintf("req_%032x", made)
			_, err := l.Hold(ctx, ledger.Hold{Request: id, Account: a.ID, Key: k.ID, Endpoint: "chat", Profile: "balanced",
				Microcents: 100, WriteBehind: true, Attempt: ledger.Attempt{ID: ledger.AttemptID(id, 1), Route: "small",
					Provider: "echo", Model: "m", PriceVersion: version, Worst: 100}})
			require.NoError(t, err)
			_, err = l.Settle(ctx, ledger.Settlement{Request: id, Status: 200, Reason: "ok", Results: []ledger.Result{{
				Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Finished,
				Usage: &llm.Usage{Input: llm.Count(1_000_000), Output: llm.Count(0)}}}})
			require.NoError(t, err)
		}
	}
	trade(takenUp)
	require.NoError(t, l.Flush(ctx))
	store.set(true, false) // what comes now is in the log only
	half := waiting / 2
	trade(half)
	older := copyFiles(t, path)
	trade(waiting - half)
	files := copyFiles(t, path)
	require.NoError(t, l.Close())
	require.NoError(t, s.Close())
	return killed{files, older, int64(made)}
}

// found is what a start finds of a ledger.
type found struct {
	loss    *ledger.Loss
	damaged int64 // items aside
	named   int64 // settlements that are lost in them
	charges int64 // on record, once the log is taken up
}

// start starts on these files, and verifies them before.
func (c copied) start(t require.TestingT, dir string) (f found) {
	path := c.put(t, dir)
	ctx := context.Background()
	books, err := sqlite.OpenBooks(ctx, path)
	require.NoError(t, err)
	report, err := books.Verify(ctx)
	require.NoError(t, err)
	require.NoError(t, books.Close())
	log := new(bytes.Buffer)
	store, err := sqlite.Open(sqlite.Options{Path: path, Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	f.loss = store.Loss()
	require.Equal(t, report.Loss, f.loss, "verify and the start see the same")
	require.Equal(t, f.loss == nil, report.OK)
	s, err := spool.Open(spool.Path(path), 1<<17)
	require.NoError(t, err)
	for _, i := range s.Aside().Items() {
		f.damaged++
		f.named += i.Damage.Lost
	}
	if f.loss != nil {
		require.Contains(t, log.String(), "a part of the ledger is missing")
		_, err := store.AcceptLoss(ctx, "a test")
		require.NoError(t, err)
	}
	for s.Len() > 0 {
		batch := s.Oldest(100)
		for i := range batch.Records {
			c, ok, err := live.CourseOf(&batch.Records[i])
			require.NoError(t, err)
			require.True(t, ok)
			_, err = store.TakeUp(ctx, []book.Course{c})
			require.NoError(t, err)
		}
		require.NoError(t, s.ReleaseBatch(batch))
	}
	s.SetWitness(store.WitnessLog)
	r, err := store.Verify(ctx)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	f.charges = r.Requests
	require.NoError(t, store.Close())
	require.NoError(t, s.Close())
	return f
}

// TestLinkedLedger: the spool of a database that is a link lies beside the link, and is missed there (GAP-133).
func TestLinkedLedger(t *testing.T) {
	t.Parallel()
	k := kill(t, 3, 4)
	for name, missed := range map[string]int64{"whole": 0, "without its spool": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := k.files.with(".spool", nil).put(t, t.TempDir())
			link := filepath.Join(t.TempDir(), "link.db")
			require.NoError(t, os.Symlink(own, link))
			if missed == 0 {
				require.NoError(t, os.WriteFile(spool.Path(link), k.files[".spool"], 0o600))
			}
			loss, err := sqlite.FindLoss(t.Context(), link)
			require.NoError(t, err)
			store, err := sqlite.Open(sqlite.Options{Path: link, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			require.Equal(t, loss, store.Loss())
			if missed == 0 {
				require.Nil(t, loss)
			} else {
				require.Equal(t, missed, loss.Settlements)
			}
			require.NoError(t, store.Close())
		})
	}
}

// TestLogIsMissed takes the log's end away in every way that comes to mind: a start names what is gone, and so does a
// verification; what is damaged is named by the spool.
func TestLogIsMissed(t *testing.T) {
	t.Parallel()
	const takenUp, waiting = 7, 8
	k := kill(t, takenUp, waiting)
	whole := k.files[".spool"]
	for name, c := range map[string]struct {
		files  copied
		missed int64
	}{
		"GAP-133 nothing":                      {k.files, 0},
		"GAP-133 the log is gone":              {k.files.with(".spool", nil), waiting},
		"GAP-133 an older copy of the log":     {k.files.with(".spool", k.older[".spool"]), waiting / 2},
		"GAP-133 an older witness":             {k.files.with(".witness", k.older[".witness"]), 0},
		"GAP-133 no witness, and an older log": {k.files.with(".spool", k.older[".spool"]).with(".witness", nil), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := c.files.start(t, t.TempDir())
			if c.missed == 0 {
				require.Nil(t, f.loss)
				return
			}
			require.NotNil(t, f.loss)
			require.Equal(t, c.missed, f.loss.Settlements)
			require.Contains(t, f.loss.String(), fmt.Sprintf("at least %d settlements that were acknowledged are neither in it "+
				"nor in the spool", c.missed))
			require.Equal(t, k.charges-c.missed, f.charges)
		})
	}
	t.Run("GAP-133 everything was taken up, and the log is gone", func(t *testing.T) {
		t.Parallel()
		f := kill(t, takenUp, 0).files.with(".spool", nil).start(t, t.TempDir())
		require.Nil(t, f.loss)
		require.EqualValues(t, takenUp, f.charges)
	})
	t.Run("GAP-133 any cut and any bit", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		n := 0
		rapid.Check(t, func(t *rapid.T) {
			b := bytes.Clone(whole)
			end := len(bytes.TrimRight(whole, "\x00"))
			what := rapid.SampledFrom([]string{"cut", "zeros", "bit"}).Draw(t, "what")
			at := rapid.IntRange(0, end-1).Draw(t, "place")
			switch what {
			case "cut":
				b = b[:max(at, 4096)]
			case "zeros":
				clear(b[max(at, 4096):])
			case "bit":
				b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			}
			n++
			folder := filepath.Join(dir, fmt.Sprint(n))
			require.NoError(t, os.Mkdir(folder, 0o700))
			f := k.files.with(".spool", b).start(t, folder)
			missed := int64(0)
			if f.loss != nil {
				missed = f.loss.Settlements
			}
			gone := k.charges - f.charges
			require.GreaterOrEqual(t, missed+f.named, gone, "%s: what is gone is missed, or named", what)
			require.LessOrEqual(t, missed, gone)
			if gone > 0 {
				require.True(t, f.loss != nil || f.damaged > 0)
			}
			require.NoError(t, os.RemoveAll(folder))
		})
	})
}

// TestRemovedPartsComeBack: a power cut may bring what was released in the log back, sector by sector. Nobody is
// charged for it again.
func TestRemovedPartsComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g := &gateway{t: rt, dir: t.TempDir()}
		g.start()
		ctx := t.Context()
		a, err := g.CreateAccount(ctx, "ann", "")
		require.NoError(rt, err)
		k, err := g.CreateKey(ctx, a.ID, "key", [32]byte{1}, "abcd", ledger.KeyChange{})
		require.NoError(rt, err)
		require.NoError(rt, g.topUp(a.ID, 10))
		path := spool.Path(filepath.Join(g.dir, "ledger.db"))
		const first, sector = 4096, 512
		var was [][]byte // the log, as it was at moments before
		settled := map[string]ledger.Charge{}
		charged := int64(0)
		for n := range rapid.IntRange(1, 12).Draw(rt, "requests") {
			g.clock.Add(1)
			id := fmt.Sprintf("req_%032x", n+1)
			_, err := g.Hold(ctx, ledger.Hold{Request: id, Account: a.ID, Key: k.ID, Endpoint: "chat", Profile: "balanced",
				Microcents: 100, WriteBehind: true})
			require.NoError(rt, err)
			c, err := g.Settle(ctx, ledger.Settlement{Request: id, Status: 200, Reason: "ok",
				Surcharge: rapid.Int64Range(0, 100).Draw(rt, "surcharge")})
			require.NoError(rt, err)
			settled[id] = c
			charged += c.Microcents
			content, err := os.ReadFile(path)
			require.NoError(rt, err)
			was = append(was, content)
			if rapid.Bool().Draw(rt, "taken up") {
				require.NoError(rt, g.Flush(ctx))
			}
			if rapid.IntRange(0, 3).Draw(rt, "crash") == 0 {
				g.crash()
				g.bringBack(rt, path, was, first, sector)
				g.start()
			}
		}
		g.crash()
		g.bringBack(rt, path, was, first, sector)
		g.start()
		g.check(rt, []ledger.Account{a}, map[string]int64{a.ID: 10}, map[string]int64{a.ID: charged}, settled)
		require.NoError(rt, g.Close())
		require.NoError(rt, g.spool.Close())
	})
}

// bringBack has sectors of the log that are zeros now be what they were at a moment before.
func (g *gateway) bringBack(rt *rapid.T, path string, was [][]byte, first, sector int) {
	now, err := os.ReadFile(path)
	require.NoError(rt, err)
	for at := first; at < len(now); at += sector {
		then := rapid.SampledFrom(was).Draw(rt, "moment")
		if len(then) == len(now) && len(bytes.TrimRight(now[at:at+sector], "\x00")) == 0 &&
			len(bytes.TrimRight(then[at:at+sector], "\x00")) > 0 && rapid.Bool().Draw(rt, "comes back") {
			copy(now[at:], then[at:at+sector])
		}
		if at > first+64*sector && at < len(now)/2 {
			at = len(now)/2/sector*sector - sector // the rest was never written
		}
	}
	require.NoError(rt, os.WriteFile(path, now, 0o600))
}
