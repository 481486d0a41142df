package engine

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// office is an engine on a real ledger with a real provider process, whose time the test turns.
type office struct {
	*Engine
	turned
	data, receipts string
	account, key   string
	requests       int
}

func openOffice(t *testing.T) *office {
	t.Helper()
	o := &office{turned: newTurned(), data: t.TempDir(), receipts: t.TempDir()}
	o.reopen(t, o.config())
	a, err := o.store.CreateAccount(t.Context(), "acme", "")
	require.NoError(t, err)
	k, err := o.store.CreateKey(t.Context(), a.ID, "laptop", sha256.Sum256(nil), "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	_, _, err = o.store.AddCredit(t.Context(), ledger.Credit{Account: a.ID, Credits: 100, Reason: "test"})
	require.NoError(t, err)
	o.account, o.key = a.ID, k.ID
	return o
}

// reopen opens the engine, on a ledger that may be there already.
func (o *office) reopen(t *testing.T, cfg *config.Config) {
	t.Helper()
	var err error
	o.Engine, err = Open(Options{
		OpenStore: stores.Open,
		DataDir:   o.data, Logger: slog.New(slog.DiscardHandler), Builtin: builtinArchivist,
		Now: o.turned.Now, After: o.After,
	}, cfg)
	require.NoError(t, err)
	o.Forget() // the last engine's
	o.load(t, cfg)
	o.settle(t, o.Engine)
}

func (o *office) config() *config.Config {
	price := config.Price{Input: 100_000_000, CacheRead: 100_000_000, CacheWrite: 100_000_000, Output: 200_000_000}
	return &config.Config{
		Store:   sqliteStore,
		Gateway: config.Gateway{DrainTimeout: time.Second, MaxBodyMemory: 1 << 20, ReceiptAge: 24 * time.Hour},
		Providers: []config.Provider{{
			Name: "upstream", Plugin: "archivist", StartTimeout: time.Minute,
			Settings: settings.Values(fmt.Sprintf(`{"dir": %q}`, o.receipts)),
		}},
		Routes: []config.Route{{Name: "small", Provider: "upstream", Price: price, Cost: price}},
	}
}

// load replaces the configuration.
func (o *office) load(t *testing.T, cfg *config.Config) {
	t.Helper()
	old := o.Current()
	g, err := o.Prepare(t.Context(), cfg)
	require.NoError(t, err)
	o.Activate(g)
	if old != nil {
		o.Retire(old)
	}
}

func (o *office) close(t *testing.T) {
	t.Helper()
	o.Retire(o.Current())
	require.NoError(t, o.Engine.Close())
}

// unproven is a request that ended without proof; it returns its attempt.
func (o *office) unproven(t *testing.T) string {
	t.Helper()
	o.requests++
	tariff, err := o.Current().Tariff(t.Context())
	require.NoError(t, err)
	request := fmt.Sprintf("req_%d", o.requests)
	attempt := ledger.Attempt{
		ID: ledger.AttemptID(request, 1), Route: "small", Provider: "upstream", Model: "m",
		PriceVersion: tariff.PriceVersion("small"), Worst: 5_000_000,
	}
	_, err = o.store.Hold(t.Context(), ledger.Hold{
		Request: request, Account: o.account, Key: o.key, Endpoint: "chat", Profile: "balanced", Microcents: 5_000_000,
		Attempt: attempt,
	})
	require.NoError(t, err)
	charge, err := o.store.Settle(t.Context(), ledger.Settlement{
		Request: request, Status: 502, Reason: "upstream_error",
		Results: []ledger.Result{{Attempt: attempt.ID, Outcome: ledger.Unproven}},
	})
	require.NoError(t, err)
	require.True(t, charge.Pending)
	return attempt.ID
}

// arrive puts a receipt for 30,000 input and 10,000 output tokens into the archive: 5,000,000 microcents.
func (o *office) arrive(t *testing.T, attempt string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(o.receipts, attempt), []byte(`{"Input": 30000, "Output": 10000}`),
		0o600))
}

const receiptWorth = 5_000_000

// spent is what was charged to the account, in microcents.
func (o *office) spent(t *testing.T) int64 {
	t.Helper()
	a, err := o.store.Account(t.Context(), o.account)
	require.NoError(t, err)
	require.Zero(t, a.Balance.Held)
	return 100*ledger.MicrocentsPerCredit - a.Balance.Net()
}

