package spool

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// small is the size of the tests' spools: a few records in each half.
const small = firstRecord + 48*sectorSize

// The places of the first half's headers.
const headerA, headerB = 0, 2048

// recordOf is a record with everything in it. Some take one sector, some two, some three.
func recordOf(n int) Record {
	id := fmt.Sprintf("req_%032x", n)
	charge := int64(1000 + n)
	r := Record{
		Settlement: ledger.Settlement{
			Request: id, Status: 200, Reason: "ok" + strings.Repeat("!", n%3*450), ServiceLimit: n%2 == 0, Free: n%3 == 0,
			Surcharge: int64(n),
			Results: []ledger.Result{{Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Finished,
				Usage: &llm.Usage{Input: llm.Count(0), Output: llm.Count(int64(n)), Estimated: true}}},
		},
		Account: "acct_1", Key: "key_1", Charge: &charge, Pending: n%2 == 1, Time: time.Unix(int64(n), 0).UTC(),
		Attempts: []Attempt{{ID: ledger.AttemptID(id, 1), Route: "small", Provider: "echo", Model: "echo-1", PriceVersion: 3,
			Price: config.Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Tiers: []config.Tier{{Above: 5, Output: 6}}}}},
	}
	if n%3 == 0 {
		r.Attempts, r.Settlement.Results = nil, nil
	}
	return r
}

func records(n int) []Record {
	list := make([]Record, n)
	for i := range list {
		list[i] = recordOf(i)
	}
	return list
}

// begin opens the spool of a computer.
func begin(t require.TestingT, c *computer) *Spool {
	s, err := open(c, where, small)
	require.NoError(t, err)
	return s
}

// with is a computer with these records in its spool.
func with(t require.TestingT, all []Record) (*Spool, *computer) {
	c := newComputer()
	s := begin(t, c)
	for _, r := range all {
		require.NoError(t, add(s, r))
	}
	return s, c
}

// add appends a record.
func add(s *Spool, r Record) error {
	_, err := s.Append(&r)
	return err
}

// waiting is everything that waits.
func waiting(t require.TestingT, s *Spool) []Record {
	batch := s.Oldest(1 << 20)
	require.Len(t, batch.Records, int(s.Len()))
	return batch.Records
}

// requireSame compares lists, of which an empty one may be nil.
func requireSame(t require.TestingT, want, got []Record, about ...any) {
	require.Len(t, got, len(want), about...)
	for i := range want {
		require.Equal(t, want[i], got[i], about...)
	}
}

func TestOpenMakesAWholeFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spool")
	s, err := Open(path, 0)
	require.NoError(t, err)
	require.NoError(t, add(s, recordOf(1)))
	require.NoError(t, s.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, Size, info.Size())
	require.EqualValues(t, 0o600, info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)

	s, err = Open(path, 0)
	require.NoError(t, err)
	requireSame(t, []Record{recordOf(1)}, waiting(t, s))
	require.Zero(t, s.Torn())
	require.Zero(t, s.Aside().Undecided())
	require.NoError(t, s.Close())
	found, damaged, err := Inspect(path)
	require.NoError(t, err)
	requireSame(t, []Record{recordOf(1)}, found)
	require.Empty(t, damaged)
}

// TestMakingFails: half a spool does not stay, and takes no room.
func TestMakingFails(t *testing.T) {
	t.Parallel()
	for _, stuck := range []bool{true, false} {
		c := newComputer()
		c.broken, c.stuck = true, stuck
		_, err := open(c, where, small)
		require.ErrorIs(t, err, errBroken)
		require.Empty(t, c.files)
	}
}

// TestOpeningFails: wherever making a spool out of a damaged one ends, no file stays open, and the next start has all.
func TestOpeningFails(t *testing.T) {
	t.Parallel()
	_, whole := with(t, records(3))
	damaged := bytes.Clone(whole.files[where].now)
	damaged[firstRecord+100] ^= 1
	failed := 0
	for left := 0; ; left++ {
		c := holding(map[string][]byte{where: damaged})
		c.left = left
		s, err := open(c, where, small)
		if err == nil {
			require.Equal(t, 2, c.handles, "the spool, and what is aside")
			require.NoError(t, s.Close())
			require.Zero(t, c.handles)
			break
		}
		failed++
		require.Zero(t, c.handles, "%d operations", left)
		c.left = -1
		again := begin(t, c)
		requireSame(t, records(3)[1:], waiting(t, again), "%d operations", left)
		require.Len(t, again.Aside().Items(), 1, "%d operations", left)
	}
	require.Greater(t, failed, 5)
}

