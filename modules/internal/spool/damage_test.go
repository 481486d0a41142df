package spool

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// span is where a record of a spool is, in bytes.
type span struct{ from, to int64 }

// places are where records are in a spool that had no others.
func places(all []Record) (list []span) {
	at, turn := int64(firstRecord), firstRecord+(middle(small)-firstRecord)/2
	for i := range all {
		payload, _ := all[i].encode(nil)
		if at >= turn && at < middle(small) {
			at = middle(small)
		}
		list = append(list, span{at, at + sectorsFor(payload)*sectorSize})
		at = list[i].to
	}
	return list
}

// requireFound opens a damaged spool: of its records those that are untouched are there in their order, each once,
// and the damage is reported once, also after another start.
func requireFound(t require.TestingT, all []Record, touched func(from, to int64) bool, content []byte, about string) {
	at := places(all)
	var want []Record
	for i := range all {
		if !touched(at[i].from, at[i].to) {
			want = append(want, all[i])
		}
	}
	c := holding(map[string][]byte{where: content})
	s := begin(t, c)
	requireSame(t, want, waiting(t, s), about)
	items := s.Aside().Items()
	require.NotEmpty(t, items, about)
	var lost int64
	for _, i := range items {
		require.Equal(t, Damaged, i.Kind)
		require.Equal(t, where, i.Damage.File)
		require.NotEmpty(t, i.Why)
		lost += i.Damage.Lost
	}
	require.EqualValues(t, len(all)-len(want), lost, about)
	require.NoError(t, add(s, recordOf(99)), about)
	again := begin(t, c)
	requireSame(t, append(want, recordOf(99)), waiting(t, again), about)
	require.Equal(t, items, again.Aside().Items(), about)
}

// TestAnyBit turns a bit in the bytes of a spool's used part, one at a time.
func TestAnyBit(t *testing.T) {
	t.Parallel()
	all := records(5)
	_, c := with(t, all)
	whole := c.files[where].now
	used := places(all)[len(all)-1].to
	random := rand.New(rand.NewPCG(1, 2))
	for at := int64(0); at < used+sectorSize; at++ {
		if at%sectorSize > 64 && at%13 != 0 {
			continue // the heads of sectors bit for bit, of the rest some
		}
		b := bytes.Clone(whole)
		b[at] ^= 1 << random.IntN(8)
		requireFound(t, all, func(from, to int64) bool { return from <= at && at < to }, b, fmt.Sprint("byte ", at))
	}
}

// TestTheOtherMagic: a header that is damaged into the beginning of the format of before takes nothing with it.
func TestTheOtherMagic(t *testing.T) {
	t.Parallel()
	all := records(5)
	_, c := with(t, all)
	b := bytes.Clone(c.files[where].now)
	copy(b, oldMagic)
	none := func(int64, int64) bool { return false }
	requireFound(t, all, none, b, "one header")
	copy(b[headerB:], "no header")
	requireFound(t, all, none, b, "both headers")
}

// TestAnySector overwrites every sector with zeros, with chance, with ones, and with each of the others.
func TestAnySector(t *testing.T) {
	t.Parallel()
	all := records(5)
	_, c := with(t, all)
	whole := c.files[where].now
	used := places(all)[len(all)-1].to
	chance := make([]byte, sectorSize)
	for i := range chance {
		chance[i] = byte(rand.Uint32())
	}
	with := map[string][]byte{"zeros": make([]byte, sectorSize), "chance": chance,
		"ones": bytes.Repeat([]byte{255}, sectorSize)}
	for at := int64(0); at < used; at += sectorSize {
		with[fmt.Sprint("the sector at ", at)] = whole[at : at+sectorSize]
	}
	for at := int64(0); at < used+sectorSize; at += sectorSize {
		for name, sector := range with {
			if bytes.Equal(sector, whole[at:at+sectorSize]) {
				continue
			}
			b := bytes.Clone(whole)
			copy(b[at:], sector)
			requireFound(t, all, func(from, to int64) bool { return from <= at && at < to }, b, fmt.Sprint(name, " at ", at))
		}
	}
}

// TestAnyCut cuts the file anywhere. Without a header nobody can know whether it is a spool.
func TestAnyCut(t *testing.T) {
	t.Parallel()
	all := records(5)
	_, c := with(t, all)
	whole := c.files[where].now
	for length := int64(0); length < small; length++ {
		b := whole[:length]
		// Where the header's numbers end. Zeros at their end are as good as they were.
		if length < 56 && len(bytes.TrimRight(whole[length:56], "\x00")) > 0 {
			_, err := open(holding(map[string][]byte{where: b}), where, small)
			require.ErrorIs(t, err, ErrForeign)
			continue
		}
		if length > 100 && length%41 > 0 && length%sectorSize > 0 {
			continue
		}
		requireFound(t, all, func(from, to int64) bool {
			text := bytes.TrimRight(whole[from:to], "\x00") // zeros behind it are as good as they were
			return from+int64(len(text)) > length
		}, b, fmt.Sprint("cut at ", length))
	}
}

