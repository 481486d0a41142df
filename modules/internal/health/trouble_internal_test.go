package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOutrunTellsWhatTookLonger: an attempt that lost to a faster one would have taken longer than it did: that says
// something where it took longer than usual already.
func TestOutrunTellsWhatTookLonger(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	r := NewGroup(now, nil).Route("r", Settings{})
	past := &r.series[small].past
	for range knownFrom {
		past.add(100 * time.Millisecond)
	}
	usual, _ := past.quantile(0.5)
	for more := range time.Duration(2) {
		r.Begin(now, Call{}).End(now.Add(usual+more), Outrun)
		require.EqualValues(t, knownFrom+more, past.total)
	}
}

// TestNothingIsTheMatter: once a route is let in again, or its breaker closes, requests see at one glance that
// nothing is the matter with it.
func TestNothingIsTheMatter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	g := NewGroup(now, nil)
	bad := g.Route("bad", Settings{Outliers: true, Failures: 6, Window: time.Minute, OpenFor: time.Minute})
	g.Use([]*Route{bad, g.Route("good", Settings{})})
	end := func(outcome Outcome) { bad.Begin(now, Call{Light: true}).End(now, outcome) }
	for range 5 {
		end(Failed)
	}
	require.Equal(t, Ejected, bad.Look(now, true).State)
	require.NotNil(t, bad.trouble.Load())
	end(Failed)
	require.NotNil(t, bad.trouble.Load())
	now = bad.Look(now, true).Until
	end(Nothing)
	require.Nil(t, bad.trouble.Load(), "it is let in again")
	for bad.Look(now, true).State == Serves {
		end(Failed)
	}
	for bad.Look(now, true).State == Ejected {
		end(Failed)
	}
	require.Equal(t, Open, bad.Look(now, true).State)
	now = bad.Look(now, true).Until
	require.NotNil(t, bad.trouble.Load())
	end(Succeeded)
	require.Nil(t, bad.trouble.Load(), "the request that tried it was answered")
}