// TestModel runs appends, applications, broken disks and losses of power against a list.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newComputer()
		s := begin(t, c)
		var all, old []Record // in the file; what was in it before it was emptied
		applied, made := 0, 0
		suspect := false // the disk was broken: what is on it is not known
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				made++
				err := add(s, recordOf(made))
				switch {
				case c.broken:
					require.Error(t, err)
					suspect = true
				case err != nil:
					require.ErrorIs(t, err, ErrFull)
					require.Greater(t, s.current.end, s.current.to-4*sectorSize)
				default:
					all, suspect = append(all, recordOf(made)), false
				}
			},
			"apply": func(t *rapid.T) {
				batch := s.Oldest(rapid.IntRange(1, 4).Draw(t, "n"))
				requireSame(t, all[applied:applied+len(batch.Records)], batch.Records)
				err := s.ReleaseBatch(batch)
				applied += len(batch.Records)
				if applied < len(all) || len(all) == 0 && !c.broken {
					require.NoError(t, err)
				}
				if applied < len(all) || len(all) == 0 {
					return // what a broken disk was not told of the last emptying, it is told now
				}
				if old, all, applied = slices.Concat(old, all), nil, 0; c.broken {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				old, suspect = nil, false
			},
			"break and repair": func(t *rapid.T) {
				c.broken, c.stuck = !c.broken, rapid.Bool().Draw(t, "at once")
				c.stuck = c.stuck && c.broken
			},
			"lose power": func(t *rapid.T) {
				if suspect {
					t.Skip("what a broken disk has is TestPowerLoss's")
				}
				c = c.after(t)
				s = begin(t, c)
				// Where an emptying was lost, what was there before may come again.
				all, applied = slices.Concat(old, all), len(old)+applied
				got := waiting(t, s)
				require.Zero(t, s.Aside().Undecided())
				next := 0
				for _, r := range got { // some of those that were applied come again
					for ; next < len(all) && all[next].Settlement.Request != r.Settlement.Request; next++ {
						require.Less(t, next, applied, "one that waits is missing")
					}
					require.Less(t, next, len(all), "one that was not there, or twice")
					require.Equal(t, all[next], r)
					next++
				}
				require.Equal(t, len(all), max(next, applied))
				old, all, applied = nil, got, 0
			},
			"": func(t *rapid.T) { require.EqualValues(t, len(all)-applied, s.Len()) },
		})
	})
}

// TestRelease appends and releases in any order, over many epochs of both halves, with losses of power: what was kept
// and not released is found in its order, and nothing twice.
func TestRelease(t *testing.T) {
	t.Parallel()
	turns := 0
	rapid.Check(t, func(t *rapid.T) {
		type one struct {
			n      int
			number Number
		}
		c := newComputer()
		s := begin(t, c)
		var waits []one
		seen := map[Number]bool{}
		for made := range rapid.IntRange(1, 150).Draw(t, "steps") {
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				c = c.after(t)
				s = begin(t, c)
				require.Zero(t, s.Aside().Undecided())
				found := s.Oldest(1 << 20)
				next := 0
				for i, r := range found.Records {
					if next < len(waits) && r.Settlement.Request == recordOf(waits[next].n).Settlement.Request {
						require.Equal(t, waits[next].number, found.numbers[i])
						next++
						continue
					}
					s.Release(0, found.numbers[i]) // it was released before
				}
				require.Equal(t, len(waits), next, "what waits is there in its order")
			case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11:
				number, err := s.Append(new(recordOf(made)))
				if err != nil {
					require.ErrorIs(t, err, ErrFull)
					continue
				}
				require.False(t, seen[number], "no number is used again")
				seen[number] = true
				waits = append(waits, one{made, number})
			default:
				if len(waits) > 0 {
					i := rapid.IntRange(0, len(waits)-1).Draw(t, "which")
					s.Release(0, waits[i].number)
					s.Release(0, waits[i].number) // once more changes nothing
					waits = slices.Delete(waits, i, i+1)
				}
			}
			require.EqualValues(t, len(waits), s.Len())
		}
		turns += int(max(s.halves[0].header.epoch, s.halves[1].header.epoch))
	})
	require.Greater(t, turns, 200, "epochs begin")
}