// TestAnyDamage damages several places at once, headers too. Whatever is left is found, and nothing is made up.
func TestAnyDamage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := records(rapid.IntRange(1, 8).Draw(t, "records"))
		_, c := with(t, all)
		b := bytes.Clone(c.files[where].now)
		var hit []int64
		for range rapid.IntRange(1, 4).Draw(t, "damages") {
			at := rapid.Int64Range(0, small/sectorSize-1).Draw(t, "sector") * sectorSize
			for range rapid.IntRange(1, 20).Draw(t, "bytes") {
				b[at+rapid.Int64Range(0, sectorSize-1).Draw(t, "byte")] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
			}
			if !bytes.Equal(b[at:at+sectorSize], c.files[where].now[at:at+sectorSize]) {
				hit = append(hit, at)
			}
		}
		if len(hit) == 0 {
			t.Skip("it is as it was")
		}
		places := places(all)
		var want []Record
		for i := range all {
			if !slices.ContainsFunc(hit, func(at int64) bool { return places[i].from <= at && at < places[i].to }) {
				want = append(want, all[i])
			}
		}
		s, err := open(holding(map[string][]byte{where: b}), where, small)
		if err != nil {
			require.ErrorIs(t, err, ErrForeign)
			require.Empty(t, want)
			require.Subset(t, hit, slices.Concat(headers[0][:], headers[1][:]))
			return
		}
		requireSame(t, want, waiting(t, s))
		require.NotZero(t, s.Aside().Undecided())
	})
}

// TestStaleRecords: what is left of earlier epochs is nothing, and no damage.
func TestStaleRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, c := with(t, nil)
		for range rapid.IntRange(1, 5).Draw(t, "epochs") {
			for n := range rapid.IntRange(1, 8).Draw(t, "records") {
				require.NoError(t, add(s, recordOf(n)))
			}
			require.NoError(t, s.ReleaseBatch(s.Oldest(100)))
		}
		last := records(rapid.IntRange(0, 4).Draw(t, "last"))
		for _, r := range last {
			require.NoError(t, add(s, r))
		}
		again := begin(t, c)
		requireSame(t, last, waiting(t, again))
		require.Zero(t, again.Aside().Undecided())
		require.Zero(t, again.Torn())
	})
}

// TestPowerLoss takes the power away before each operation of a run, with any part of what was not sure on the disk:
// what Append has returned for is there, or was applied. Damage is of what was being written, and nothing else.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	old := unzipped(t, "testdata/spool1-torn.gz")[:firstRecord+2*sectorSize]
	for name, start := range map[string]map[string][]byte{"none": nil, "old": {where: old}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				c := holding(start)
				c.left = rapid.IntRange(0, 40).Draw(t, "operations")
				var sure, tried []Record
				var before []Item
				applied := 0
				if start != nil {
					sure = fixtures()[:2]
				}
				s, err := open(c, where, small)
				for err == nil && c.left != 0 {
					before = s.Aside().Items()
					if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
						batch := s.Oldest(3)
						applied += len(batch.Records)
						err = s.ReleaseBatch(batch)
						continue
					}
					var batch []*appending
					for range rapid.IntRange(1, 3).Draw(t, "together") {
						r := recordOf(len(tried))
						payload, err := r.encode(nil)
						require.NoError(t, err)
						tried, batch = append(tried, r), append(batch, &appending{payload: payload})
					}
					for rest := batch; len(rest) > 0; {
						rest = s.write(rest)
					}
					for i, a := range batch {
						if a.err == nil {
							sure = append(sure, tried[len(tried)-len(batch)+i])
						}
					}
				}
				after := c.after(t)
				s = begin(t, after)
				got := waiting(t, s)
				for _, r := range got {
					require.True(t, slices.ContainsFunc(append(fixtures(), tried...), func(o Record) bool {
						return o.Settlement.Request == r.Settlement.Request
					}))
				}
				for _, r := range sure[min(applied, len(sure)):] {
					require.Contains(t, got, r, "it was acknowledged and not applied")
				}
				fresh := s.Aside().Undecided() - int64(len(before))
				if start == nil {
					require.Zero(t, fresh, "what was being written is no damage")
				}
				if start != nil {
					require.NotZero(t, s.Aside().Undecided(), "what was torn is reported by whoever comes next")
				}
				want := slices.Clone(got)
				if err := add(s, recordOf(77)); err == nil {
					want = append(want, recordOf(77))
				} else {
					require.ErrorIs(t, err, ErrFull)
				}
				requireSame(t, want, waiting(t, begin(t, after)))
			})
		})
	}
}

