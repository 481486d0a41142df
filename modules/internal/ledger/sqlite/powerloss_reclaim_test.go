package sqlite

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

// TestPowerLossInReclaim (GAP-133): the power fails at any moment of a start that writes the file anew, and the next
// start finds every row and writes the file anew once more, or finds that done.
func TestPowerLossInReclaim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "fareway.db")
	prefill(t, path, 10, 5_200)
	s := openStore(t, func(o *Options) { o.Path = path })
	_, err := s.Prune(t.Context(), fillStart.AddDate(0, 0, 1))
	require.NoError(t, err)
	r, err := s.Verify(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	require.NoError(t, err)
	require.NoError(t, run(conn, `BEGIN`, nil))
	p, err := readPages(conn)
	require.NoError(t, err)
	require.True(t, p.worth(), "%+v", p)
	require.NoError(t, conn.Close())
	before := image{}
	for _, suffix := range []string{"", ".witness"} {
		before["fareway.db"+suffix], err = os.ReadFile(path + suffix)
		require.NoError(t, err)
	}

	d := &disk{}
	t.Cleanup(watch(dir, d))
	s = openStore(t, func(o *Options) { o.Path = path })
	require.True(t, pagesOf(t, s).incremental)
	recorded := recording{events: slices.Clone(d.events)}
	require.NoError(t, s.Close())

	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 3))
	platter, at := newPlatter(), 0
	platter.sure, platter.all = before.clone(), before.clone()
	points := recorded.points()
	require.Greater(t, len(points), 4)
	looked := 0
	for at <= len(recorded.events) {
		var some []loss
		switch {
		case slices.Contains(points, at):
			some = losses // most is pending right before a sync
		case random.IntN(len(recorded.events)) < 25/powerLossStep:
			some = []loss{losses[1+random.IntN(len(losses)-1)]}
		}
		for _, l := range some {
			looked++
			reopened(t, platter.after(l, random), r.Sums, "seed %d: before event %d of %d, %s", seed, at,
				len(recorded.events), l.name)
		}
		if at < len(recorded.events) {
			platter.apply(recorded.events[at])
		}
		at++
	}
	t.Logf("the power failed %d times in %d events with %d syncs", looked, len(recorded.events), len(points)-1)
}

// reopened starts on what a disk holds, and verifies it.
func reopened(t *testing.T, i image, sums map[string]int64, when ...any) {
	dir := t.TempDir()
	defer func() { require.NoError(t, os.RemoveAll(dir)) }() // now, for there are many
	require.NoError(t, i.save(dir))
	defer watch(dir, &disk{volatile: true})()
	s, err := Open(Options{Path: filepath.Join(dir, "fareway.db"), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err, when...)
	defer func() { require.NoError(t, s.Close()) }()
	require.Nil(t, s.Loss(), when...)
	require.True(t, pagesOf(t, s).incremental, when...)
	report, err := s.Verify(t.Context())
	require.NoError(t, err, when...)
	require.Equal(t, []any{true, true, ""}, okOf(report), when...)
	require.Equal(t, sums, report.Sums, when...)
}
