package redisconn

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// probeEvery is how often a server that is away is tried.
const probeEvery = 500 * time.Millisecond

// Gate keeps those from a server who can do without it, from its first failure until a probe finds that it answers in
// time again: nobody waits for it meanwhile. Close it.
type Gate struct {
	what string // is kept there, for the log
	conn *Conn
	log  *slog.Logger

	shut   atomic.Bool
	errors atomic.Int64
	closed context.Context
	close  context.CancelFunc

	mu     sync.Mutex
	since  time.Time
	reason string
}

// NewGate makes one that is open, before a server in which something is kept.
func NewGate(what string, conn *Conn, log *slog.Logger) *Gate {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &Gate{what: what, conn: conn, log: log, since: time.Now()}
	g.closed, g.close = context.WithCancel(context.Background())
	return g
}

// Close shuts it.
func (g *Gate) Close() {
	g.shut.Store(true)
	g.close()
}

// Pass asks the server, within the connection's time-out, unless it is away; false when there is no answer. ask has
// no error when the server has answered.
func (g *Gate) Pass(ctx context.Context, ask func(context.Context) error) bool {
	if g.shut.Load() {
		return false
	}
	asked, cancel := context.WithTimeout(ctx, g.conn.Timeout())
	defer cancel()
	err := ask(asked)
	if err != nil && ctx.Err() == nil { // or it is whoever asks that has left
		g.errors.Add(1)
		g.goAway(err)
	}
	return err == nil
}

func (g *Gate) goAway(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut.CompareAndSwap(false, true) {
		return
	}
	g.since, g.reason = time.Now(), Explain(err).Error()
	g.log.Warn("the server of "+g.what+" is away: the gateway goes on without it", "server", g.conn.Address(), "error",
		g.reason)
	go g.probe()
}

// probe tries a server that is away until it takes something.
func (g *Gate) probe() {
	for {
		select {
		case <-g.closed.Done():
			return
		case <-time.After(probeEvery):
		}
		ctx, cancel := context.WithTimeout(g.closed, g.conn.Timeout())
		err := g.conn.Set(ctx, g.conn.Key("probe", ""), "", time.Second).Err()
		cancel()
		if err == nil {
			g.comeBack()
			return
		}
	}
}

func (g *Gate) comeBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log.Info("the server of "+g.what+" is back", "server", g.conn.Address(), "away_for",
		time.Since(g.since).Round(time.Millisecond))
	g.since, g.reason = time.Now(), ""
	if g.closed.Err() == nil {
		g.shut.Store(false)
	}
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
	return State{Address: g.conn.Address(), Up: g.reason == "", Since: g.since.UTC(), Reason: g.reason,
		Errors: g.errors.Load()}
}
