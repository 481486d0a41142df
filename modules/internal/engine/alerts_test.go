package engine_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
)

// TestNodesTellOnce: of an account that four nodes have charged one of those tells that have whom to tell, raised and
// resolved.
func TestNodesTellOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := make(map[string]int)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct {
			Type string
			Data struct{ About string }
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if m.Data.About == "account" {
			got[m.Type]++
		}
	}))
	defer receiver.Close()
	count := func(kind string) int {
		mu.Lock()
		defer mu.Unlock()
		return got[kind]
	}
	url := postgrestest.Database(t)
	var nodes []*handing
	for i := range 4 {
		h, err := tryNode(t, url, t.TempDir())
		require.NoError(t, err)
		if i == 3 { // it has nobody to tell
			h.cfg.Alerts = config.Alerts{BalanceLow: 1000}
		} else {
			h.cfg.Alerts = config.Alerts{BalanceLow: 1000, Webhooks: []config.Webhook{{Name: "ops", URL: receiver.URL,
				Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ"}, Timeout: 5 * time.Second}}}
		}
		h.gen, err = h.Prepare(t.Context(), h.cfg)
		require.NoError(t, err)
		h.Activate(h.gen)
		nodes = append(nodes, h)
	}
	nodes[0].payer(10)
	charge := ledger.Charge{Balance: ledger.Balance{Credits: 10}}
	for _, h := range nodes {
		h.gen.NoteCharged(&nodes[0].who.Account, charge)
	}
	raised := func() (n int) { // on how many nodes, whoever tells of it
		for _, h := range nodes {
			for _, a := range h.Alerts().Standing().Alerts {
				if a.Event == "balance_low" && (a.Told != nil || a.Elsewhere) {
					n++
				}
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return raised() == 3 && count("balance_low.raised") > 0 }, time.Minute,
		10*time.Millisecond)
	require.Equal(t, 1, count("balance_low.raised"))
	deaf := nodes[3].Alerts().Standing().Alerts
	require.False(t, slices.ContainsFunc(deaf, func(a alerts.Alert) bool { return a.Told != nil }), "it tells nobody")
	_, _, err := nodes[0].Store().AddCredit(t.Context(), ledger.Credit{Account: nodes[0].who.Account.ID, Credits: 10_000})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return raised() == 0 && count("balance_low.resolved") > 0 }, time.Minute,
		10*time.Millisecond)
	for _, h := range nodes {
		h.Drain()
		h.Retire(h.gen)
		require.NoError(t, h.Close())
	}
	require.Equal(t, map[string]int{"balance_low.raised": 1, "balance_low.resolved": 1}, got)
}
