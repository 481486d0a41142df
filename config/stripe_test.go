package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStripePrices: a price is a multiple of whole numbers, and what is none cannot be bought.
func TestStripePrices(t *testing.T) {
	t.Parallel()
	s := &Stripe{UnitAmount: 95, UnitCredits: 100, Minimum: 500, Maximum: 10_000}
	for credits, want := range map[int64]int64{500: 475, 600: 570, 10_000: 9_500, 499: 0, 501: 0, 10_100: 0, -500: 0,
		0: 0} {
		amount, ok := s.Price(credits)
		require.Equal(t, want != 0, ok, credits)
		require.Equal(t, want, amount, credits)
	}
}

// TestAmountsAreWrittenAsStripeCountsThem: yen have no hundredths, dinars have thousandths.
func TestAmountsAreWrittenAsStripeCountsThem(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]struct {
		amount   int64
		currency string
	}{"EUR 0.95": {95, "eur"}, "USD 12.00": {1200, "usd"}, "JPY 1200": {1200, "jpy"}, "KWD 1.250": {1250, "kwd"},
		"ISK 12.00": {1200, "isk"}, "EUR -0.05": {-5, "eur"}, "EUR 0.00": {0, "eur"}} {
		require.Equal(t, want, FormatAmount(of.amount, of.currency))
	}
}

// TestStripeKeepsItsSecrets: whatever prints it.
func TestStripeKeepsItsSecrets(t *testing.T) {
	t.Parallel()
	s := Stripe{SecretKey: "sk_live_hunter2", WebhookSecret: "whsec_hunter2", Currency: "eur", UnitAmount: 95,
		UnitCredits: 100}
	text, err := json.Marshal(map[string]any{"a": s, "b": &s, "c": Portal{Stripe: &s}})
	require.NoError(t, err)
	printed := fmt.Sprintf("%v %+v %#v %s %q %d %v", s, s, s, s, s, &s, slog.AnyValue(s).Resolve()) + string(text)
	require.NotContains(t, printed, "hunter2")
	require.Contains(t, printed, "100 credits for EUR 0.95")
	require.True(t, s.IsLive())
	require.False(t, (&Stripe{SecretKey: "rk_test_x"}).IsLive())
}
