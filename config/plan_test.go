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
		require.Equal(t, DefaultPlan(), empty)
		require.Equal(t, Plan{
			RequestsPerMinute: RequestsPerMinute{Key: 600, Account: 2400, Address: 6000},
			FairUseMicrocents: 10_000_000,
		}, empty)
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
}
pre_auth {
  failures_per_minute = 0
}
`)
	require.Empty(t, diags.All())
	require.Equal(t, Plan{Name: "open", RequestsPerMinute: RequestsPerMinute{Account: 2400}}, config.Plans[0])
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
		`store "postgres" { dsn = env("NOT_SET_ANYWHERE") }`,
		`limiter "redis" { url = "redis://:hunter2@cache" }`,
	} {
		_, diags := loadText(t, block+"\n"+minimal)
		require.Len(t, diags.All(), 1, block)
		require.Contains(t, diags.All()[0].Detail, "This fareway knows only")
		requireNoSecret(t, nil, diags)
	}
}
