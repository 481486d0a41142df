package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestPruneInBatches(t *testing.T) {
	t.Parallel()
	const charges = 4 * pruneBatch
	path := filepath.Join(t.TempDir(), "fareway.db")
	prefill(t, path, 10, charges)
	s := newScene(t, path)
	before, err := s.store.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, before.OK, "%s: %s", before.Entry, before.Problem)
	s.now = fillStart.AddDate(0, 1, 0)

	// The requests are ten a second and take a second: those that were settled in the first minute are 590.
	minute := fillStart.Add(time.Minute)
	n, err := s.store.Prune(ledger.WithActor(t.Context(), "mary"), minute)
	require.NoError(t, err)
	require.EqualValues(t, 590, n)
	r, err := s.store.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.EqualValues(t, charges-n, r.Requests)
	require.Equal(t, before.Entries, r.Entries)
	require.Equal(t, before.Sums, r.Sums)

	n, err = s.store.Prune(t.Context(), minute)
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = s.store.Prune(t.Context(), time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.EqualValues(t, charges-590, n)
	r, err = s.store.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.Zero(t, r.Requests)

	var acts []ledger.Act
	require.NoError(t, s.store.Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
		acts = append(acts, a)
		return nil
	}))
	require.Len(t, acts, 2, "one for each time that the bound moved")
	require.Equal(t, ledger.Act{
		Seq: 1, Format: 2, Created: s.now, Actor: "mary", Action: "ledger.prune",
		After: `{"settled_before":"2026-01-01T00:01:00Z"}`,
	}, acts[0])
	require.Equal(t, acts[0].After, acts[1].Before)
	require.Equal(t, "gateway", acts[1].Actor)
}
