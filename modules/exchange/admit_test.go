package exchange

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// A 402 says which: a cap that is spent needs an operator, one that is held a moment.
func TestOverLimitOfAKey(t *testing.T) {
	t.Parallel()
	held := limitRefusal(fmt.Errorf("placing a hold: %w", ledger.ErrKeyHeld))
	require.Contains(t, held.Message, "The API key's spend cap is held by its requests that run")
	require.Contains(t, held.Message, "Try again when they have ended")
	spent := limitRefusal(fmt.Errorf("placing a hold: %w", ledger.ErrKeySpendCap))
	require.Contains(t, spent.Message, "The API key's spend cap is spent, or the request could cross it")
	require.NotContains(t, spent.Message, "run")
}