// TestDiskFailsForAMoment: what Append has failed for is not found after a restart, whether the disk could be told at
// once or at the next settlement.
func TestDiskFailsForAMoment(t *testing.T) {
	t.Parallel()
	for _, syncs := range []int{1, 2} {
		s, c := with(t, records(2))
		c.failing = syncs
		require.ErrorIs(t, add(s, recordOf(2)), errBroken, "of three sectors")
		require.EqualValues(t, 2, s.Len())
		if syncs == 2 {
			require.NoError(t, add(s, recordOf(3)), "of one")
		}
		require.Len(t, c.files[where].now, small, "what is removed is not more than was written")
		again := begin(t, c)
		want := records(2)
		if syncs == 2 {
			want = append(want, recordOf(3))
		}
		requireSame(t, want, waiting(t, again))
		require.Zero(t, again.Torn())
		require.Zero(t, again.Aside().Undecided())
	}
}

// TestConcurrently appends from many goroutines while another applies: each settlement comes out once.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	s, err := open(newComputer(), where, 1<<20)
	require.NoError(t, err)
	const each, writers = 20, 16
	var appending sync.WaitGroup
	for w := range writers {
		appending.Go(func() {
			for i := range each {
				require.NoError(t, add(s, recordOf(w*each+i)))
			}
		})
	}
	seen := make(map[string]bool)
	take := func() {
		batch := s.Oldest(7)
		require.LessOrEqual(t, len(batch.Records), 7)
		for _, x := range batch.Records {
			require.False(t, seen[x.Settlement.Request])
			seen[x.Settlement.Request] = true
		}
		require.NoError(t, s.ReleaseBatch(batch))
	}
	done := make(chan struct{})
	go func() {
		appending.Wait()
		close(done)
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			take()
		}
	}
	for s.Len() > 0 {
		take()
	}
	require.Len(t, seen, each*writers)
}

func TestFull(t *testing.T) {
	t.Parallel()
	s, c := with(t, nil)
	one := recordOf(3) // of one sector, so that the last one is used, too
	n := 0
	for s.halves[1].end < small {
		require.NoError(t, add(s, one))
		n++
	}
	require.EqualValues(t, (small-firstRecord)/sectorSize*3/4, n, "the first half is left when half of it is used")
	syncs := c.syncs
	require.ErrorIs(t, add(s, one), ErrFull)
	require.Equal(t, syncs, c.syncs, "nothing is written for it")
	require.EqualValues(t, n, s.Len())
	require.Len(t, c.files[where].now, small, "it does not grow")
	requireSame(t, waiting(t, s), waiting(t, begin(t, c)))
	require.NoError(t, s.ReleaseBatch(s.Oldest(n)))
	require.NoError(t, add(s, recordOf(0)), "there is room again")
	big := recordOf(0)
	big.Account = strings.Repeat("x", small)
	require.ErrorIs(t, add(s, big), ErrFull)
}

// TestBatch: settlements that come at the same time stand one behind the other, as many as there is room for, and are
// synced once.
func TestBatch(t *testing.T) {
	t.Parallel()
	s, c := with(t, records(1))
	batch, made := make([]*appending, 30), make([]Record, 30)
	for i := range batch {
		r := recordOf(3 * i) // of one sector
		payload, err := r.encode(nil)
		require.NoError(t, err)
		require.LessOrEqual(t, len(payload), sectorData)
		batch[i], made[i] = &appending{payload: payload}, r
	}
	room := int(s.halves[0].to-s.halves[0].end) / sectorSize
	require.Less(t, room, len(batch))
	syncs := c.syncs
	rest := s.write(batch)
	require.Equal(t, batch[room:], rest, "what one half has no room for")
	require.Equal(t, syncs+1, c.syncs)
	require.Empty(t, s.write(rest))
	require.Equal(t, syncs+2, c.syncs)
	want := records(1)
	for i, a := range batch {
		require.NoError(t, a.err, i)
		want = append(want, made[i])
	}
	require.Len(t, c.files[where].now, small, "it does not grow")
	requireSame(t, want, waiting(t, s))
	requireSame(t, want, waiting(t, begin(t, c)))
}

// TestEmptyingIsOneSync: an applied spool costs nothing more than that.
func TestEmptyingIsOneSync(t *testing.T) {
	t.Parallel()
	s, c := with(t, records(5))
	syncs := c.syncs
	require.NoError(t, s.ReleaseBatch(s.Oldest(2)))
	require.Equal(t, syncs, c.syncs)
	require.NoError(t, s.ReleaseBatch(s.Oldest(9)))
	require.Equal(t, syncs+1, c.syncs)
	require.True(t, zero(c.files[where].now[firstRecord:]), "what is applied does not stay")
	require.Len(t, c.files[where].now, small, "and the file is no larger for it")
	require.NoError(t, s.ReleaseBatch(s.Oldest(9)))
	require.Equal(t, syncs+1, c.syncs, "there is nothing to empty")
	again := begin(t, c)
	require.Zero(t, again.Len())
	require.Zero(t, again.Torn())
}

