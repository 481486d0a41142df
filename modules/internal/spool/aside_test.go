package spool

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	noon  = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	aside = AsidePath(where)
)

func asideOf(t require.TestingT, c *computer) *Aside {
	a, err := openAside(c, aside)
	require.NoError(t, err)
	return a
}

// keep keeps a record aside that was not there before.
func keep(t require.TestingT, a *Aside, n int) Item {
	item, fresh, err := a.Keep(Refused, "the ledger refuses it", recordOf(n), noon)
	require.NoError(t, err)
	require.True(t, fresh)
	return item
}

func TestAside(t *testing.T) {
	t.Parallel()
	c := newComputer()
	a := asideOf(t, c)
	require.Empty(t, c.files, "there is no file before something is kept")
	first, second := keep(t, a, 1), keep(t, a, 2)
	require.Regexp(t, "^aside_[0-9a-f]{16}$", first.ID)
	require.NotEqual(t, first.ID, second.ID)
	again, fresh, err := a.Keep(Differs, "another reason", recordOf(1), noon.Add(time.Hour))
	require.NoError(t, err)
	require.False(t, fresh, "a restart finds it again")
	require.Equal(t, first, again)
	require.EqualValues(t, 2, a.Undecided())

	there := time.FixedZone("there", 3600) // all that is kept is in UTC, wherever an operator is
	d := Decision{ID: first.ID, Outcome: Applied, Time: noon.In(there), Actor: "mary", Reason: "it is right",
		Microcents: 7}
	require.NoError(t, a.Decide(d))
	require.ErrorIs(t, a.Decide(Decision{ID: first.ID, Outcome: Discarded}), ErrDecided)
	require.ErrorContains(t, a.Decide(d), "was applied by mary on 2026-11-22 12:00:00")
	require.ErrorIs(t, a.Decide(Decision{ID: "aside_0"}), ErrUnknown)
	require.EqualValues(t, 1, a.Undecided())

	require.Equal(t, noon, a.Items()[0].Decision.Time)

	other := asideOf(t, c)
	require.Equal(t, a.Items(), other.Items())
	require.EqualValues(t, 1, other.Undecided())
	found, err := other.Find(second.ID)
	require.NoError(t, err)
	require.Equal(t, second, found)
	_, err = other.Find(first.ID)
	require.ErrorIs(t, err, ErrDecided)
	third := keep(t, other, 3)
	require.NoError(t, other.Decide(Decision{ID: third.ID, Outcome: Discarded, Time: noon}))
	require.Len(t, asideOf(t, c).Items(), 3)
	require.NoError(t, other.Close())
	require.NoError(t, other.Close())
}

