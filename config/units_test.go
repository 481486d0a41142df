package config

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"
)

func parsed(t require.TestingT, number string) *big.Float {
	v, err := cty.ParseNumberVal(number)
	require.NoError(t, err)
	return v.AsBigFloat()
}

func TestMicrocents(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]int64{
		"0": 0, "0.05": 5_000_000, "0.2": 20_000_000, "5.00": 500_000_000, "0.00000001": 1,
		"1e-8": 1, "0.000000010": 1, "1e6": 100_000_000_000_000, "999999.99999999": 99_999_999_999_999, "-0": 0,
	} {
		got, problem := microcents(parsed(t, number))
		require.Empty(t, problem, number)
		require.Equal(t, want, got, number)
	}
	for number, problem := range map[string]string{
		"-0.00000001": "negative", "1000000.00000001": "at most", "1e999999999": "at most",
		"0.000000001": "8 decimals", "0.050000001": "8 decimals", "1e-99999": "8 decimals",
		"0.0000000000000000001": "8 decimals",
	} {
		amount, got := microcents(parsed(t, number))
		require.Contains(t, got, problem, number)
		require.Zero(t, amount, number)
	}
}

// Every price with at most eight decimals arrives exactly, whatever binary fractions make of it.
func TestMicrocentsAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Range(0, maxPrice*microcentsPerDollar).Draw(t, "microcents")
		text := fmt.Sprintf("%d.%08d", want/microcentsPerDollar, want%microcentsPerDollar)
		got, problem := microcents(parsed(t, text))
		require.Empty(t, problem)
		require.Equal(t, want, got)

		_, problem = microcents(parsed(t, text+fmt.Sprint(rapid.IntRange(1, 9).Draw(t, "ninth decimal"))))
		require.NotEmpty(t, problem)
	})
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"10m": 10 * time.Minute, "1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond, "24h": 24 * time.Hour,
		"0.5s": 500 * time.Millisecond, "1d": 24 * time.Hour,
	} {
		got, problem := duration(text, maxDuration)
		require.Empty(t, problem, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "10", "10 m", "0s", "-1s", "1us", "24h1s", "1d1ms", "d", "1d-1h", "1h1d",
		"9999999999h"} {
		got, problem := duration(text, maxDuration)
		require.NotEmpty(t, problem, text)
		require.Zero(t, got, text)
	}
	got, problem := duration("25h", maxReceiptAge)
	require.Empty(t, problem, "what may last longer than a day")
	require.Equal(t, 25*time.Hour, got)
	got, problem = duration("2161h", maxReceiptAge)
	require.Equal(t, `must be between "1ms" and "90d"`, problem)
	require.Zero(t, got)
	for text, want := range map[string]time.Duration{"7d": 7 * day, "2w": 14 * day, "1w1d1h30m": 8*day + 90*time.Minute,
		"90d": 90 * day} {
		got, problem := duration(text, maxReceiptAge)
		require.Empty(t, problem, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"9999d2562047h", "1\n", "-1d", "100000d", "106752d", "9999w99999d"} {
		got, ok := ParseDuration(text)
		require.False(t, ok, text)
		require.Zero(t, got, text)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "1048576": 1 << 20, "1KiB": 1 << 10, "32MiB": 32 << 20, "1GiB": 1 << 30, "1024GiB": 1 << 40,
		"32 MiB": 32 << 20,
	} {
		got, problem := size(text)
		require.Empty(t, problem, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "MiB", "0", "0MiB", "-1", "1.5MiB", "32MB", "32mib", "1025GiB",
		"99999999999999999999", "1 2", "0x10"} {
		got, problem := size(text)
		require.NotEmpty(t, problem, text)
		require.Zero(t, got, text)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := gatewayGrammar.attributeNames()
	for given, want := range map[string]string{
		"requst_timeout": "request_timeout", "MAX_BODY": "max_body", "max_bodymemory": "max_body_memory",
		"keep_alive": "keepalive", "structured": "structured_output", "max_": "", "str": "", "colour": "", "": "",
	} {
		require.Equal(t, want, Nearest(given, known), given)
	}
	for given, want := range map[string]string{"ulr": "URL", "to": "", "u": "", "toke": "token", "tokens": "token"} {
		require.Equal(t, want, Nearest(given, []string{"URL", "token"}), given)
	}
}
