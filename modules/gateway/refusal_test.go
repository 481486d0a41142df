package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Whoever opens many requests and leaves must not fill the log with failures of the ledger.
func TestLedgerErrorIsLoggedUnlessTheClientLeft(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	var log bytes.Buffer
	e.SetLogger(slog.New(slog.NewTextHandler(&log, nil)))
	call := &Call{ID: "req_1", Work: e.Begin()}
	defer call.Work.Done()
	for cause, logged := range map[error]bool{context.Canceled: false, context.DeadlineExceeded: true} {
		log.Reset()
		refusal := call.LedgerError("placing a hold", fmt.Errorf("waiting: %w: %w", ledger.ErrUnavailable, cause))
		require.Equal(t, 503, refusal.Status)
		require.Equal(t, logged, bytes.Contains(log.Bytes(), []byte("placing a hold")), "%s", cause)
	}
}