// TestTornFirst: the same of the first record after the spool was emptied and its header could not be written.
func TestTornFirst(t *testing.T) {
	t.Parallel()
	s, c := with(t, records(3))
	c.broken, c.stuck = true, true
	require.Error(t, s.ReleaseBatch(s.Oldest(3)))
	r := recordOf(2)
	payload, err := r.encode(nil)
	require.NoError(t, err)
	b := appendSectors(nil, firstRecord, 2, 1, 1, payload)
	require.Greater(t, len(b), 2*sectorSize)
	copy(c.files[where].now[firstRecord:], b[:2*sectorSize])
	c.broken, c.stuck = false, false
	torn := begin(t, c)
	require.Zero(t, torn.Len(), "what is of the epoch before was applied")
	require.Zero(t, torn.Aside().Undecided())
	require.Positive(t, torn.Torn())
	require.NoError(t, add(torn, recordOf(4)))
	requireSame(t, []Record{recordOf(4)}, waiting(t, begin(t, c)))
}

// TestTornTail: a process that dies while it writes leaves what was not acknowledged. That is no damage.
func TestTornTail(t *testing.T) {
	t.Parallel()
	s, c := with(t, records(2))
	payload, err := func() ([]byte, error) { r := recordOf(2); return r.encode(nil) }()
	require.NoError(t, err)
	b := appendSectors(nil, s.halves[0].end, 1, 3, 1, payload)
	require.Len(t, b, 3*sectorSize)
	copy(c.files[where].now[s.halves[0].end:], b[:2*sectorSize])
	torn := begin(t, c)
	requireSame(t, records(2), waiting(t, torn))
	require.EqualValues(t, 2*sectorSize, torn.Torn())
	require.Zero(t, torn.Aside().Undecided())
	require.NoError(t, add(torn, recordOf(3)), "of one sector")
	again := begin(t, c)
	requireSame(t, append(records(2), recordOf(3)), waiting(t, again))
	require.Zero(t, again.Torn(), "what was torn is gone")

	copy(c.files[where].now[again.halves[0].end:], appendSectors(nil, again.halves[0].end, 1, 4, 1, []byte(`{}`)))
	require.EqualValues(t, 4, begin(t, c).Len(), "one that is whole may count")
}

// TestHeaderBehind: a power cut leaves the header of long before, and the records say which were there before them.
// One of those that is gone is missed, and one that was being written is not.
func TestHeaderBehind(t *testing.T) {
	t.Parallel()
	all := records(6)
	var batch []*appending
	for i := range all[4:] {
		payload, err := all[4+i].encode(nil)
		require.NoError(t, err)
		batch = append(batch, &appending{payload: payload})
	}
	s, c := with(t, all[:4])
	require.Empty(t, s.write(batch))
	cut := c.files[where].after(func(int) bool { return false })
	at := places(all)
	for gone := range all {
		b := bytes.Clone(cut)
		clear(b[at[gone].from:at[gone].to])
		again := begin(t, c.next(map[string][]byte{where: b}))
		requireSame(t, slices.Delete(slices.Clone(all), gone, gone+1), waiting(t, again))
		items := again.Aside().Items()
		if gone >= 4 { // nobody can know whether their write had ended
			require.Empty(t, items)
			continue
		}
		require.Len(t, items, 1)
		require.EqualValues(t, 1, items[0].Damage.Lost)
	}
}

// TestSyncedBehind: where records are synced behind, a power cut may leave any of them, and that is no damage.
func TestSyncedBehind(t *testing.T) {
	t.Parallel()
	all := records(4)
	s, c := with(t, nil)
	s.SyncBehind()
	for _, r := range all {
		require.NoError(t, add(s, r))
	}
	b := c.files[where].sure
	require.True(t, zero(b[firstRecord:]), "nothing of them is sure")
	for i, at := range places(all) {
		if i%2 == 1 {
			copy(b[at.from:at.to], c.files[where].now[at.from:])
		}
	}
	again := begin(t, c.next(map[string][]byte{where: b}))
	requireSame(t, []Record{all[1], all[3]}, waiting(t, again))
	require.Empty(t, again.Aside().Items())
}
