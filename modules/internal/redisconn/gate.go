package redisconn

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostLate is how many answers in a row may be too late before the server counts as away.
	mostLate = 3
	// shutFor is for how long nobody asks a server that is away. Then one does, and the others still don't.
	shutFor = 500 * time.Millisecond
)

// Gate keeps those from a server who can do without it, while it is away: nobody waits for it then.
type Gate struct {
	what string // is kept there, for the log
	conn *Conn
	log  *slog.Logger

	shut   atomic.Int64 // until when, by elapsed; 0: it is open
	start  time.Time
	late   atomic.Int64
	errors atomic.Int64

	mu     sync.Mutex
	since  time.Time
	reason string
}

// NewGate makes one that is open, before a server in which something is kept.
func NewGate(what string, conn *Conn, log *slog.Logger) *Gate {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Gate{what: what, conn: conn, log: log, start: time.Now(), since: time.Now()}
}

// Pass asks the server, within the connection's time-out, unless it is away; false when there is no answer. ask has
// no error when the server has answered.
func (g *Gate) Pass(ctx context.Context, ask func(context.Context) error) bool {
	now := int64(time.Since(g.start)) + 1
	if until := g.shut.Load(); until != 0 {
		if now < until || !g.shut.CompareAndSwap(until, now+int64(shutFor)) {
			return false
		}
	}
	asked, cancel := context.WithTimeout(ctx, g.conn.Timeout())
	defer cancel()
	err := ask(asked)
	switch {
	case err == nil:
		g.late.Store(0)
		if g.shut.Load() != 0 {
			g.open()
		}
		return true
	case ctx.Err() == nil: // or it is whoever asks that has left
		g.errors.Add(1)
		if !IsTimeout(err) || g.late.Add(1) >= mostLate || g.shut.Load() != 0 {
			g.close(err, now)
		}
	}
	return false
}

func (g *Gate) close(err error, now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.reason
	g.shut.Store(now + int64(shutFor))
	g.reason = Explain(err).Error()
	if was == "" {
		g.since = time.Now()
		g.log.Warn("the server of "+g.what+" is away: the gateway goes on without it", "server", g.conn.Address(), "error", g.reason)
	}
}

func (g *Gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == "" {
		return
	}
	g.shut.Store(0)
	g.log.Info("the server of "+g.what+" is back", "server", g.conn.Address(), "away_for",
		time.Since(g.since).Round(time.Millisecond))
	g.since, g.reason = time.Now(), ""
}

// State is how a server does.
type State struct {
	Address string
	Up      bool
	Since   time.Time
	Reason  string // why it is away, and what to do about it
	Errors  int64  // calls without an answer in time, or with an error
}

// State is how the server does, as far as those know who ask it.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return State{Address: g.conn.Address(), Up: g.reason == "", Since: g.since.UTC(), Reason: g.reason, Errors: g.errors.Load()}
}
