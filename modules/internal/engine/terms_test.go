package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestTerms(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	p := newPlans(slog.New(slog.NewTextHandler(&logged, nil)))
	p.use([]config.Plan{
		{Name: "starter", MonthlyCredits: 500,
			Limits: config.Limits{SpendCapCredits: 20, TokenBudget: 30, FairUseMicrocents: 40}},
		{Name: "free"},
	})
	none := ledger.Terms{FairUse: 10_000_000}
	require.Equal(t, ledger.Terms{MonthlyCredits: 500, SpendCap: 20_000_000, TokenBudget: 30, FairUse: 40},
		p.of("starter"))
	require.Equal(t, ledger.Terms{}, p.of("free"))
	require.Equal(t, none, p.of(""), "accounts on no plan have the default one")
	require.Empty(t, logged.String())

	for range 3 {
		require.Equal(t, none, p.of("gone"))
	}
	require.Equal(t, 1, strings.Count(logged.String(), "plan=gone"), "one warning")

	p.use([]config.Plan{{Name: "starter", Limits: config.Limits{SpendCapCredits: 1}}})
	require.Equal(t, int64(1_000_000), p.of("starter").SpendCap, "a changed plan acts at once")
	require.Equal(t, none, p.of("free"))
	require.Contains(t, logged.String(), "plan=free")
}