// TestAsideOfThisMachine: the file is its owner's only, and is read without a change.
func TestAsideOfThisMachine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "aside")
	items, err := ReadAside(path)
	require.NoError(t, err)
	require.Empty(t, items)
	a, err := openAside(machine{}, path)
	require.NoError(t, err)
	require.Equal(t, path, a.Path())
	item := keep(t, a, 1)
	require.NoError(t, a.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	items, err = ReadAside(path)
	require.NoError(t, err)
	require.Equal(t, []Item{item}, items)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// TestDamagedAside: every byte of the file counts. A line that cannot be read is something to decide about itself.
func TestDamagedAside(t *testing.T) {
	t.Parallel()
	c := newComputer()
	a := asideOf(t, c)
	first, second := keep(t, a, 1), keep(t, a, 2)
	require.NoError(t, a.Decide(Decision{ID: first.ID, Outcome: Discarded, Time: noon, Actor: "mary"}))
	whole := c.files[aside].now
	decisionAt := bytes.LastIndexByte(bytes.TrimSpace(whole), '\n') + 1
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 0x04
		damaged := asideOf(t, holding(map[string][]byte{aside: b}))
		require.NotZero(t, damaged.Undecided(), "byte %d", at)
		unreadable := 0
		for _, item := range damaged.Items() {
			if item.Damage != nil {
				unreadable++
				require.Equal(t, aside, item.Damage.File)
				require.NotEmpty(t, item.Damage.Bytes)
			}
		}
		require.NotZero(t, unreadable, "byte %d", at)
		if at >= decisionAt && at < len(whole)-1 {
			require.EqualValues(t, 3, damaged.Undecided(), "what was decided is to be decided again: byte %d", at)
		}
	}

	foreign := fmt.Appendf(bytes.Clone(whole), "%08x {}\n", crc32.Checksum([]byte("{}"), castagnoli))
	require.EqualValues(t, 2, asideOf(t, holding(map[string][]byte{aside: foreign})).Undecided(),
		"a line of a newer fareway")

	torn := holding(map[string][]byte{aside: whole[:len(whole)-10]})
	a = asideOf(t, torn)
	require.EqualValues(t, 3, a.Undecided())
	third := keep(t, a, 3)
	a = asideOf(t, torn)
	require.Len(t, a.Items(), 4, "what was torn stays a line of its own")
	for _, item := range a.Items() {
		if item.Damage != nil {
			require.NoError(t, a.Decide(Decision{ID: item.ID, Outcome: Discarded, Time: noon}))
		}
	}
	a = asideOf(t, torn)
	require.EqualValues(t, 3, a.Undecided())
	_, err := a.Find(third.ID)
	require.NoError(t, err)
	_, err = a.Find(second.ID)
	require.NoError(t, err)
}

// TestAsideOnABrokenDisk: what was not written is not there, and can be written later.
func TestAsideOnABrokenDisk(t *testing.T) {
	t.Parallel()
	for _, stuck := range []bool{true, false} {
		c := newComputer()
		a := asideOf(t, c)
		c.broken, c.stuck = true, stuck
		_, _, err := a.Keep(Refused, "", recordOf(1), noon)
		require.ErrorIs(t, err, errBroken)
		require.Empty(t, a.Items())
		c.broken, c.stuck = false, false
		item := keep(t, a, 1)
		c.broken, c.stuck = true, stuck
		require.ErrorIs(t, a.Decide(Decision{ID: item.ID, Outcome: Applied}), errBroken)
		require.EqualValues(t, 1, a.Undecided())
		c.broken, c.stuck = false, false
		require.NoError(t, a.Decide(Decision{ID: item.ID, Outcome: Applied}))
		require.Equal(t, a.Items(), asideOf(t, c).Items())
	}
}

// TestAsidePowerLoss: what Keep and Decide have returned for survives a loss of power.
func TestAsidePowerLoss(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newComputer()
		c.left = rapid.IntRange(0, 30).Draw(t, "operations")
		a := asideOf(t, c)
		var kept []Item
		decided := make(map[string]bool)
		for n := 0; c.left != 0; n++ {
			if len(kept) > 0 && rapid.Bool().Draw(t, "decide") {
				id := rapid.SampledFrom(kept).Draw(t, "item").ID
				if a.Decide(Decision{ID: id, Outcome: Applied, Time: noon}) == nil {
					decided[id] = true
				}
				continue
			}
			if item, _, err := a.Keep(Refused, "", recordOf(n), noon); err == nil {
				kept = append(kept, item)
			}
		}
		found := make(map[string]Item)
		for _, item := range asideOf(t, c.after(t)).Items() {
			found[item.ID] = item
		}
		for _, item := range kept {
			require.Contains(t, found, item.ID)
			require.False(t, decided[item.ID] && found[item.ID].Decision == nil)
		}
	})
}

