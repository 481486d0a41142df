package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/fareway/fareway/modules/internal/engine/enginetest"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestLedgerError(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, nil)
	var log bytes.Buffer
	e.SetLogger(slog.New(slog.NewTextHandler(&log, nil)))
	call := &Call{ID: "req_1", Work: e.Begin()}
	defer call.Work.Done()
	waiting := func(cause error) error { return fmt.Errorf("waiting: %w: %w", ledger.ErrUnavailable, cause) }

	// Whoever opens many requests and leaves must not fill the log with failures of the ledger.
	require.PanicsWithValue(t, http.ErrAbortHandler,
		func() { _ = call.LedgerError("placing a hold", waiting(context.Canceled)) })
	require.Equal(t, ReasonLeft, call.Record.Reason)
	require.Empty(t, log.String())

	require.Equal(t, 503, call.LedgerError("placing a hold", waiting(context.DeadlineExceeded)).Status)
	require.Contains(t, log.String(), "placing a hold")
}
