package engine

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/routing"
)

// roads is an engine that has nothing but permits of routes, and how many of them are out.
func roads() (*Engine, func() int) {
	m := ratelimit.NewMemory(ratelimit.Options{})
	e := &Engine{core: core{metrics: newMetrics(""), log: newSwapLogger(slog.New(slog.DiscardHandler)), now: time.Now},
		requests: requests{limiter: m}}
	return e.connect(), func() int { return m.Usage().Permits }
}

func TestRoutePermits(t *testing.T) {
	t.Parallel()
	e, out := roads()
	acquire := func(r *config.Route) (p RoutePermit, ok bool) {
		return e.acquireRoute(t.Context(), r.Name, r.MaxConcurrent)
	}
	var permits []RoutePermit
	takes := func(r *config.Route, why ...any) {
		t.Helper()
		p, ok := acquire(r)
		require.True(t, ok, why...)
		permits = append(permits, p)
	}
	full := func(r *config.Route, why ...any) {
		t.Helper()
		p, ok := acquire(r)
		require.False(t, ok, why...)
		p.Release() // of nothing
	}
	old := &config.Route{Name: "small"}
	takes(old)
	takes(old)

	reloaded := &config.Route{Name: "small", MaxConcurrent: 3}
	takes(reloaded, "what runs on the old configuration counts")
	full(reloaded)
	takes(old, "the old configuration has no limit")
	takes(&config.Route{Name: "other", MaxConcurrent: 1})
	_, attempts := e.InProgress()
	require.EqualValues(t, 5, attempts)
	require.InDelta(t, 4, e.metrics.values(t)[`fareway_running_attempts{route="small"}`], 0)

	permits[0].Release()
	permits[0].Release()
	full(reloaded, "3 run")
	permits[1].Release()
	takes(reloaded)
	for i := range permits {
		permits[i].Release()
	}
	require.Zero(t, out())
	_, attempts = e.InProgress()
	require.Zero(t, attempts)
	require.InDelta(t, 0, e.metrics.values(t)[`fareway_running_attempts{route="small"}`], 0)
}

// TestRouteThatNobodyCounts: what could not be counted is not called.
func TestRouteThatNobodyCounts(t *testing.T) {
	t.Parallel()
	e, _ := roads()
	e.limiter = failing{Limiter: e.limiter, acquire: errors.New("broken by the test")}
	log := new(safe)
	e.SetLogger(slog.New(slog.NewTextHandler(log, nil)))
	_, ok := e.acquireRoute(t.Context(), "small", 0)
	require.False(t, ok)
	require.Equal(t, 1, log.count("broken by the test"))
}

// TestRoutesOfOneNode: of nodes that share a limiter, none asks the others about a route without a limit, or with the
// one that it has found itself.
func TestRoutesOfOneNode(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	shared := o.limiter
	o.limiter = failing{Limiter: shared, acquire: errors.New("asked")}
	o.ownAttempts = ratelimit.NewMemory(ratelimit.Options{})
	route := o.Current().Config.Routes[0]
	for _, free := range []bool{true, false} {
		route.AutoConcurrent = !free
		p, err := o.Current().AcquireRoute(t.Context(), &route, health.Call{})
		require.NoError(t, err)
		p.Release()
	}
	route.AutoConcurrent, route.MaxConcurrent = false, 1
	_, err := o.Current().AcquireRoute(t.Context(), &route, health.Call{})
	require.ErrorIs(t, err, routing.ErrBusy, "others may have it")
	o.limiter = shared
	o.close(t)
}

func TestRoutePermitsUnderContention(t *testing.T) {
	t.Parallel()
	e, out := roads()
	route := &config.Route{Name: "small", MaxConcurrent: 4}
	var running, most, taken atomic.Int64
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for range 200 {
				permit, ok := e.acquireRoute(t.Context(), route.Name, route.MaxConcurrent)
				if !ok {
					continue
				}
				taken.Add(1)
				for n := running.Add(1); ; {
					if seen := most.Load(); n <= seen || most.CompareAndSwap(seen, n) {
						break
					}
				}
				running.Add(-1)
				permit.Release()
			}
		})
	}
	workers.Wait()
	require.Positive(t, taken.Load())
	require.LessOrEqual(t, most.Load(), int64(4))
	require.Zero(t, out())
}