func TestReceiptsOfARealProvider(t *testing.T) {
	t.Parallel()
	t.Run("BILL-28 BILL-29 stay unbilled until they come, and are charged exactly once", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		attempt := o.unproven(t)
		o.turn(t, o.Engine, time.Hour)
		require.Zero(t, o.spent(t))
		require.Equal(t, 1.0, o.metrics.values(t)[`fareway_unproven_attempts{provider="upstream"}`])

		o.arrive(t, attempt)
		o.turn(t, o.Engine, maxQuietPause+receiptsEvery)
		require.Equal(t, int64(receiptWorth), o.spent(t))
		o.turn(t, o.Engine, time.Hour)
		require.Equal(t, int64(receiptWorth), o.spent(t), "the provider still has the receipt")
		_, applied, err := o.store.AddReceipt(t.Context(), attempt,
			llm.Usage{Input: llm.Count(30_000), Output: llm.Count(10_000)})
		require.NoError(t, err)
		require.False(t, applied, "nor does it count when it is delivered again")
		require.Equal(t, int64(receiptWorth), o.spent(t))
		values := o.metrics.values(t)
		require.Equal(t, 1.0, values[`fareway_receipts_total{provider="upstream" result="charged"}`])
		require.Equal(t, float64(receiptWorth), values[`fareway_charged_microcents_total{route="small"}`])
		require.Zero(t, values[`fareway_unproven_attempts{provider="upstream"}`])
		o.close(t)
	})
	t.Run("are asked for after a restart", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		attempt := o.unproven(t)
		o.close(t)
		o.arrive(t, attempt)
		o.Turn(48 * time.Hour)
		o.reopen(t, o.config())
		require.Equal(t, int64(receiptWorth), o.spent(t), "before what is too old is closed")
		o.close(t)
	})
	t.Run("wait for a provider that the configuration does not have at the moment", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		attempt := o.unproven(t)
		o.arrive(t, attempt)
		without := o.config()
		without.Providers, without.Routes = nil, nil
		o.load(t, without)
		o.turn(t, o.Engine, time.Hour)
		require.Zero(t, o.spent(t))

		o.load(t, o.config())
		o.turn(t, o.Engine, receiptsEvery)
		require.Equal(t, int64(receiptWorth), o.spent(t))
		o.close(t)
	})
	t.Run("are not taken any more after receipt_age", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		attempt := o.unproven(t)
		o.turn(t, o.Engine, receiptsEvery)
		o.Turn(24 * time.Hour)
		o.settle(t, o.Engine)
		o.turn(t, o.Engine, closeEvery)
		record, err := o.store.Request(t.Context(), "req_1")
		require.NoError(t, err)
		require.Equal(t, ledger.Closed, record.Attempts[0].Outcome)
		require.False(t, record.Pending)

		o.arrive(t, attempt)
		o.turn(t, o.Engine, 10*time.Minute)
		require.Zero(t, o.spent(t))
		o.close(t)
	})
}

// A period that ends while nobody asks for anything is ended by the housekeeping, at the terms of the plan in force.
func TestPeriodsEndByThemselves(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	cfg := o.config()
	cfg.Plans = []config.Plan{{Name: "starter", MonthlyCredits: 500}}
	o.load(t, cfg)
	_, err := o.store.SetPlan(t.Context(), o.account, "starter")
	require.NoError(t, err)
	credits := func() (sum int64) {
		require.NoError(t, o.store.Entries(t.Context(), ledger.Query{}, func(e ledger.Entry) error {
			if e.Kind == ledger.Allotment {
				sum += e.Microcents / ledger.MicrocentsPerCredit
			}
			return nil
		}))
		return sum
	}
	for month := range int64(3) {
		require.Equal(t, 500*(1+month), credits(), "GAP-118 the first period has its own")
		o.Turn(31 * 24 * time.Hour)
		o.settle(t, o.Engine)
		o.turn(t, o.Engine, periodsEvery)
	}

	o.close(t)
	o.Turn(31 * 24 * time.Hour)
	o.reopen(t, cfg)
	require.Equal(t, int64(2500), credits(), "a period that ended while the gateway did not run")
	require.Positive(t, o.checkpoints(t))
	o.close(t)
}

func (o *office) checkpoints(t *testing.T) (n int) {
	t.Helper()
	o.turn(t, o.Engine, checkpointEvery)
	require.NoError(t, o.store.Checkpoints(t.Context(), func(ledger.Checkpoint) error { n++; return nil }))
	return n
}

func TestPlansInUseStay(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	cfg := o.config()
	cfg.Plans = []config.Plan{{Name: "starter"}, {Name: "team"}, {Name: "unused"}}
	o.load(t, cfg)
	_, err := o.store.SetPlan(t.Context(), o.account, "starter")
	require.NoError(t, err)
	_, err = o.store.CreateAccount(t.Context(), "other", "team")
	require.NoError(t, err)

	smaller := o.config()
	smaller.Plans = []config.Plan{{Name: "starter"}}
	_, err = o.Prepare(t.Context(), smaller)
	require.ErrorContains(t, err, `accounts are on plans that the configuration lacks ("team")`)
	require.ErrorContains(t, err, "put their plan blocks back")
	smaller.Plans = nil
	_, err = o.Prepare(t.Context(), smaller)
	require.ErrorContains(t, err, `("starter", "team")`)
	require.Same(t, cfg, o.Current().Config, "the old one serves")

	smaller.Plans = []config.Plan{{Name: "starter"}, {Name: "team"}}
	o.load(t, smaller)
	o.close(t)

	_, err = Open(Options{OpenStore: stores.Open, DataDir: o.data, Logger: slog.New(slog.DiscardHandler)}, o.config())
	require.ErrorContains(t, err, `("starter", "team")`, "nor does a gateway start without them")
	o.reopen(t, cfg)
	o.close(t)
}

func TestLimiterCannotChange(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	cfg := o.config()
	cfg.Limiter = config.Limiter{Kind: "redis"}
	_, err := o.Prepare(t.Context(), cfg)
	require.ErrorContains(t, err, "the limiter block has changed")
	require.ErrorContains(t, err, "restart")
	o.close(t)
}

// TestCloseEndsProviders: no process of a provider outlives the engine.
func TestCloseEndsProviders(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	provider := o.Current().Backend("upstream")
	require.True(t, provider.Ready())
	require.NoError(t, o.Engine.Close())
	require.False(t, provider.Ready())
}
