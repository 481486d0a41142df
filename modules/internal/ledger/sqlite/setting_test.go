package sqlite

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestLimitColumns: GAP-118, each limit of accounts has a column, which has its name, but for the first of them.
func TestLimitColumns(t *testing.T) {
	t.Parallel()
	others := map[ledger.Limit]string{
		"spend_cap_microcents": "spend_cap", "fair_use_microcents": "fair_use", "requests_per_minute.key": "key_requests",
		"requests_per_minute.account": "account_requests", "requests_per_minute.address": "address_requests",
	}
	require.Len(t, strings.Split(settingColumns, ", "), settingsWidth)
	for i, limit := range ledger.AllLimits {
		want, ok := others[limit]
		if !ok {
			want = string(limit)
		}
		require.Equal(t, want, limitColumns[i])
	}
}
