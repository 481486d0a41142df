// Package redis is the ratelimit.Limiter that several processes share, nodes of one service: they count in a Redis, or
// in what speaks its protocol.
//
// # While it answers
//
// A question is one script there, which sees and changes everything at once, by the server's clock: no node's clock
// matters. On a Cluster, where a script has one node's keys only, there is one for what belongs to an account and one
// for the address, in the order of the asks; what the first has taken is given back when the second refuses.
//
// # While it does not
//
// Each node goes on with its share: of each limit the part that falls to it when all nodes that lived last share it
// evenly, and 1 at least. What it has admitted itself in the last minute counts against that, whoever counted it. So a
// service of n nodes admits of each subject the limit in a minute, and more in these cases only: of a limit under n,
// up to n; in the minute in which the server went away, when a few nodes had admitted nearly all before, up to twice
// the limit; while some nodes reach the server and others do not, the share of those that do not on top; and nodes
// that begin meanwhile know of no others but LeastNodes. A question waits for the connection's Timeout at most; after
// two that were too late, or one answer that is an error, none is asked any more until a probe, four times a second,
// finds that it answers in time.
//
// # What is lost there
//
// Each node remembers what it has admitted in the last minute, by the server's moments. Every beat of any node (once a
// second) is noted in the server, and every question says the latest beat that its node knows of. So the first
// question to a server that has lost data, or has an older copy of it back, is told so; its node goes on with its
// share, gives the server what it knows, and counts by both for two seconds, in which the other nodes do the same. A
// moment is there once, however many nodes and times it is given. On a Cluster the beat itself is looked at once a
// second.
package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/redisconn"
)

// Options are what a Limiter is made with.
type Options struct {
	Conn *redisconn.Conn // it is closed with the limiter
	// Nodes is how many nodes live, as far as somebody else knows, such as the ledger's table of them; nil, or 0: nobody
	// does, and it is the number that the server last knew of.
	Nodes func() int
	// LeastNodes is how many nodes are reckoned with at least: what a node takes that has never reached the server.
	LeastNodes int
	// Node is this process's name among the nodes. "": made anew.
	Node   string
	Logger *slog.Logger
	// Elapsed is the time since some fixed moment, by a clock that nobody can set. nil: since New.
	Elapsed func() time.Duration

	now  func() int64     // in place of the server's clock, in microseconds: tests only
	wall func() time.Time // this machine's clock; nil: time.Now
}

// Limiter counts in a server. Close it.
type Limiter struct {
	o      Options
	conn   *redisconn.Conn
	asked  combiner
	log    *slog.Logger
	local  *ratelimit.Memory // what this node has admitted, whoever counted it
	own    moments           // when, by the server
	leases leases
	state  state
	known  atomic.Pointer[known]
	nodes  atomic.Int64 // that lived when the server last said

	dirty  chan struct{} // there are permits to give back
	probe  chan struct{} // it may be away
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup
	keeper sync.Mutex // of what nobody waits for: one thing after the other
	count  counters
}

// known is what this node knows of the server's data: the generation, and the latest beat.
type known struct{ generation, beat int64 }

// countAll is the limit of what is counted in any case.
const countAll = math.MaxInt64

