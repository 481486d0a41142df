package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimitsThatAreLeftOut(t *testing.T) {
	t.Parallel()
	config, diags := loadText(t, minimal+"plan \"free\" {}\n")
	require.Empty(t, diags.All())

	require.Equal(t, 24*time.Hour, config.Gateway.ReceiptAge)
	require.Equal(t, Limiter{Kind: "memory"}, config.Limiter)
	require.Equal(t, PreAuth{FailuresPerMinute: 120}, config.PreAuth)
	require.False(t, config.Routes[0].BillsPastAllowance)
	require.Equal(t, config.Routes[0].Price, config.Routes[0].Cost, "the operator pays what the account pays")

	t.Run("a plan without content is the plan of accounts without one", func(t *testing.T) {
		t.Parallel()
		empty := config.Plans[0]
		require.Equal(t, "free", empty.Name)
		empty.Name = ""
		require.Equal(t, config.PlanOf(""), empty)
		require.Equal(t, Plan{Limits: Limits{
			RequestsPerMinute: RequestsPerMinute{Key: 600, Account: 2400, Address: 6000},
			FairUseMicrocents: 10_000_000, ConcurrentRequests: 64, MaxStreams: 2_500,
		}}, empty)
	})
}

func TestZeroSwitchesLimitsOff(t *testing.T) {
	t.Parallel()
	config, diags := loadText(t, minimal+`
plan "open" {
  requests_per_minute {
    key     = 0
    address = 0
  }
  fair_use_microcents = 0
  concurrent_requests = 0
  max_streams         = 0
}
pre_auth {
  failures_per_minute = 0
}
`)
	require.Empty(t, diags.All())
	rates := RequestsPerMinute{Account: 2400}
	require.Equal(t, Plan{Name: "open", Limits: Limits{RequestsPerMinute: rates}}, config.Plans[0])
	require.Zero(t, config.PreAuth.FailuresPerMinute)
}

func TestCostHasClassesOfItsOwn(t *testing.T) {
	t.Parallel()
	config, diags := loadText(t, `
provider "local" {
  plugin = "echo"
}
route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  cost {
    input       = 2
    output      = 4
    cache_write = 3
  }
  price {
    input      = 3
    output     = 6
    cache_read = 1
  }
}
`)
	require.Empty(t, diags.All())
	const dollar = microcentsPerDollar
	require.Equal(t, Price{Input: 3 * dollar, CacheRead: dollar, CacheWrite: 3 * dollar, Output: 6 * dollar},
		config.Routes[0].Price)
	require.Equal(t, Price{Input: 2 * dollar, CacheRead: 2 * dollar, CacheWrite: 3 * dollar, Output: 4 * dollar},
		config.Routes[0].Cost,
		"cache classes of the cost fall back to the cost's input, never to the price")
}

// The password of another kind of store stands in a block that this fareway does not read.
func TestAnotherKindOfStoreStaysUnread(t *testing.T) {
	t.Parallel()
	for _, block := range []string{
		`store "mysql" { dsn = env("NOT_SET_ANYWHERE") }`,
		`limiter "etcd" { url = "etcd://:hunter2@cache" }`,
	} {
		_, diags := loadText(t, block+"\n"+minimal)
		require.Len(t, diags.All(), 1, block)
		require.Contains(t, diags.All()[0].Detail, "This fareway knows only")
		requireNoSecret(t, nil, diags)
	}
}

// TestAtOnce: an account has a quarter of the places at most, and as many as its plan says.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		``:                           64,
		`concurrent_requests = 8`:    8,
		`concurrent_requests = 0`:    2500,
		`concurrent_requests = 5000`: 2500,
		`max_streams = 20`:           20,
		`max_streams = 0`:            64,
		"concurrent_requests = 0\nmax_streams = 0":      0,
		"concurrent_requests = 5000\nmax_streams = 0":   5000,
		"concurrent_requests = 0\nmax_streams = 100000": 100000,
	} {
		config, diags := loadText(t, minimal+"plan \"p\" {\n"+text+"\n}\n")
		require.Empty(t, diags.All(), text)
		plan := config.PlanOf("p")
		require.Equal(t, want, plan.AtOnce(), text)
	}
	for places, want := range map[int64]int64{1: 1, 3: 1, 4: 1, 5: 1, 20: 5, 0: 64, 200: 50, 10_000: 64} {
		none := (&Gateway{MaxStreams: places}).DefaultPlan()
		require.Equal(t, want, none.AtOnce(), "%d", places)
	}
}
