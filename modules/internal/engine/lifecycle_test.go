package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
)

// simple is a lifecycle as its documentation has it, beside the one under test.
type simple struct {
	*rapid.T
	life *lifecycle
	now  time.Time

	phase   phase
	active  []*Generation // not yet retired
	running []*Generation // what each request began on
	kept    map[*Generation]int
	giveUp  []func() // of what was kept
	used    *Generation
	over    time.Time // when live work is told to end
	drained []chan struct{}
	ended   chan struct{} // closed when stop has returned; nil before it was called
}

const drainTimeout = 10 * time.Second

func newSimple(t *rapid.T) *simple {
	s := &simple{T: t, kept: make(map[*Generation]int), now: time.Now()}
	s.life = newLifecycle(slog.New(slog.DiscardHandler), func(g *Generation) { s.used = g })
	return s
}

func (s *simple) current() *Generation {
	if len(s.active) == 0 {
		return nil
	}
	return s.active[len(s.active)-1]
}

func (s *simple) activate() {
	g := &Generation{refs: 1, Config: &config.Config{Gateway: config.Gateway{DrainTimeout: drainTimeout}}}
	s.life.activate(g)
	s.active = append(s.active, g)
	if s.phase == starting {
		s.phase = serving
	}
	require.Same(s, g, s.used)
}

func (s *simple) retire(i int) {
	g := s.active[i]
	s.life.retire(g)
	s.active = slices.Delete(s.active, i, i+1)
	if len(s.active) > 0 {
		require.Same(s, s.current(), s.used, "the one before it holds again")
	} else if s.phase == serving {
		s.phase = starting
	}
}

// reload replaces the current configuration; one that fails is taken back.
func (s *simple) reload() {
	s.activate()
	i := len(s.active) - 1
	if i > 0 && rapid.Bool().Draw(s.T, "succeeds") {
		i--
	}
	s.retire(i)
}

func (s *simple) begin() {
	g := s.life.begin()
	if s.phase == stopped || len(s.active) == 0 {
		require.Nil(s, g)
		return
	}
	require.Same(s, s.current(), g)
	s.running = append(s.running, g)
}

func (s *simple) end(i int) {
	g := s.running[i]
	s.life.end(g)
	s.running = slices.Delete(s.running, i, i+1)
}

func (s *simple) acquire() {
	g, release := s.life.acquire()
	if len(s.active) == 0 {
		require.Nil(s, g)
		release()
		return
	}
	require.Same(s, s.current(), g)
	s.kept[g]++
	s.giveUp = append(s.giveUp, func() {
		release()
		s.kept[g]--
	})
}

func (s *simple) drain(delay time.Duration) {
	s.life.drain(delay)
	if s.phase < draining {
		s.phase, s.over = draining, time.Now().Add(delay)
		if s.used != nil {
			s.over = s.over.Add(drainTimeout)
		} else {
			s.over = s.over.Add(noTimeout)
		}
	}
}

// hurry ends a drain before its time.
func (s *simple) hurry() {
	s.drain(0)
	if now := time.Now(); s.phase == draining && now.Before(s.over) {
		s.over = now
	}
	require.Equal(s, len(s.running), s.life.endNow())
}

func (s *simple) wait() {
	done := make(chan struct{})
	s.drained = append(s.drained, done)
	go func() {
		defer close(done)
		s.life.wait()
	}()
}

func (s *simple) stop() {
	s.drain(0)
	if s.ended == nil {
		ended := make(chan struct{})
		s.ended = ended
		go func() {
			defer close(ended)
			s.life.stop()
		}()
	}
}

