package enginetest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/llm"
)

// New runs an engine on an empty ledger, with the plans "trial" and "starter" and no providers. now may be nil.
func New(t *testing.T, now func() time.Time) *engine.Engine {
	t.Helper()
	return On(t, t.TempDir(), now)
}

// On is New on a data folder that is there.
func On(t *testing.T, data string, now func() time.Time) *engine.Engine {
	t.Helper()
	cfg := &config.Config{
		Store: config.DefaultStore(), Path: data + "/gateway.hcl",
		Gateway: config.Gateway{DefaultProfile: config.ProfileBalanced},
		Plans:   []config.Plan{{Name: "trial"}, {Name: "starter"}},
	}
	e, err := engine.Open(engine.Options{DataDir: data, OpenStore: stores.Open, OpenPeople: stores.OpenPeople,
		Logger: slog.New(slog.DiscardHandler), Now: now}, cfg)
	require.NoError(t, err)
	g, err := e.Prepare(t.Context(), cfg)
	require.NoError(t, err)
	e.Activate(g)
	t.Cleanup(func() {
		e.Retire(g)
		require.NoError(t, e.Close())
	})
	return e
}

// Operator is who made the customers, in the audit trail.
const Operator = "operator@desk via socket"

// Customer is an account with a key and 1,000 credits.
type Customer struct {
	ledger.Principal
	Text string // of the key
}

// NewCustomer makes one.
func NewCustomer(t testing.TB, e *engine.Engine, name string) Customer {
	t.Helper()
	ctx := ledger.WithActor(t.Context(), Operator)
	p, text := account(ctx, t, e, name)
	_, _, err := e.Store().AddCredit(ctx, ledger.Credit{Account: p.Account.ID, Credits: 1000})
	require.NoError(t, err)
	return Customer{p, text}
}

// ExamplePrice and ExampleUsage are those of the contract's example (BILL-03): 950 tokens in and 700 out at $3 and
// $15 for a million come to ExampleCharge.
var (
	ExamplePrice = config.Price{Input: 300_000_000, CacheRead: 30_000_000, CacheWrite: 375_000_000, Output: 1_500_000_000}
	ExampleCost  = config.Price{Input: 100_000_000, CacheRead: 10_000_000, CacheWrite: 125_000_000, Output: 500_000_000}
	ExampleUsage = llm.Usage{Input: llm.Count(950), Output: llm.Count(700), Reasoning: llm.Count(64)}
)

// ExampleCharge is in microcents.
const ExampleCharge = 1_335_000

// Settle runs a request of the customer on the route "deep" through the ledger.
func (c Customer) Settle(t testing.TB, e *engine.Engine, request string, s ledger.Settlement,
	results ...ledger.Result) {
	t.Helper()
	store := e.Store()
	version, err := store.PriceVersion(t.Context(), "deep", ExamplePrice, ExampleCost)
	require.NoError(t, err)
	for i := range results {
		results[i].Attempt = ledger.AttemptID(request, int64(i)+1)
		attempt := ledger.Attempt{ID: results[i].Attempt, Route: "deep", Provider: "up", Model: "deep-1",
			PriceVersion: version, Worst: 5_000_000}
		if i == 0 {
			_, err = store.Hold(t.Context(), ledger.Hold{Request: request, Account: c.Account.ID, Key: c.Key.ID,
				Endpoint: "chat", Profile: "max", Microcents: 5_000_000, Attempt: attempt})
		} else {
			err = store.Begin(t.Context(), ledger.Next{Request: request, Attempt: attempt,
				Microcents: 5_000_000 * int64(i+1)})
		}
		require.NoError(t, err)
	}
	s.Request, s.Results = request, results
	_, err = store.Settle(t.Context(), s)
	require.NoError(t, err)
}

// OK is the settlement of a request that went well.
func OK() ledger.Settlement { return ledger.Settlement{Status: 200, Reason: "ok"} }

// Proven is an attempt with ExampleUsage.
func Proven() ledger.Result {
	return ledger.Result{Outcome: ledger.Finished, Usage: new(ExampleUsage)}
}
