package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestPing: readiness knows of the store.
func TestPing(t *testing.T) {
	t.Parallel()
	away := func(t *testing.T, p *till, why ...any) {
		t.Helper()
		require.ErrorIs(t, p.Ping(t.Context()), ledger.ErrUnavailable, why...)
	}
	t.Run("a ledger that is there", func(t *testing.T) {
		t.Parallel()
		p := newTill(t, nil)
		before := p.releases()
		for range 3 {
			require.NoError(t, p.Ping(t.Context()))
		}
		require.Equal(t, before, p.releases(), "it writes nothing")
		require.NoError(t, p.Close())
		away(t, p, "it is closed")
	})
	t.Run("another program has it", func(t *testing.T) {
		t.Parallel()
		p := newTill(t, unhurried)
		other, err := sqlite.OpenConn(p.opts.Path, sqlite.OpenReadWrite)
		require.NoError(t, err)
		require.NoError(t, run(other, `BEGIN IMMEDIATE`, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err = p.Ping(ctx)
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody waits longer than he said")
		patient := p.impatient()
		away(t, p)
		patient()
		require.NoError(t, run(other, `ROLLBACK`, nil))
		require.NoError(t, other.Close())
		require.Eventually(t, func() bool { return p.Ping(t.Context()) == nil }, eventually, time.Millisecond)
	})
	bubble(t, "a disk that does not answer", func(t *testing.T) {
		p := newTill(t, nil)
		release := p.stuck()
		defer release()
		require.ErrorIs(t, p.hold("r1"), ledger.ErrUnavailable)
		away(t, p)
		release()
		require.Eventually(t, func() bool { return p.Ping(t.Context()) == nil }, eventually, time.Millisecond)
	})
	t.Run("a full disk, which can be read", func(t *testing.T) {
		t.Parallel()
		p := newTill(t, nil)
		p.setFault(func(k eventKind, _ string) int32 {
			if k == written {
				return lib.SQLITE_FULL
			}
			return lib.SQLITE_OK
		})
		require.ErrorIs(t, p.hold("r1"), ledger.ErrUnavailable)
		away(t, p)
		away(t, p)
		p.setFault(nil)
		require.NoError(t, p.Ping(t.Context()), "it is seen that there is room, though nobody else writes")
		require.Positive(t, p.releases())
		require.Eventually(t, func() bool { // the writer itself may still have something to tidy
			before := p.releases()
			return p.Ping(t.Context()) == nil && p.releases() == before
		}, eventually, time.Millisecond, "and no more is written")
		p.verified()
	})
}
