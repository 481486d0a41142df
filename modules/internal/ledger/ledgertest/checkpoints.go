package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func testCheckpoints(t *testing.T, open Open) {
	f := newFixture(t, open, 0, ledger.Terms{})
	ctx := soon(t)
	require.Empty(t, f.checkpoints())
	f.topUp(5)
	first := f.account
	for range 5 { // so many that the order of their ids is not that of their making
		f.newAccount(1)
	}
	f.newAccount(7)
	second := f.account

	one, err := f.store.MakeCheckpoint(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, one.N)
	require.EqualValues(t, 7, one.Entries)
	require.True(t, one.Created.Equal(f.clock.now()))
	require.Zero(t, one.Prev)
	require.EqualValues(t, len(f.acts(ledger.Query{})), one.Acts)

	t.Run("nothing new makes no checkpoint", func(t *testing.T) {
		f.clock.add(time.Hour)
		h := f.hold("unit", 5)
		again, err := f.store.MakeCheckpoint(ctx)
		require.NoError(t, err)
		require.Equal(t, one, again)
		require.Equal(t, []ledger.Checkpoint{one}, f.checkpoints())
		f.settle(ok(h, usage(0, 5)))
	})

	f.charge(20)
	two, err := f.store.MakeCheckpoint(ctx)
	require.NoError(t, err)
	f.account, f.key = first, f.keys(first.ID)[0]
	f.charge(30)
	f.account, f.key = second, f.keys(second.ID)[0]
	f.charge(40)
	f.restart()
	three, err := f.store.MakeCheckpoint(ctx)
	require.NoError(t, err)
	_, err = f.store.RenameAccount(ctx, first.ID, "renamed")
	require.NoError(t, err)
	four, err := f.store.MakeCheckpoint(ctx)
	require.NoError(t, err)
	require.Equal(t, []int64{4, three.Entries, three.Acts + 1}, []int64{four.N, four.Entries, four.Acts},
		"an act alone makes one, too")
	t.Run("the newest first, and so many", func(t *testing.T) {
		for _, c := range []struct {
			before int64
			most   int
			want   []ledger.Checkpoint
		}{{0, 2, []ledger.Checkpoint{four, three}}, {3, 5, []ledger.Checkpoint{two, one}}, {1, 5, nil}} {
			var got []ledger.Checkpoint
			require.NoError(t, f.store.LatestCheckpoints(ctx, c.before, c.most, func(c ledger.Checkpoint) error {
				got = append(got, c)
				return nil
			}))
			require.Equal(t, c.want, got)
		}
	})
	f.charge(50)
	every, acts := f.entries(ledger.Query{}), f.acts(ledger.Query{})

	t.Run("a checkpoint is made of the heads that moved", func(t *testing.T) {
		prev, from, since := ledger.Checkpoint{}, int64(0), int64(0)
		for _, c := range []ledger.Checkpoint{one, two, three, four} {
			heads := map[string]ledger.Entry{}
			for _, e := range every[from:c.Entries] {
				heads[e.Account] = e
			}
			var h ledger.Heads
			for _, account := range sortedKeys(heads) {
				h.Add(account, heads[account].Seq, heads[account].Hash())
			}
			last := map[string]ledger.Act{}
			for _, a := range acts[since:c.Acts] {
				last[a.Account] = a
			}
			var trail ledger.Heads
			for _, account := range sortedKeys(last) {
				trail.Add(account, last[account].Seq, last[account].Hash())
			}
			want := h.Seal(ledger.Checkpoint{Format: 3, N: prev.N + 1, Entries: c.Entries, Acts: c.Acts, Trail: trail.Sum(),
				Created: c.Created, Prev: prev.Hash})
			require.Equal(t, want, c)
			prev, from, since = c, c.Entries, c.Acts
		}
		require.Equal(t, []int64{7, 9, 11}, []int64{one.Entries, two.Entries, three.Entries})
		require.Equal(t, []ledger.Checkpoint{one, two, three, four}, f.checkpoints())
	})

	t.Run("checkpoints that were kept elsewhere are looked for", func(t *testing.T) {
		require.EqualValues(t, 4, f.verify(one, two, three, four).Checkpoints)
		require.EqualValues(t, 4, f.verify(two).Checkpoints)
		for name, change := range map[string]func(*ledger.Checkpoint){
			"hash":            func(c *ledger.Checkpoint) { c.Hash[5]++ },
			"entries":         func(c *ledger.Checkpoint) { c.Entries++ },
			"acts":            func(c *ledger.Checkpoint) { c.Acts++ },
			"trail":           func(c *ledger.Checkpoint) { c.Trail[5]++ },
			"number":          func(c *ledger.Checkpoint) { c.N++ },
			"future":          func(c *ledger.Checkpoint) { c.N, c.Entries = 9, 90 },
			"before anything": func(c *ledger.Checkpoint) { c.N, c.Entries = 0, 0 },
		} {
			kept := two
			change(&kept)
			r, err := f.store.Verify(ctx, one, kept)
			require.NoError(t, err)
			require.False(t, r.OK, name)
			require.NotEmpty(t, r.Problem, name)
		}
	})
}
