package sqlite_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

func TestStore(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB, o ledgertest.Options) ledger.Store {
		s, err := sqlite.Open(sqlite.Options{
			Path:   filepath.Join(o.Dir, "fareway.db"),
			BootID: o.BootID,
			Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		return s
	})
}
