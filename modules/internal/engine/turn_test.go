package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// doors are routes whose upstreams take no more for a while, by the clock of a synctest bubble.
type doors struct {
	*Generation
	keys map[string]*providerKey
	// started are the accounts of those whose turn came, in order; gone is who was sent away.
	started, gone []string
	// ends are what became of those who wait, for settle.
	ends chan func()
}

func newDoors(routes ...string) *doors {
	e, _ := roads()
	e.timer = time.After
	d := &doors{
		Generation: &Generation{Config: &config.Config{}, routes: make(map[string]*monitored)},
		keys:       make(map[string]*providerKey),
		ends:       make(chan func(), 2*maxWaiting),
	}
	e.lend(d.Generation)
	e.healths = newHealths(time.Now(), func(health.Change) {})
	for _, name := range routes {
		d.Config.Routes = append(d.Config.Routes, config.Route{Name: name, Model: "m"})
		k := &providerKey{provider: name, now: time.Now, log: slog.New(slog.DiscardHandler), metrics: e.metrics,
			spawn: func(f func()) { f() }}
		k.settle()
		id := healthID{route: name, model: "m"}
		d.keys[name] = k
		d.routes[name] = &monitored{id: id, key: k, honour: true, state: e.healths.of(id, health.Settings{})}
	}
	return d
}

// away lets a route's upstream say that it takes more after a while.
func (d *doors) away(route string, wait time.Duration) { d.keys[route].limit("m", wait) }

// waiter is a request that waits.
type waiter struct {
	doors  *doors
	leave  context.CancelFunc
	turn   *Turn         // nil while it waits, and when it was sent away
	ended  time.Duration // how long it waited; below zero while it does
	permit RoutePermit
}

// settle waits for all that follows from what was done, and takes note of it: in the test's goroutine, which reads it.
func (d *doors) settle() {
	synctest.Wait()
	for len(d.ends) > 0 {
		(<-d.ends)()
	}
}

// advance turns the clock of a bubble on.
func (d *doors) advance(by time.Duration) {
	time.Sleep(by) //nolint:forbidigo // the clock of a synctest bubble
	d.settle()
}

// wait lets a request of an account wait for a route, at most so long.
func (d *doors) wait(t *testing.T, route, account string, longest time.Duration) *waiter {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	w, began := &waiter{doors: d, leave: leave, ended: -1}, time.Now()
	go func() {
		turn := d.AwaitTurn(ctx, &config.Route{Name: route, Model: "m"}, account, began.Add(longest))
		waited := time.Since(began)
		d.ends <- func() {
			if w.turn, w.ended = turn, waited; turn == nil {
				d.gone = append(d.gone, account)
				return
			}
			d.started = append(d.started, account)
		}
	}()
	d.settle()
	return w
}

// call makes the call of one whose turn it is.
func (w *waiter) call(t *testing.T) *waiter {
	t.Helper()
	var err error
	w.permit, err = w.turn.Acquire(t.Context(), health.Call{Account: w.turn.account})
	require.NoError(t, err)
	return w
}

func (w *waiter) accepted(t *testing.T) {
	t.Helper()
	w.call(t).permit.Accepted()
	w.doors.settle()
}

// waits requires how many wait for each route, as status and metrics say it.
func (d *doors) waits(t *testing.T, route string, n int64) {
	t.Helper()
	require.Equal(t, n, d.requests.Waiting(route))
	for _, h := range d.RouteHealth() {
		if h.Route == route {
			require.Equal(t, n, h.Waiting)
		}
	}
}

// empty requires that nothing is left of those who waited.
func (d *doors) empty(t *testing.T) {
	t.Helper()
	require.Empty(t, d.turns.queues)
	require.Empty(t, d.turns.each)
}

const long = 10 * time.Second

func inBubble(t *testing.T, name string, run func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, run)
	})
}

