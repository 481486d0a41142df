package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// sizeOfFrame is that of the frames of a log.
func sizeOfFrame(wal []byte) int { return frameHead + int(binary.BigEndian.Uint32(wal[8:])) }

// commitsOf are where the frames of a log begin that end its transactions.
func commitsOf(wal []byte) (at []int) {
	for i := walHead; i+sizeOfFrame(wal) <= len(wal); i += sizeOfFrame(wal) {
		if binary.BigEndian.Uint32(wal[i+4:]) != 0 && bytes.Equal(wal[i+8:i+16], wal[16:24]) {
			at = append(at, i)
		}
	}
	return at
}

// TestDamagedLog (GAP-133): whatever bit of a log is turned, it is told from a log that a power cut has torn, unless
// it is in the last transaction.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
	_, whole := traded(t, 20)
	whole = whole.with(".witness", nil)
	require.Equal(t, []any{true, false, ""}, okOf(whole.verified(t)))
	wal := whole["-wal"]
	commits := commitsOf(wal)
	require.Greater(t, len(commits), 40)
	frame := sizeOfFrame(wal)
	dir := t.TempDir()
	check := func(wal []byte) *ledger.LogDamage {
		path := whole.with("-wal", copied{"-wal": wal}).put(t, dir)
		damage, end, err := findDamage(path, path+"-wal")
		require.NoError(t, err)
		require.LessOrEqual(t, end, int64(len(wal)))
		return damage
	}
	require.Nil(t, check(wal))
	random := rand.New(rand.NewPCG(26, 20))
	for range 1_000 {
		at := random.IntN(commits[len(commits)-1] + frame)
		turned := bytes.Clone(wal)
		turned[at] ^= 1 << random.IntN(8)
		behind := 0 // transactions behind the one that is damaged
		for _, commit := range commits {
			if commit+frame <= at {
				continue
			}
			behind++
		}
		damage := check(turned)
		if behind > 2 {
			require.NotNil(t, damage, "byte %d", at)
			require.InDelta(t, behind-2, damage.Commits, 2, "byte %d", at)
			require.Less(t, damage.Commits, int64(behind), "byte %d", at)
		}
		if behind == 1 {
			require.Nil(t, damage, "byte %d, of the last transaction", at)
		}
	}
	t.Run("GAP-133 the last but one, where its commit frame is whole", func(t *testing.T) {
		turned := bytes.Clone(wal)
		last := commits[len(commits)-2]
		turned[last+frameHead+100] ^= 1
		require.Zero(t, (last%walSector+frameHead)/walSector, "its head is within a sector")
		require.NotNil(t, check(turned))
	})
	t.Run("GAP-133 a part that was overwritten", func(t *testing.T) {
		turned := bytes.Clone(wal)
		clear(turned[len(wal)/4 : len(wal)/2])
		require.Greater(t, check(turned).Commits, int64(10))
	})
	t.Run("GAP-133 its beginning was overwritten", func(t *testing.T) {
		turned := bytes.Clone(wal)
		clear(turned[:4096])
		require.Greater(t, check(turned).Commits, int64(10))
	})
	t.Run("GAP-133 a log that is cut or empty is innocent by itself", func(t *testing.T) {
		for _, n := range []int{0, 1, 31, 32, 33, 4000, walHead + frame, walHead + 3*frame + 7, len(wal) / 2} {
			require.Nil(t, check(wal[:n]), n)
			require.Nil(t, check(make([]byte, n)), n)
		}
	})
}

// TestLogOfBefore (GAP-133): frames of a log that was begun anew, and a header that was torn when it was, are
// innocent.
func TestLogOfBefore(t *testing.T) {
	t.Parallel()
	s, _ := traded(t, 20)
	require.NoError(t, run(s.store.db.conn, `PRAGMA wal_checkpoint(RESTART)`, func(*sqlite.Stmt) error { return nil }))
	full := copyFiles(t, s.store.opts.Path)
	dir := t.TempDir()
	check := func(c copied, wal []byte) *ledger.LogDamage {
		path := c.with("-wal", copied{"-wal": wal}).put(t, dir)
		damage, _, err := findDamage(path, path+"-wal")
		require.NoError(t, err)
		return damage
	}
	header := bytes.Clone(full["-wal"])
	header[13] ^= 8
	require.Nil(t, check(full, header), "all of it is in the database")

	s.trade(20)
	begun := copyFiles(t, s.store.opts.Path)
	wal := begun["-wal"]
	commits := commitsOf(wal)
	require.Less(t, commits[len(commits)-1], len(wal)/2)
	for at := commits[len(commits)-1] + sizeOfFrame(wal) + 5; at < len(wal); at += 1_000 {
		turned := bytes.Clone(wal)
		turned[at] ^= 1
		require.Nil(t, check(begun, turned))
	}
	for n := range 10 {
		s.trade(21 + n)
	}
	begun = copyFiles(t, s.store.opts.Path)
	turned := bytes.Clone(begun["-wal"])
	turned[walHead+50] ^= 1
	require.NotNil(t, check(begun, turned))
	header = bytes.Clone(begun["-wal"])
	header[13] ^= 8
	require.NotNil(t, check(begun, header), "the database does not have that yet")
}