// TestWhatCannotBeEncoded: a settlement that cannot be written down is not said to be kept.
func TestWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	s, c := with(t, records(1))
	r := recordOf(1)
	r.Time = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) // which JSON has no form for
	require.ErrorContains(t, add(s, r), r.Settlement.Request)
	_, _, err := s.Aside().Keep(Refused, "why", r, noon)
	require.ErrorContains(t, err, r.Settlement.Request)
	require.Empty(t, s.Aside().Items())
	requireSame(t, records(1), waiting(t, s))
	requireSame(t, records(1), waiting(t, begin(t, c)))
}

func TestForeignFiles(t *testing.T) {
	t.Parallel()
	newer := make([]byte, small)
	h := header{epoch: 1, count: 1, size: small}
	copy(newer[headerA:], h.sector(headerA))
	copy(newer[headerB:], h.sector(headerB))
	copy(newer[firstRecord:], appendSectors(nil, firstRecord, 1, 1, 0, []byte(`{"settlement":"of another kind"}`)))
	for name, content := range map[string][]byte{
		"another program's": bytes.Repeat([]byte("something else\n"), 1000),
		"empty":             {},
		"cut":               []byte(magic),
		"old and cut":       []byte(oldMagic),
		"newer":             newer,
	} {
		path := filepath.Join(t.TempDir(), "spool")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, err := Open(path, 0)
		require.ErrorIs(t, err, ErrForeign, name)
		_, _, err = Inspect(path)
		require.ErrorIs(t, err, ErrForeign, name)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, kept), name)
		left, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, left, 1, name)
	}
}

// unzipped is a committed file.
func unzipped(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	b, err := io.ReadAll(z)
	require.NoError(t, err)
	return b
}

// fixtures are the settlements of spool1.gz, which the last fareway made that wrote format 1.
func fixtures() []Record {
	var all []Record
	for i := 1; i <= 3; i++ {
		id := fmt.Sprintf("req_%032x", i)
		all = append(all, Record{Settlement: ledger.Settlement{Request: id, Status: 200, Reason: "ok",
			Results: []ledger.Result{
				{Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Finished,
					Usage: &llm.Usage{Input: llm.Count(100), Output: llm.Count(int64(i) * 10)}}}}})
	}
	return all
}

// records2 are those of spool2.gz.
func records2() []Record {
	all := records(5)
	for i := range all {
		all[i].Settlement.Reason = "ok" + strings.Repeat("!", i%3*200)
	}
	return all
}

// TestSecondFormat: a file of the fareway that wrote format 2 is read, damaged too, and becomes one of today.
func TestSecondFormat(t *testing.T) {
	t.Parallel()
	whole := unzipped(t, "testdata/spool2.gz")
	for _, damaged := range []int64{-1, 0, 2048} { // a header of two
		b := bytes.Clone(whole)
		if damaged >= 0 {
			b[damaged+3] ^= 1
		}
		c := holding(map[string][]byte{where: b})
		s := begin(t, c)
		requireSame(t, records2(), waiting(t, s))
		require.Equal(t, damaged >= 0, s.Aside().Undecided() > 0)
		require.NoError(t, add(s, recordOf(5)))
		requireSame(t, append(records2(), recordOf(5)), waiting(t, begin(t, c)))
		require.True(t, bytes.HasPrefix(c.files[where].now, []byte(magic)))
	}
}

