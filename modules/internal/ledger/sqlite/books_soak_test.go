//go:build linux && soak

package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestSoakBooks reads a ledger of a million accounts and ten million requests, and says how long that takes and how
// much memory. It needs 8 GB on the disk, and most of its time for writing them.
func TestSoakBooks(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const (
		accounts, charges = 1_000_000, 10_000_000
		most              = 128 << 20 // bytes that a reading may take, whatever the size of the ledger
	)
	path := filepath.Join(t.TempDir(), "fareway.db")
	start := time.Now()
	prefill(t, path, accounts, charges)
	info, err := os.Stat(path)
	require.NoError(t, err)
	t.Logf("%d MB written in %s", info.Size()>>20, time.Since(start).Round(time.Second))
	start = time.Now()
	s, err := Open(Options{Path: path})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	t.Logf("opened in %s", time.Since(start).Round(time.Millisecond))

	all := append(readings(accounts, charges),
		reading{"the first checkpoint", func(ctx context.Context, _ ledger.Books) (int64, error) {
			c, err := s.MakeCheckpoint(ctx)
			return c.Entries, err
		}},
		reading{"pruning a hundredth", func(ctx context.Context, _ ledger.Books) (int64, error) {
			return s.Prune(ctx, fillStart.Add(charges/100*100*time.Millisecond))
		}},
		readings(accounts, charges)[0],
	)
	for _, r := range all {
		debug.FreeOSMemory()
		before := anonymous(t)
		watch := watchMemory(t)
		start, used := time.Now(), cpu(t)
		rows, err := r.read(t.Context(), s)
		require.NoError(t, err)
		took, busy := time.Since(start), cpu(t)-used
		more := watch() - before
		t.Logf("%-24s %9d rows in %7s: %8.0f rows/s, %6.2f us of CPU each, %d MB more",
			r.name, rows, took.Round(time.Millisecond), float64(rows)/took.Seconds(), busy*1e6/float64(rows), more>>20)
		require.Less(t, more, int64(most), r.name)
	}
}

// watchMemory looks at the memory of the process ten times a second, and returns what was the most.
func watchMemory(t *testing.T) (stop func() (most int64)) {
	ended, result := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		most := anonymous(t)
		for {
			select {
			case <-tick.C:
				most = max(most, anonymous(t))
			case <-ended:
				result <- max(most, anonymous(t))
				return
			}
		}
	}()
	return func() int64 {
		close(ended)
		return <-result
	}
}

// anonymous is what the process has that is not in a file, in bytes: SQLite maps the temporary files of a sort, which
// the system takes back when it needs the room.
func anonymous(t *testing.T) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Errorf("reading the memory of the process: %v", err)
		return 0
	}
	found := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Error("the memory of the process is unknown")
		return 0
	}
	n, _ := strconv.ParseInt(string(found[1]), 10, 64) // digits
	return n << 10
}
