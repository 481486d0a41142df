package sqlite

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

func TestFileLease(t *testing.T) {
	t.Parallel()
	ledgertest.RunLease(t, func(t *testing.T) ledgertest.LeaseCase {
		path := filepath.Join(t.TempDir(), "fareway.db")
		return ledgertest.LeaseCase{Process: func() ledger.Lease { return newFileLease(path) }}
	})
}

// The file says who has it; one that an older fareway wrote, or that a crash cut off, has no generation.
func TestFileLeaseOverWhatIsThere(t *testing.T) {
	t.Parallel()
	for text, generation := range map[string]int64{
		"": 1, "12 OLD\n": 1, "12 OLD 7\n": 8, "12 OLD 7\nleft from a longer line": 8, "12 OLD x\n": 1,
	} {
		path := filepath.Join(t.TempDir(), "fareway.db")
		require.NoError(t, os.WriteFile(path+".lock", []byte(text), 0o600))
		g, err := newFileLease(path).Acquire("ME")
		require.NoError(t, err)
		require.Equal(t, generation, g.Generation, text)
		is, err := os.ReadFile(path + ".lock")
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(os.Getpid())+" ME "+strconv.FormatInt(generation, 10)+"\n", string(is))
		_, err = newFileLease(path).Acquire("YOU")
		require.ErrorContains(t, err,
			"ledger in use: process "+strconv.Itoa(os.Getpid())+" has "+path+".lock; stop it first")
	}
}
