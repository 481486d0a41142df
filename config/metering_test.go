package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// Each place that tells of an upstream without usage names the route and the setting that mends it.
func TestUnmetered(t *testing.T) {
	t.Parallel()
	plain := (&config.Route{Name: "a"}).Unmetered()
	require.Contains(t, plain, `set metering = "estimate" in route "a"`)
	require.Contains(t, plain, "stream_options.include_usage")
	unasked := (&config.Route{Name: "a", Unsupported: []string{"stop", "stream_options"}}).Unmetered()
	require.Contains(t, unasked, `take "stream_options" out of unsupported in route "a", or set metering = "estimate"`)
	require.NotContains(t, unasked, "include_usage")
}
