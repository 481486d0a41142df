package exchange

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

// TestInputIsCountedLate: a request of an account with much to spend is held by the lengths of its texts, and one for
// which it matters by the exact bound.
func TestInputIsCountedLate(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) { c.Routes = c.Routes[:1] })
	b.upstream.SetModel("first", hello("stop"))
	words := strings.Repeat("counting takes its time ", 400)
	asked := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(words)}}}}
	call := func(who ledger.Principal) *gateway.Call {
		return &gateway.Call{Kind: gateway.Generate, Principal: who, Body: fmt.Appendf(nil,
			`{"model":"service/auto","max_tokens":1,"messages":[{"role":"user","content":%q}]}`, words)}
	}
	price := config.Price{Input: 300_000_000, CacheRead: 300_000_000, CacheWrite: 300_000_000, Output: 1_500_000_000}
	rough := ledger.HoldFor(tokens.Most(asked), 1, price)
	exact := ledger.HoldFor(tokens.Bound(asked), 1, price)
	require.Less(t, exact, rough)

	held := func(who ledger.Principal) int64 {
		t.Helper()
		w, c := httptest.NewRecorder(), call(who)
		b.ask(t, t.Context(), w, c)
		require.Equal(t, 200, w.Code, w.Body)
		return b.record(t, c).Held
	}
	ample := 100*rough/ledger.MicrocentsPerCredit + 1
	require.Equal(t, rough, held(b.account(t, "rich", ample)), "a hundred times the rough bound is there")
	require.Equal(t, exact, held(b.account(t, "modest", ample-1)))

	require.Greater(t, rough, int64(2*ledger.MicrocentsPerCredit))
	require.Less(t, exact, int64(2*ledger.MicrocentsPerCredit))
	require.Equal(t, exact, held(b.account(t, "poor", 2)), "nobody is refused whom the exact bound admits")
	w := httptest.NewRecorder()
	b.ask(t, t.Context(), w, call(b.account(t, "broke", 1)))
	require.Equal(t, 402, w.Code)

	capped := b.account(t, "capped", 1_000_000)
	limit := exact
	_, err := b.engine.Store().ChangeKey(context.Background(), capped.Key.ID, ledger.KeyChange{SpendCap: &limit})
	require.NoError(t, err)
	require.Equal(t, exact, held(capped), "a cap is near")
}

// TestInputNearAWindow is counted at once.
func TestInputNearAWindow(t *testing.T) {
	t.Parallel()
	asked := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}
	b := newBench(t, "plain", func(c *config.Config) {
		c.Routes = c.Routes[:1]
		c.Routes[0].ContextWindow = tokens.Most(asked) + 100 - 1
	})
	b.upstream.SetModel("first", hello("stop"))
	w, c := httptest.NewRecorder(), generating(false)
	b.ask(t, t.Context(), w, c)
	require.Equal(t, 200, w.Code, "it fits, though its bytes would not")
	require.Equal(t, ledger.HoldFor(tokens.Bound(asked), 100, config.Price{
		Input: 300_000_000, CacheRead: 300_000_000, CacheWrite: 300_000_000, Output: 1_500_000_000}), b.record(t, c).Held)
}