// TestOldSpool: a file of the fareway before is read and becomes one of today.
func TestOldSpool(t *testing.T) {
	t.Parallel()
	whole, torn := unzipped(t, "testdata/spool1.gz"), unzipped(t, "testdata/spool1-torn.gz")
	t.Run("as it is", func(t *testing.T) {
		t.Parallel()
		c := holding(map[string][]byte{where: whole})
		s := begin(t, c)
		requireSame(t, fixtures(), waiting(t, s))
		require.Zero(t, s.Aside().Undecided())
		require.NoError(t, add(s, recordOf(1)))
		again := begin(t, c)
		requireSame(t, append(fixtures(), recordOf(1)), waiting(t, again))
		require.True(t, bytes.HasPrefix(c.files[where].now, []byte(magic)))
	})
	t.Run("with a torn end", func(t *testing.T) {
		t.Parallel()
		s := begin(t, holding(map[string][]byte{where: torn}))
		requireSame(t, fixtures()[:2], waiting(t, s))
		items := s.Aside().Items()
		require.Len(t, items, 1)
		require.Equal(t, Damaged, items[0].Kind)
		require.Equal(t, []string{fixtures()[2].Settlement.Request}, items[0].Damage.Requests)
	})
	t.Run("that ends with its last record", func(t *testing.T) {
		t.Parallel()
		f, err := scan(bytes.TrimRight(whole, "\x00"), boot{1})
		require.NoError(t, err)
		requireSame(t, fixtures(), f.records)
		require.Empty(t, f.damages)
	})
	t.Run("with a record of nothing", func(t *testing.T) {
		t.Parallel()
		b, sum := bytes.Clone(whole[:firstRecord]), uint32(0)
		add := func(payload []byte) {
			sum = oldChecksum(sum, payload)
			b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
			b = append(binary.LittleEndian.AppendUint32(b, sum), payload...)
		}
		for i, r := range fixtures() {
			if i == 1 {
				add(nil)
			}
			payload, err := json.Marshal(r.Settlement)
			require.NoError(t, err)
			add(payload)
		}
		f, err := scan(b, boot{1})
		require.NoError(t, err, "no newer fareway wrote it")
		requireSame(t, []Record{fixtures()[0], fixtures()[2]}, f.records, "nothing proves the one behind it")
		require.Len(t, f.damages, 1)
		require.Equal(t, []string{fixtures()[1].Settlement.Request}, f.damages[0].Requests)
	})
	t.Run("with a byte more between two", func(t *testing.T) {
		t.Parallel()
		second := firstRecord + oldHead + bytes.Index(whole[firstRecord+oldHead+1:], []byte(oldBeginning)) + 1 - oldHead
		f, err := scan(slices.Insert(bytes.Clone(whole), second, 'x'), boot{1})
		require.NoError(t, err)
		requireSame(t, []Record{fixtures()[0], fixtures()[2]}, f.records)
		require.Len(t, f.damages, 1)
		require.EqualValues(t, second, f.damages[0].Offset)
	})
	t.Run("with a first page that is damaged", func(t *testing.T) {
		t.Parallel()
		for _, at := range []int{len(oldMagic), firstRecord - 1} {
			b := bytes.Clone(whole)
			b[at] = 'x'
			f, err := scan(b, boot{1})
			require.NoError(t, err)
			requireSame(t, fixtures(), f.records)
			require.Len(t, f.damages, 1)
			require.EqualValues(t, len(oldMagic), f.damages[0].Offset)
			require.Len(t, f.damages[0].Bytes, at+1-len(oldMagic))
		}
	})
	t.Run("with damage", func(t *testing.T) {
		t.Parallel()
		end := len(bytes.TrimRight(whole, "\x00"))
		for at := firstRecord; at < end; at++ {
			b := bytes.Clone(whole[:end+100])
			b[at] ^= 0x10
			f, err := scan(b, boot{1})
			require.NoError(t, err)
			require.NotEmpty(t, f.damages, "byte %d", at)
			require.GreaterOrEqual(t, len(f.records), 1, "byte %d", at)
			for _, r := range f.records {
				require.Contains(t, fixtures(), r, "byte %d", at)
			}
			if within := at - firstRecord - oldHead; within >= 0 && within < 100 {
				requireSame(t, fixtures()[1:], f.records, "what is behind a damaged record is there: byte %d", at)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	s, err := open(machine{}, filepath.Join(b.TempDir(), "spool"), 512<<20)
	require.NoError(b, err)
	b.ResetTimer()
	x := recordOf(0)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := add(s, x); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(s.halves[0].end-firstRecord)/float64(s.Len()), "bytes/settlement")
	require.NoError(b, s.Close())
}

// TestEpochsLast: whoever comes alone, again and again, uses up no epoch for himself: their number is bounded.
func TestEpochsLast(t *testing.T) {
	t.Parallel()
	s, _ := with(t, nil)
	const requests = 1000
	for range requests {
		n, err := s.Append(new(recordOf(0)))
		require.NoError(t, err)
		s.Release(0, n)
	}
	epoch := max(s.halves[0].header.epoch, s.halves[1].header.epoch)
	require.Less(t, int(epoch), requests/5)
	require.Greater(t, int(epoch), 2, "and it goes round")
}