// TestDamagedLogIsDecidedAbout (GAP-133): a log that is damaged stops money without a witness, too, is kept, and is
// asked about until an operator has decided, and never again.
func TestDamagedLogIsDecidedAbout(t *testing.T) {
	t.Parallel()
	for name, witness := range map[string]bool{
		"GAP-133 without a witness": false, "GAP-133 with a witness that is behind": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s, behind := traded(t, 3)
			for n := range 20 {
				s.trade(3 + n)
			}
			whole := copyFiles(t, s.store.opts.Path).with(".witness", nil)
			if witness {
				whole = whole.with(".witness", behind)
			}
			wal := bytes.Clone(whole["-wal"])
			wal[commitsOf(wal)[20]+1_000] ^= 2
			whole = whole.with("-wal", copied{"-wal": wal})
			path := whole.put(t, t.TempDir())

			r := verifiedAt(t, path)
			require.Equal(t, []any{false, witness, "write-ahead log"}, []any{r.OK, r.Witnessed, r.Entry})
			require.Contains(t, r.Problem, "its write-ahead log is damaged from byte")
			require.Contains(t, r.Problem, "accept-loss")
			require.Greater(t, r.Loss.Log.Commits, int64(20))
			again := verifiedAt(t, path)
			require.Equal(t, r.Loss, again.Loss, "looking changes nothing")

			log := new(bytes.Buffer)
			open := func() *Store { return openAt(t, path, log) }
			g := open()
			require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"))
			kept, err := DamagedLogs(path)
			require.NoError(t, err)
			require.Len(t, kept, 1)
			content, err := os.ReadFile(kept[0])
			require.NoError(t, err)
			require.True(t, bytes.Equal(wal, content))
			require.Equal(t, path+"-wal", r.Loss.Log.File)
			require.Equal(t, &ledger.LogDamage{File: kept[0], Byte: r.Loss.Log.Byte, Commits: r.Loss.Log.Commits},
				g.Loss().Log)
			found, err := FindLoss(ctx, path)
			require.NoError(t, err)
			require.Equal(t, g.Loss(), found)
			info, err := os.Stat(kept[0])
			require.NoError(t, err)
			require.EqualValues(t, 0o600, info.Mode().Perm())
			a, err := g.CreateAccount(ctx, "bob", "")
			require.NoError(t, err, "operators go on")
			_, _, err = g.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 5})
			require.ErrorIs(t, err, ledger.ErrLost)
			r, err = g.Verify(ctx)
			require.NoError(t, err)
			require.False(t, r.OK)
			require.NoError(t, g.Close())
			require.False(t, verifiedAt(t, path).OK)

			g = open()
			require.NotNil(t, g.Loss().Log, "a restart decides nothing")
			kept, err = DamagedLogs(path)
			require.NoError(t, err)
			require.Len(t, kept, 1)
			_, err = g.AcceptLoss(ledger.WithActor(ctx, "mary"), "disk failed")
			require.NoError(t, err)
			require.Nil(t, g.Loss())
			_, _, err = g.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 5})
			require.NoError(t, err)
			r, err = g.Verify(ctx)
			require.NoError(t, err)
			require.Equal(t, []any{true, true, ""}, okOf(r))
			require.NoError(t, g.Audit(ctx, ledger.Query{}, func(a ledger.Act) error {
				if a.Action == "ledger.accept_loss" {
					require.Contains(t, a.After, "log_commits")
				}
				return nil
			}))
			killed := copyFiles(t, path)
			require.NoError(t, g.Close())
			accepted, err := filepath.Glob(path + keptAccepted + "*")
			require.NoError(t, err)
			require.Len(t, accepted, 1)
			require.Nil(t, open().Loss())

			path = killed.put(t, t.TempDir())
			require.Nil(t, open().Loss(), "what is left of the damaged log is not in it any more")
		})
	}
}

func openAt(t *testing.T, path string, log *bytes.Buffer) *Store {
	return openStore(t, func(o *Options) { o.Path, o.Logger = path, slog.New(slog.NewTextHandler(log, nil)) })
}