func TestTurns(t *testing.T) {
	t.Parallel()
	inBubble(t, "GAP-139 it starts when the route is back", func(t *testing.T) {
		d := newDoors("r")
		d.away("r", 3*time.Second)
		w := d.wait(t, "r", "a", long)
		d.waits(t, "r", 1)
		d.advance(3 * time.Second)
		require.Equal(t, 3*time.Second, w.ended)
		d.waits(t, "r", 0)
		w.accepted(t)
		d.empty(t)
	})
	inBubble(t, "GAP-139 not for one that serves, said nothing, or is back too late", func(t *testing.T) {
		d := newDoors("serves", "silent", "late", "soon", "refused")
		d.keys["silent"].limit("m", 0)
		d.away("late", 5*time.Second+1)
		d.away("soon", 5*time.Second)
		d.keys["refused"].passOver(KeyRefused, time.Second, llm.Errorf(llm.ErrCredentials, "no"))
		w := d.wait(t, "serves", "a", long)
		require.Zero(t, w.ended)
		w.accepted(t)

		for _, route := range []string{"silent", "late", "refused"} {
			w = d.wait(t, route, "a", long)
			require.Nil(t, w.turn, route)
			require.Zero(t, w.ended, route)
		}
		require.Zero(t, d.wait(t, "soon", "a", 5*time.Second-1).ended, "it is back behind the request's time")
		require.Negative(t, d.wait(t, "soon", "a", 5*time.Second).ended)
	})
	inBubble(t, "GAP-139 one after another, accounts in turn", func(t *testing.T) {
		d := newDoors("r")
		d.away("r", time.Second)
		var all []*waiter
		for _, account := range []string{"a", "a", "a", "b", "b", "c"} {
			all = append(all, d.wait(t, "r", account, long))
		}
		d.advance(time.Second)
		for _, i := range []int{0, 3, 5, 1, 4, 2} {
			d.settle()
			require.NotNil(t, all[i].turn, "%d, behind %v", i, d.started)
			all[i].accepted(t)
		}
		require.Equal(t, "a b c a b a", strings.Join(d.started, " "))
		require.Empty(t, d.gone)
		d.empty(t)
	})
	inBubble(t, "GAP-139 at most 64 for a route", func(t *testing.T) {
		d := newDoors("r", "s")
		d.away("r", time.Second)
		d.away("s", time.Second)
		for i := range 64 {
			require.Negative(t, d.wait(t, "r", fmt.Sprint("account", i), long).ended)
		}
		d.waits(t, "r", 64)
		require.Zero(t, d.wait(t, "r", "one more", long).ended)
		require.Equal(t, []string{"one more"}, d.gone)
		other := d.wait(t, "s", "one more", long)
		require.Negative(t, other.ended, "another route has its own")
		d.advance(time.Second)
		d.waits(t, "r", 63) // one starts
		other.accepted(t)
	})
	inBubble(t, "GAP-139 at most 8 of an account, for all routes", func(t *testing.T) {
		d := newDoors("r", "s")
		d.away("r", time.Second)
		d.away("s", 2*time.Second)
		var all []*waiter
		for i := range 8 {
			all = append(all, d.wait(t, []string{"r", "s"}[i%2], "a", long))
		}
		require.Zero(t, d.wait(t, "r", "a", long).ended)
		require.Zero(t, d.wait(t, "s", "a", long).ended)
		require.Negative(t, d.wait(t, "r", "b", long).ended)
		all[1].leave()
		d.settle()
		require.Negative(t, d.wait(t, "r", "a", long).ended, "one has left")
		require.Zero(t, d.wait(t, "r", "a", long).ended)
		d.advance(time.Second)
		require.NotNil(t, all[0].turn)
		require.Negative(t, d.wait(t, "s", "a", long).ended, "one has started")
	})
	inBubble(t, "GAP-139 who leaves", func(t *testing.T) {
		d := newDoors("r")
		d.away("r", 2*time.Second)
		first, second, third := d.wait(t, "r", "a", long), d.wait(t, "r", "b", long), d.wait(t, "r", "c", long)
		d.advance(time.Second)
		first.leave()
		d.settle()
		require.Equal(t, time.Second, first.ended)
		require.Nil(t, first.turn)
		d.waits(t, "r", 2)
		d.advance(time.Second)
		require.NotNil(t, second.turn)
		require.Nil(t, third.turn)
		third.leave()
		d.settle()
		require.Nil(t, third.turn)
		second.accepted(t)
		d.empty(t)
	})
	inBubble(t, "GAP-139 the one that starts ends without a word", func(t *testing.T) {
		d := newDoors("r")
		d.away("r", time.Second)
		first, second := d.wait(t, "r", "a", long), d.wait(t, "r", "b", long)
		d.advance(time.Second)
		require.Nil(t, second.turn)
		first.call(t).permit.Release() // as when its client has left
		d.settle()
		require.NotNil(t, second.turn)
		first.permit.Accepted() // no longer its affair
		second.accepted(t)
		d.empty(t)
	})
	inBubble(t, "GAP-139 one that finds the route full lets the next one try", func(t *testing.T) {
		d := newDoors("r")
		d.away("r", time.Second)
		first, second := d.wait(t, "r", "a", long), d.wait(t, "r", "b", long)
		d.advance(time.Second)
		first.turn.route.MaxConcurrent = 1
		held, err := d.AcquireRoute(t.Context(), first.turn.route, health.Call{})
		require.NoError(t, err)
		_, err = first.turn.Acquire(t.Context(), health.Call{Account: "a"})
		require.ErrorIs(t, err, routing.ErrBusy)
		d.settle()
		require.NotNil(t, second.turn)
		held.Release()
		second.accepted(t)
		d.empty(t)
	})
	inBubble(t, "GAP-139 it waits at most as long as it may", func(t *testing.T) {
		d := newDoors("r")
		d.away("r", time.Second)
		first, second := d.wait(t, "r", "a", long), d.wait(t, "r", "b", 4*time.Second)
		d.advance(4 * time.Second)
		require.NotNil(t, first.turn)
		require.Equal(t, 4*time.Second, second.ended, "the first one has not been answered yet")
		require.Nil(t, second.turn)
		first.accepted(t)
		d.empty(t)
	})
	inBubble(t, "GAP-139 somebody else is told of a later time", func(t *testing.T) {
		d := newDoors("r")
		d.away("r", time.Second)
		w, impatient := d.wait(t, "r", "a", long), d.wait(t, "r", "b", 2*time.Second)
		d.away("r", 3*time.Second)
		d.advance(time.Second)
		require.Equal(t, time.Second, impatient.ended)
		require.Negative(t, w.ended)
		d.advance(2 * time.Second)
		require.Equal(t, 3*time.Second, w.ended)
		w.accepted(t)
		d.empty(t)
	})
}