// check compares both once all that wait have had their turn.
func (s *simple) check() {
	synctest.Wait()
	if s.ended != nil && len(s.running) == 0 {
		s.phase = stopped
	}
	for _, done := range s.drained {
		require.Equal(s, len(s.running) == 0, closed(done), "what waits for the end of all work")
	}
	if len(s.running) == 0 {
		s.drained = nil
	}
	if s.ended != nil {
		require.Equal(s, s.phase == stopped, closed(s.ended))
	}
	over := s.phase == stopped || s.phase == draining && !time.Now().Before(s.over)
	require.Equal(s, over, s.life.ctx.Err() != nil, "whether live work must end")
	if over {
		require.ErrorIs(s, context.Cause(s.life.ctx), ErrShutdown)
	}
	running, until := s.life.waitsFor()
	require.Equal(s, len(s.running), running)
	if s.phase == draining {
		require.True(s, until.Equal(s.over), "what is said of the drain's end")
	}
	require.Equal(s, s.phase, s.life.phase)
	require.Equal(s, s.phase == serving, s.life.ready() == nil)
	if s.phase >= draining {
		require.ErrorIs(s, s.life.ready(), ErrShutdown)
	}
	refs := make(map[*Generation]int)
	for _, g := range append(slices.Clone(s.active), s.running...) {
		refs[g]++
	}
	for g, n := range s.kept {
		require.Equal(s, refs[g]+n, g.refs, "who has a configuration")
	}
	for g, n := range refs {
		require.Equal(s, n+s.kept[g], g.refs, "who has a configuration")
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestLifecycle: whatever happens in whatever order: requests begin as long as there is a configuration and the
// engine has not stopped, each on the current one; who waits for the end of all work does so exactly as long as there
// is some; the drain's time counts once; and a configuration is let go of by its last user.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// As a plain TB: in the bubble nobody may ask a T for its deadline.
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			s := newSimple(rt)
			pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "which") }
			rt.Repeat(map[string]func(*rapid.T){
				"begin":   func(*rapid.T) { s.begin() },
				"acquire": func(*rapid.T) { s.acquire() },
				"reload":  func(*rapid.T) { s.reload() },
				"start":   func(*rapid.T) { s.activate() },
				"drain":   func(*rapid.T) { s.drain(0) },
				"delayed drain": func(*rapid.T) {
					s.drain(rapid.SampledFrom([]time.Duration{time.Second, drainTimeout, time.Minute}).Draw(rt, "delay"))
				},
				"hurry": func(*rapid.T) { s.hurry() },
				"wait":  func(*rapid.T) { s.wait() },
				"stop":  func(*rapid.T) { s.stop() },
				"time": func(*rapid.T) {
					<-time.After(rapid.SampledFrom([]time.Duration{1, time.Second, drainTimeout}).Draw(rt, "time"))
				},
				"end": func(*rapid.T) {
					if n := len(s.running); n > 0 {
						s.end(pick(n))
					}
				},
				"retire": func(*rapid.T) {
					if n := len(s.active); n > 0 {
						s.retire(pick(n))
					}
				},
				"release": func(*rapid.T) {
					if n := len(s.giveUp); n > 0 {
						i := pick(n)
						s.giveUp[i]()
						s.giveUp = slices.Delete(s.giveUp, i, i+1)
					}
				},
				"": func(*rapid.T) { s.check() },
			})
			for len(s.running) > 0 {
				s.end(0)
			}
			s.stop()
			s.check()
			require.Equal(rt, stopped, s.phase, "it always comes to an end")
			require.Nil(rt, s.life.begin())
		})
	})
}

// TestLifecycleAtOnce: requests come and go while an engine is stopped. Each that has begun is waited for.
func TestLifecycleAtOnce(t *testing.T) {
	t.Parallel()
	for range 200 {
		l := newLifecycle(slog.New(slog.DiscardHandler), nil)
		g := &Generation{refs: 1, Config: &config.Config{Gateway: config.Gateway{DrainTimeout: time.Hour}}}
		l.activate(g)
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for range 50 {
					begun := l.begin()
					if begun == nil {
						return
					}
					if l.ctx.Err() != nil {
						t.Error("a request runs on an engine that has stopped")
					}
					l.end(begun)
				}
			})
		}
		l.drain(0)
		l.stop()
		require.Nil(t, l.begin())
		clients.Wait()
		l.retire(g)
		require.Zero(t, g.refs)
	}
}