func verifiedAt(t *testing.T, path string) ledger.Report {
	books, err := OpenBooks(t.Context(), path)
	require.NoError(t, err)
	r, err := books.Verify(t.Context())
	require.NoError(t, err)
	require.NoError(t, books.Close())
	return r
}

// scanned looks for damage in what a disk holds.
func scanned(i image) (walScan, error) {
	return scanWAL(bytes.NewReader(i["fareway.db-wal"]), int64(len(i["fareway.db-wal"])), 4096)
}

// TestPowerLossIsNoDamage (GAP-133): what a power cut leaves of a log is never taken for damage, at none of the syncs
// of a run of everything, whatever the disk has kept; nor where it comes again after a start on what it left before.
func TestPowerLossIsNoDamage(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 2))
	first := record(t, 4, 4)
	var torn []image
	traded := first.told[slices.IndexFunc(first.told, func(a answer) bool { return a.what == "hold" })].position
	times := first.cut(t, nil, random, func(point int, i image, s walScan) {
		if s.bad < int64(len(i["fareway.db-wal"])) && point > traded {
			torn = append(torn, i)
		}
	})
	require.NotEmpty(t, torn)
	for _, n := range random.Perm(len(torn))[:min(len(torn), 6/powerLossStep+1)] {
		times += recordOn(t, torn[n]).cut(t, torn[n], random, func(int, image, walScan) {})
	}
	t.Logf("the power failed %d times, %d logs were torn; seed %d", times, len(torn), seed)
}

// cut cuts the power at each sync, with each loss, on a disk that held something before.
func (r recording) cut(t *testing.T, before image, random *rand.Rand, then func(int, image, walScan)) (times int) {
	platter, at := newPlatter(), 0
	if before != nil {
		platter.sure, platter.all = before.clone(), before.clone()
	}
	for _, point := range r.points() {
		for ; at < point; at++ {
			platter.apply(r.events[at])
		}
		for _, l := range losses {
			i := platter.after(l, random)
			s, err := scanned(i)
			require.NoError(t, err)
			require.False(t, s.damaged, "before event %d of %d: %s", point, len(r.events), l.name)
			then(point, i, s)
			times++
		}
	}
	return times
}

// recordOn runs a short workload on what a disk holds, and ends without closing the ledger.
func recordOn(t *testing.T, i image) recording {
	dir := t.TempDir()
	require.NoError(t, i.save(dir))
	d := &disk{}
	t.Cleanup(watch(dir, d))
	var clock atomic.Int64
	clock.Store(workStart.UnixNano())
	w, err := newWorkload(filepath.Join(dir, "fareway.db"), "again", &clock, func(fact) {})
	require.NoError(t, err)
	require.Nil(t, w.store.Loss())
	_, _, err = w.store.AddCredit(t.Context(), ledger.Credit{Account: w.account.ID, Credits: workCredits})
	require.NoError(t, err)
	for n := range 4 {
		require.NoError(t, w.round(t.Context(), 9, n, requestID("again", 9, n)))
	}
	events := slices.Clone(d.events)
	require.NoError(t, w.store.Close())
	return recording{events: events}
}

// TestFailedCommitIsNoDamage (GAP-133): what is left in the log of commits whose sync failed, behind what was written
// over them, is innocent.
func TestFailedCommitIsNoDamage(t *testing.T) {
	t.Parallel()
	p := newTill(t, nil)
	for round := range 6 {
		for n := range 3 {
			require.NoError(t, p.hold(fmt.Sprintf("req_%d_%d", round, n)))
		}
		p.setFault(func(kind eventKind, file string) int32 {
			if kind == synced && strings.HasSuffix(file, "-wal") {
				return lib.SQLITE_IOERR_FSYNC
			}
			return lib.SQLITE_OK
		})
		for n := range 3 {
			_, err := p.settle(fmt.Sprintf("req_%d_%d", round, n), 10)
			require.ErrorIs(t, err, ledger.ErrUnavailable)
		}
		p.setFault(nil)
		innocent := func() {
			damage, _, err := findDamage(p.opts.Path, p.opts.Path+"-wal")
			require.NoError(t, err)
			require.Nil(t, damage)
		}
		for n := range 3 {
			innocent()
			require.NoError(t, p.RecordAct(t.Context(), "test", "", fmt.Sprint(n), nil))
		}
		for n := range 3 {
			_, err := p.settle(fmt.Sprintf("req_%d_%d", round, n), 10)
			require.NoError(t, err)
			innocent()
		}
	}
}
