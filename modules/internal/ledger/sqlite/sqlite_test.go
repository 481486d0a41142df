package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, openSuite)
}

// openSuite opens a store for the suite.
func openSuite(t testing.TB, o ledgertest.Options) ledger.Store {
	s, err := Open(Options{Path: filepath.Join(o.Dir, "fareway.db"), BootID: o.BootID, Now: o.Now, Terms: o.Terms,
		Logger: quiet, WaitTimeout: time.Minute}) // a busy machine's disk may take its time
	require.NoError(t, err)
	return s
}
