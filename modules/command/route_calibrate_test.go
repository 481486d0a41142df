package command

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestCalibrateProfiles is `calibrate --since` (GAP-131): rates by the gateway's own requests, as weights that give
// about those rates.
func TestCalibrateProfiles(t *testing.T) {
	t.Parallel()
	e := routed(t)
	text, err := run(t, "route", "calibrate", "--since", "30d", "--data", e.DataDir())
	require.NoError(t, err)
	require.Contains(t, text, "No rates to propose: of 0 requests since")
	for i, asked := range []string{"What is the capital of France?", "Prove that there are infinitely many primes.",
		"Write a python function that reverses a list: def reverse(items):", "Hello", "Write a poem about the sea."} {
		for k := range 4 {
			d := decided(t, e, fmt.Sprintf("req_%032d", 10*i+k), "max", asked)
			d.InputTokens = int64(100 + 400*k)
			e.Decisions().Add(d)
		}
	}
	loop := decided(t, e, "req_0193b0a7c5d07f3a9c1e5d2b7a604f11", "max", "Go on.")
	loop.Traits.Loop = true
	e.Decisions().Add(loop)

	c := runJSON[engine.Calibration](t, "route", "calibrate", "--since", "30d", "--data", e.DataDir())
	require.EqualValues(t, 21, c.Requests)
	require.EqualValues(t, 20, c.Used, "a turn that answers tool calls is not chosen for")
	require.Len(t, c.Profiles, 2)
	tariff, err := e.Current().Tariff(t.Context())
	require.NoError(t, err)
	for i, p := range c.Profiles {
		profile := e.Current().Config.Profiles[i]
		require.InDelta(t, tariff.Exchange.Rate(profile), *p.Rate, 1e-9)
		if profile.Cost == 0 {
			require.Zero(t, *p.Proposed, "cost does not count")
			continue
		}
		require.GreaterOrEqual(t, *p.Proposed, routing.LeastRate)
		require.InDelta(t, 1, p.Cost+p.Quality, 1e-9)
		require.InDelta(t, tariff.Exchange.Rate(config.Profile{Cost: p.Cost, Quality: p.Quality}), *p.Gives, 1e-9)
		require.Equal(t, *p.Proposed >= *p.Rate, p.Then.Quality <= p.Now.Quality, "a higher rate reaches no more")
		require.Equal(t, *p.Proposed >= *p.Rate, p.Then.Microcents <= p.Now.Microcents)
	}
	text, err = run(t, "route", "calibrate", "--since", "30d", "--data", e.DataDir())
	require.NoError(t, err)
	require.Contains(t, text, "Rates on 20 of 21 requests since")
	require.Regexp(t, `balanced +\d+\.\d{3} .* cost = 0\.\d+, quality = 0\.\d+ `, text)
	_, err = run(t, "route", "calibrate", "--since", "30d", "--recorded", "x")
	require.ErrorContains(t, err, "since")
}
