package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNothingIsTheMatter: once a route is let in again, or its breaker closes, requests see at one glance that nothing is
// the matter with it.
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