// TestInspect tells of damage that nobody has kept aside yet, and changes nothing.
func TestInspect(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spool")
	waiting, damaged, err := Inspect(path)
	require.NoError(t, err)
	require.Empty(t, waiting)
	require.Empty(t, damaged)

	_, c := with(t, records(3))
	b := c.files[where].now
	b[firstRecord+100] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	for range 2 {
		waiting, damaged, err = Inspect(path)
		require.NoError(t, err)
		requireSame(t, records(3)[1:], waiting)
		require.Len(t, damaged, 1)
		require.Equal(t, path, damaged[0].Damage.File)
		require.EqualValues(t, 1, damaged[0].Damage.Lost)
		require.EqualValues(t, firstRecord, damaged[0].Damage.Offset)
		require.Equal(t, []string{"req_" + strings.Repeat("0", 32)}, damaged[0].Damage.Requests)
	}
	s, err := Open(path, 0)
	require.NoError(t, err)
	require.Equal(t, damaged, s.Aside().Items())
	require.NoError(t, s.Close())
	_, damaged, err = Inspect(path)
	require.NoError(t, err)
	require.Empty(t, damaged)
}

// TestInspectKnowsWhatIsKept: what was kept aside is not told a second time.
func TestInspectKnowsWhatIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spool")
	_, c := with(t, records(5))
	at := places(records(5))
	whole := c.files[where].now
	first := bytes.Clone(whole)
	first[at[1].from+100] ^= 1
	require.NoError(t, os.WriteFile(path, first, 0o600))
	s, err := Open(path, 0)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	both := bytes.Clone(first)
	both[at[3].from+100] ^= 1
	require.NoError(t, os.WriteFile(path, both, 0o600)) // of the file before: its first damage is the same
	_, damaged, err := Inspect(path)
	require.NoError(t, err)
	require.Len(t, damaged, 1)
	require.Equal(t, at[3].from, damaged[0].Damage.Offset)
}

// TestOpenFails: what cannot be read or written is an error that names the spool.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	for _, blocked := range []string{"spool", "spool.aside"} {
		path := filepath.Join(t.TempDir(), "spool")
		require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(path), blocked), 0o700))
		_, err := Open(path, 0)
		require.ErrorContains(t, err, "opening the spool "+path)
		_, _, err = Inspect(path)
		require.Equal(t, blocked == "spool", err != nil)
	}
	_, c := with(t, records(2))
	c.files[where].now[firstRecord] ^= 1
	c.broken = true
	_, err := open(c, where, small)
	require.ErrorIs(t, err, errBroken, "what is damaged is kept aside before it is removed")
	require.NotContains(t, c.files, aside)
	require.False(t, zero(c.files[where].now[firstRecord:firstRecord+sectorSize]))
}

// shut is a computer that opens no file for writing.
type shut struct{ *computer }

func (shut) Open(string) (disk, error) { return nil, errBroken }

// TestSpoolIsReadOnly: a spool that cannot be written is none.
func TestSpoolIsReadOnly(t *testing.T) {
	t.Parallel()
	_, c := with(t, records(1))
	_, err := open(shut{c}, where, small)
	require.ErrorIs(t, err, errBroken)
}

// TestAsideIsGone: somebody removed it while it was read.
func TestAsideIsGone(t *testing.T) {
	t.Parallel()
	c := newComputer()
	keep(t, asideOf(t, c), 1)
	a := asideOf(t, c)
	delete(c.files, aside)
	_, _, err := a.Keep(Refused, "", recordOf(2), noon)
	require.ErrorContains(t, err, "keeping the settlement of request")
	require.EqualValues(t, 1, a.Undecided())
}

// TestKeptAndNotYetRemoved: a gateway that died between the two reports a damage once.
func TestKeptAndNotYetRemoved(t *testing.T) {
	t.Parallel()
	_, c := with(t, records(3))
	b := bytes.Clone(c.files[where].now)
	b[firstRecord] ^= 1
	c = holding(map[string][]byte{where: b})
	begin(t, c)
	c.files[where] = &inode{now: bytes.Clone(b), sure: b}
	s := begin(t, c)
	require.EqualValues(t, 1, s.Aside().Undecided())
	require.EqualValues(t, 2, s.Len())
}
