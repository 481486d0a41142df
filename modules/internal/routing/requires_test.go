package routing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// TestRequires: a route of which nothing is said is out where something is required.
func TestRequires(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	kept := func(name, region string, retention *time.Duration) config.Route {
		r := route(name, 0.5, 1)
		r.Region, r.Retention = region, retention
		return r
	}
	unsaid, none, week := kept("unsaid", "", nil), kept("none", "eu", new(time.Duration)), kept("hour", "us", &hour)
	all := []config.Route{unsaid, none, week}
	for _, tc := range []struct {
		name     string
		requires config.Requires
		want     []string
	}{
		{"nothing", config.Requires{}, []string{"unsaid", "none", "hour"}},
		{"a region", config.Requires{Regions: []string{"eu"}}, []string{"none"}},
		{"one of two regions", config.Requires{Regions: []string{"eu", "us"}}, []string{"none", "hour"}},
		{"nothing kept", config.Requires{Retention: new(time.Duration)}, []string{"none"}},
		{"at most an hour", config.Requires{Retention: &hour}, []string{"none", "hour"}},
		{"both", config.Requires{Regions: []string{"us"}, Retention: new(time.Duration)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			it, err := routing.MakeItinerary(routing.Input{Routes: all, Profile: balanced, InputTokens: 1000,
				Requires: tc.requires})
			require.Len(t, it.Rejected, len(all)-len(tc.want))
			for _, r := range it.Rejected {
				require.ErrorIs(t, r.Why, routing.ErrRequired)
			}
			if tc.want == nil {
				require.ErrorIs(t, err, routing.ErrRequired)
				_, err = routing.MakeItinerary(routing.Input{Routes: all[:1], Profile: balanced, Requires: tc.requires})
				require.ErrorIs(t, err, routing.ErrRequired, "of a single route, too")
				_, err = routing.MakeItinerary(routing.Input{Profile: balanced, Requires: tc.requires})
				require.NotErrorIs(t, err, routing.ErrRequired, "of none nothing can be said")
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, order(it))
		})
	}
	t.Run("what they offer does not count", func(t *testing.T) {
		t.Parallel()
		able := unsaid
		able.JSONObject = true
		_, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{able, none}, Profile: balanced, InputTokens: 10,
			Needs: routing.Needs{Format: llm.FormatJSONObject}, Requires: config.Requires{Regions: []string{"eu"}}})
		require.ErrorIs(t, err, routing.ErrNoJSON)
	})
}

// TestRequiresIsAFloor: whatever is asked, and whatever is remembered, no candidate is below it.
func TestRequiresIsAFloor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		for i := range in.Routes {
			in.Routes[i].Region = rapid.SampledFrom([]string{"", "eu", "us"}).Draw(t, "region")
		}
		in.Requires.Regions, in.Exchange = []string{"eu"}, routing.NewExchange(in.Routes, nil, nil)
		in.Past = &routing.Past{Home: "r0", Served: [2]routing.Served{{Route: "r1", Warm: 1000}}}
		in.Request = rapid.SampledFrom([]*llm.Request{turn(easy, "Paris.", hard), answering()}).Draw(t, "request")
		it, err := routing.MakeItinerary(in)
		for _, c := range it.Candidates {
			require.Equal(t, "eu", c.Route.Region)
		}
		// What is below it is as if it were not there, at the rates of all routes (GAP-131).
		without := in
		without.Routes = nil
		for _, r := range in.Routes {
			if r.Region == "eu" {
				without.Routes = append(without.Routes, r)
			}
		}
		other, otherErr := routing.MakeItinerary(without)
		require.Equal(t, order(other), order(it))
		if len(without.Routes) > 0 {
			require.Equal(t, otherErr, err)
		}
	})
}
