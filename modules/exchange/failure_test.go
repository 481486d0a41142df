package exchange

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// What people read says whether trying again helps, in words that agree with what their client is told.
func TestEveryFailureSaysWhatToDo(t *testing.T) {
	t.Parallel()
	texts := map[string]failureKind{}
	for _, kind := range []failureKind{
		llm.ErrUpstream, llm.ErrRejected, llm.ErrContext, llm.ErrAllowance, llm.ErrCapacity, llm.ErrQuota, llm.ErrProtocol,
		llm.ErrBroken, llm.ErrDied, timeLimit, attemptTimeout, shutdown, invalidArguments, noUsage,
	} {
		e := new(exchange).work.refusal(&failure{kind: kind, err: errors.New("the upstream's own words")})
		require.NotContains(t, e.Message, "own words", kind)
		if e.Final() {
			require.Contains(t, e.Message, "Trying again does not help: ", kind)
		} else {
			require.Regexp(t, `Trying again (may help|helps|unchanged will hardly help)|(Try|Trying) again in`, e.Message, kind)
		}
		require.Empty(t, texts[e.Message], "%s has a text of its own", kind)
		texts[e.Message] = kind
	}
	require.Equal(t, "The request was declined by the model route's content policy.",
		new(exchange).work.refusal(&failure{kind: llm.ErrPolicy}).Message, "GAP-95")
}

// An error in the middle of a stream has no status: its code tells what kind of failure it was (GAP-96).
func TestFramesOfFailures(t *testing.T) {
	t.Parallel()
	for kind, frame := range map[failureKind]families.Code{
		llm.ErrUpstream: "", llm.ErrRejected: "", llm.ErrCredentials: "", llm.ErrQuota: "", attemptTimeout: "",
		llm.ErrBroken: families.StreamError, llm.ErrDied: families.StreamError, noUsage: families.StreamError,
		shutdown:        families.StreamError,
		llm.ErrProtocol: families.ValidatorFailed, invalidArguments: families.ValidatorFailed,
	} {
		e := new(exchange).work.refusal(&failure{kind: kind})
		require.Equal(t, http.StatusBadGateway, e.Status, kind)
		require.Equal(t, frame, e.Frame, kind)
	}
}

// The ledger may be away when the next attempt is to be recorded: that passes, and is not the route's fault.
func TestTheLedgerIsAwayBetweenAttempts(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	call := &gateway.Call{ID: "req_of_the_test", Work: e.Begin()}
	defer call.Work.Done()
	x := (&exchange{scope: scope{call: call}}).connect()
	away := x.work.refusal(&failure{kind: ledgerAway, err: fmt.Errorf("asking: %w", ledger.ErrUnavailable)})
	require.Equal(t, http.StatusServiceUnavailable, away.Status)
	require.Positive(t, away.RetryAfter)
	require.Contains(t, away.Message, "cannot reach its ledger")
	broken := x.work.refusal(&failure{kind: ledgerAway, err: errors.New("of the test")})
	require.Equal(t, http.StatusInternalServerError, broken.Status)
}

// TestMetricsHaveEveryFailure: a series of each is there from the start.
func TestMetricsHaveEveryFailure(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, slices.Collect(maps.Keys(consequences)), engine.FailureKinds())
}