// New makes one, and tries to reach the server. It does not need it.
func New(o Options) *Limiter {
	if o.Elapsed == nil {
		start := time.Now()
		o.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if o.Node == "" {
		var id [8]byte
		_, _ = rand.Read(id[:]) // it never fails
		o.Node = hex.EncodeToString(id[:])
	}
	if o.wall == nil {
		o.wall = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{o: o, conn: o.Conn, log: o.Logger.With("limiter", o.Conn.Address()),
		local: ratelimit.NewMemory(ratelimit.Options{Elapsed: o.Elapsed}),
		dirty: make(chan struct{}, 1), probe: make(chan struct{}, 1)}
	l.asked.conn = o.Conn
	l.own.open(o.Node)
	l.known.Store(new(known))
	l.leases.open(o.Node)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	// Until the server has said its own; what was counted by this moves with it then.
	l.state.offset.Store(o.wall().UnixMicro() - o.Elapsed().Microseconds())
	l.state.since, l.state.reason = time.Now(), notAsked
	l.tryResume()
	l.ended.Go(l.keep)
	return l
}

// Close gives back what this process has in the server, and leaves it.
func (l *Limiter) Close() error {
	l.cancel()
	l.ended.Wait()
	if l.state.isUp() {
		l.leave()
	}
	return l.conn.Close()
}

func (l *Limiter) elapsed() int64 { return l.o.Elapsed().Microseconds() }

// Acquire implements ratelimit.Limiter. It has no error: while the server says nothing, the node's share decides.
func (l *Limiter) Acquire(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	if l.state.checksShare(l.elapsed()) {
		if !l.state.isUp() {
			return l.acquireShare(ctx, asks)
		}
		if r, _ := l.local.Check(ctx, l.share(asks)); r != nil {
			return 0, r, nil
		}
	}
	q := l.question(asks, true)
	r, err := l.ask(ctx, q)
	switch {
	case err != nil:
		if q.permit != 0 { // it may have been taken
			l.leases.giveBack(q.permit, q.semaphore)
			l.wakeDirty()
		}
		return l.acquireShare(ctx, asks)
	case r != nil:
		return 0, r, nil
	}
	local, _, _ := l.local.Acquire(ctx, withoutLimits(asks))
	l.own.add(q)
	if q.permit != 0 {
		l.leases.add(q.permit, q.semaphore, local)
	}
	return q.permit, nil, nil
}

// acquireShare decides by this node's share.
func (l *Limiter) acquireShare(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal,
	error) {
	l.count.fallbacks.Add(1)
	local, r, _ := l.local.Acquire(ctx, l.share(asks))
	if r != nil {
		return 0, r, nil
	}
	q := l.question(asks, true)
	q.countAt(l.own.marked(l.state.estimate(l.elapsed())))
	l.own.add(q)
	if q.permit != 0 {
		l.leases.add(q.permit, q.semaphore, local)
	}
	return q.permit, nil, nil
}

// Check implements ratelimit.Limiter.
func (l *Limiter) Check(ctx context.Context, asks []ratelimit.Ask) (*ratelimit.Refusal, error) {
	if l.state.checksShare(l.elapsed()) {
		r, _ := l.local.Check(ctx, l.share(asks))
		if !l.state.isUp() {
			l.count.fallbacks.Add(1)
			return r, nil
		}
		if r != nil {
			return r, nil
		}
	}
	r, err := l.ask(ctx, l.question(asks, false))
	if err != nil {
		l.count.fallbacks.Add(1)
		return l.local.Check(ctx, l.share(asks))
	}
	return r, nil
}

// Release implements ratelimit.Limiter.
func (l *Limiter) Release(p ratelimit.Permit) {
	if local, ok := l.leases.release(p); ok {
		l.local.Release(local)
		l.wakeDirty()
	}
}

func (l *Limiter) wakeDirty() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// Nodes is how many share the limits, this one included.
func (l *Limiter) Nodes() int {
	n := max(1, l.o.LeastNodes)
	if l.o.Nodes != nil {
		if known := l.o.Nodes(); known > 0 {
			return max(n, known)
		}
	}
	return max(n, int(l.nodes.Load()))
}

// share is what this node may admit of each limit.
func (l *Limiter) share(asks []ratelimit.Ask) []ratelimit.Ask {
	n := int64(l.Nodes())
	part := make([]ratelimit.Ask, len(asks))
	for i, a := range asks {
		if a.Limit > 0 {
			a.Limit = max(1, a.Limit/n)
		}
		part[i] = a
	}
	return part
}

func withoutLimits(asks []ratelimit.Ask) []ratelimit.Ask {
	all := make([]ratelimit.Ask, len(asks))
	for i, a := range asks {
		if a.Limit > 0 {
			a.Limit = countAll
		}
		all[i] = a
	}
	return all
}

// letters stand for kinds, in the names of keys.
var letters = map[ratelimit.Kind]string{ratelimit.Key: "k:", ratelimit.Account: "a:", ratelimit.Address: "i:",
	ratelimit.Failures: "f:", ratelimit.Running: "r:", ratelimit.Attempts: "t:",
	ratelimit.SignIns: "s:"}

// place is the key of a subject, and the tag that says which keys lie together.
func (l *Limiter) place(s *ratelimit.Subject) (key, tag string) {
	name := s.Name
	if s.Kind == ratelimit.Address || s.Kind == ratelimit.Failures {
		name = s.Network.String()
	}
	tag = name
	if s.Account != "" {
		tag = s.Account
	}
	// A tag ends at the first brace.
	return l.conn.Key(braces.Replace(tag), letters[s.Kind]+name), tag
}

var braces = strings.NewReplacer("{", "%7B", "}", "%7D", "%", "%25")

var _ ratelimit.Limiter = (*Limiter)(nil)
