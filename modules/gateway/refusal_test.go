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
	"github.com/fareway/fareway/plugins/families"
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

// TestAttended: what a configuration is judged by.
func TestAttended(t *testing.T) {
	t.Parallel()
	somebody := ledger.Principal{Account: ledger.Account{ID: "acct_1"}}
	for name, tc := range map[string]struct {
		call   Call
		status int
		want   bool
	}{
		"was admitted":        {Call{Record: Record{Held: true}}, 200, true},
		"was admitted, a 4xx": {Call{Record: Record{Held: true}}, 400, true},
		"of an account, 503":  {Call{Kind: Generate, Principal: somebody}, 503, true},
		"of an account, 500":  {Call{Kind: Generate, Principal: somebody}, 500, true},
		"of an account, 429":  {Call{Kind: Generate, Principal: somebody}, 429, false},
		"of an account, 200":  {Call{Kind: Generate, Principal: somebody}, 200, false},
		"of nobody":           {Call{Kind: Generate}, 503, false},
		"of another kind":     {Call{Kind: CountTokens, Principal: somebody}, 503, false},
		"that no route fits": {Call{Kind: Generate, Principal: somebody,
			Record: Record{Code: string(families.FeatureUnavailable)}}, 503, false},
	} {
		require.Equal(t, tc.want, tc.call.Attended(tc.status), name)
	}
}
