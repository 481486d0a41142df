package redis

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/redisconn"
)

const (
	// mostLate is how many answers in a row may be too late before the server counts as away.
	mostLate = 2
	// settling is for how long the node's share counts, too, from the beginning of a new generation of the server's data:
	// the other nodes give it what they know meanwhile.
	settling = 2 * time.Second
	// settlingLeast is for how long where nothing was lost there: some may have been away, too.
	settlingLeast = probeEvery + 250*time.Millisecond
	// clockStep is from which difference on a clock was set.
	clockStep = int64(time.Second / time.Microsecond)
)

// state is whether the server is there.
type state struct {
	up       atomic.Bool
	late     atomic.Int64 // answers in a row
	settleTo atomic.Int64 // until when the share counts, too; by elapsed
	offset   atomic.Int64 // from elapsed to the server's clock, as far as it is known
	known    atomic.Bool  // offset is
	lost     atomic.Bool  // it is away for what it had lost, and that was counted

	mu     sync.Mutex
	since  time.Time // when it went away, or came back
	reason string    // why it is away, "" when it is not
	before int64     // fallbacks, when it went away
}

// notAsked is why a server is away that nobody has asked yet.
const notAsked = "it was not asked yet"

func (s *state) isUp() bool { return s.up.Load() }

// checksShare reports whether this node's share counts, alone or beside the server.
func (s *state) checksShare(elapsed int64) bool { return !s.up.Load() || elapsed < s.settleTo.Load() }

func (s *state) succeeded() {
	if s.late.Load() != 0 {
		s.late.Store(0)
	}
}

// estimate is the server's moment, as far as this node can tell.
func (s *state) estimate(elapsed int64) int64 { return elapsed + s.offset.Load() }

// counters are for metrics.
type counters struct{ fallbacks, aways, losses, errors atomic.Int64 }

// failed notes that a question had no answer.
func (l *Limiter) failed(err error) {
	l.count.errors.Add(1)
	if redisconn.IsTimeout(err) {
		if l.state.late.Add(1) < mostLate {
			return
		}
	}
	l.goAway(err)
}

// goAway lets this node go on with its share.
func (l *Limiter) goAway(err error) {
	s := &l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up.Load() {
		return
	}
	if _, lost := errors.AsType[*lostError](err); lost {
		s.lost.Store(true)
		l.count.losses.Add(1)
	}
	l.count.aways.Add(1)
	s.since, s.reason, s.before = time.Now(), redisconn.Explain(err).Error(), l.count.fallbacks.Load()
	s.up.Store(false)
	l.log.Warn("the limiter's server is away: this node admits its share of each limit until it is back",
		"error", s.reason, "nodes", l.Nodes())
	select {
	case l.probe <- struct{}{}:
	default:
	}
}

// stayAway notes why it is still away.
func (l *Limiter) stayAway(err error) {
	s := &l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	text := redisconn.Explain(err).Error()
	if text == s.reason || redisconn.IsTimeout(err) && s.reason != notAsked {
		return // it was said
	}
	s.reason = text
	l.log.Warn("the limiter's server is still away", "error", text, "nodes", l.Nodes())
}

// comeBack lets the server count again, beside this node's share at first.
func (l *Limiter) comeBack() {
	s := &l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up.Load() {
		return
	}
	away := time.Since(s.since)
	s.late.Store(0)
	s.settleTo.Store(countAll)
	s.since, s.reason = time.Now(), ""
	s.up.Store(true)
	l.log.Info("the limiter's server counts", "nodes", l.nodes.Load(), "away_for", away.Round(time.Millisecond),
		"decided_by_share", l.count.fallbacks.Load()-s.before)
}

// Status implements ratelimit.Reporter.
func (l *Limiter) Status() ratelimit.Status {
	s := &l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	v := ratelimit.Status{Address: l.conn.Address(), Mode: string(l.conn.Mode()), Up: s.up.Load(), Since: s.since.UTC(),
		Reason: s.reason, Nodes: l.Nodes(), Shares: l.count.fallbacks.Load(), Aways: l.count.aways.Load(),
		Losses: l.count.losses.Load(), Errors: l.count.errors.Load()}
	return v
}

// Usage is what this node remembers itself, of what it has admitted.
func (l *Limiter) Usage() ratelimit.Usage { return l.local.Usage() }

var _ ratelimit.Reporter = (*Limiter)(nil)
