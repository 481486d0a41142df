package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestLossIsLoggedOnceInAWhile (GAP-133): requests that are refused for a loss do not fill the log.
func TestLossIsLoggedOnceInAWhile(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	log := new(bytes.Buffer)
	e := (&Engine{core: core{now: func() time.Time { return now },
		log: newSwapLogger(slog.New(slog.NewTextHandler(log, nil)))}}).connect()
	for range 5 {
		e.LogLost("placing a hold", "req_a", ledger.ErrLost)
	}
	require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"))
	now = now.Add(lostEvery)
	e.LogLost("placing a hold", "req_b", ledger.ErrLost)
	require.Equal(t, 2, strings.Count(log.String(), "level=ERROR"))
	require.Contains(t, log.String(), "request_id=req_b requests=5")
}