// TestProbesOfTurns: what becomes of the first one decides for those behind it.
func TestProbesOfTurns(t *testing.T) {
	t.Parallel()
	busy := llm.Errorf(llm.ErrCapacity, "no")
	for name, c := range map[string]struct {
		outcome health.Outcome
		err     error
		back    time.Duration // what its upstream says then
		next    string        // what becomes of those behind it: "starts", "waits", "goes"
	}{
		"served":                        {health.Succeeded, nil, 0, "starts"},
		"the client's own doing":        {health.Nothing, errors.New("rejected"), 0, "starts"},
		"outrun":                        {health.Outrun, nil, 0, "starts"},
		"failed":                        {health.Failed, nil, 0, "goes"},
		"not reached":                   {health.Unreached, nil, 0, "goes"},
		"its key is refused":            {health.Nothing, llm.Errorf(llm.ErrCredentials, "no"), 0, "goes"},
		"out of quota":                  {health.Nothing, llm.Errorf(llm.ErrQuota, "no"), 0, "goes"},
		"refused, and back soon":        {health.Refused, busy, 2 * time.Second, "waits"},
		"refused, and back much later":  {health.Refused, busy, 6 * time.Second, "goes"},
		"refused, and not back in time": {health.Refused, busy, 4 * time.Second, "goes"},
	} {
		inBubble(t, "GAP-139 "+name, func(t *testing.T) {
			d := newDoors("r")
			d.away("r", time.Second)
			first, second, third := d.wait(
				t,
				"r",
				"a",
				long,
			), d.wait(
				t,
				"r",
				"b",
				4*time.Second,
			), d.wait(
				t,
				"r",
				"c",
				4*time.Second,
			)
			d.advance(time.Second)
			first.call(t)
			if c.back > 0 {
				d.away("r", c.back)
			}
			first.permit.monitored = &monitored{} // what a key makes of it is not this test's
			first.permit.Ended(c.outcome, c.err)
			d.settle()
			first.permit.Release()
			d.settle()
			switch c.next {
			case "starts":
				require.NotNil(t, second.turn)
				require.Negative(t, third.ended)
				second.accepted(t)
			case "goes":
				require.Equal(t, []string{"b", "c"}, d.sorted())
				require.Equal(t, time.Second, third.ended)
				d.empty(t)
				return
			case "waits":
				require.Empty(t, d.gone)
				d.advance(c.back)
				require.Equal(t, time.Second+c.back, second.ended)
				second.accepted(t)
			}
			require.NotNil(t, third.turn)
			third.accepted(t)
			d.empty(t)
		})
	}
}

// TestBackOfKeys: of several keys the first one that is back.
func TestBackOfKeys(t *testing.T) {
	t.Parallel()
	r := newKeyring(1, 1, 1)
	g := &Generation{now: func() time.Time { return r.now },
		routes: map[string]*monitored{"r": {id: healthID{model: "m"}, pool: r.pool}}}
	back := func() (time.Duration, bool) {
		at, ok := g.Back("r")
		if at.IsZero() {
			return 0, ok
		}
		return at.Sub(r.now), ok
	}
	requireBack := func(want time.Duration, soon bool) {
		t.Helper()
		got, ok := back()
		require.Equal(t, soon, ok)
		require.Equal(t, want, got)
	}
	requireBack(0, true)
	r.keys[0].key.limit("m", 4*time.Second)
	r.keys[1].key.limit("m", 2*time.Second)
	requireBack(0, true)
	r.keys[2].key.limit("m", time.Minute)
	requireBack(2*time.Second, true)
	r.accounts[1].away = true
	requireBack(4*time.Second, true)
	r.now = r.now.Add(4 * time.Second)
	requireBack(0, true)
	r.keys[0].key.limit("m", 0)
	requireBack(0, false)
}

func (d *doors) sorted() []string {
	gone := slices.Clone(d.gone)
	slices.Sort(gone)
	return gone
}
