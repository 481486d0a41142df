package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// ErrShutdown is why Ready says no once a drain has begun, and the cause of a Work's context when its time is over.
var ErrShutdown = errors.New("the gateway is shutting down")

// phase is where an engine is in its life.
type phase int

const (
	// starting: no configuration is active, so nothing begins.
	starting phase = iota
	// serving: requests begin on the newest configuration.
	serving
	// draining: nobody is to send requests here any more. Those that still come, until the listeners are closed, are
	// served like those that run. When the drain's time is over, all of them are told to end.
	draining
	// stopped: nothing runs, and nothing begins any more.
	stopped
)

// lifecycle is an engine's way from starting over serving and draining to stopped, with what decides about it: the
// active configurations and the requests that run on them. It goes back in one case: while serving, when the only
// configuration is retired, to starting.
type lifecycle struct {
	log *slog.Logger
	// use is told of each configuration that becomes the current one, with the lock held. nil: nobody is.
	use func(*Generation)

	mu          sync.Mutex
	phase       phase
	generations []*Generation // active ones, oldest first
	running     int           // requests
	entering    int           // those of them that need the ledger to begin
	entered     chan struct{} // closed when there are none of these; nil while nobody waits for that
	idle        chan struct{} // closed when nothing runs any more; nil while nobody waits for that
	last        *Generation   // the current one, or the last that was
	over        *time.Timer   // ends a drain
	until       time.Time     // when it does

	ctx    context.Context // done when live work must end
	cancel context.CancelCauseFunc
	// leaving is done, with cause ErrShutdown, once a drain has begun: what nobody waits for ends then.
	leaving context.Context
	leave   context.CancelCauseFunc
}

// noTimeout is how long a drain takes of an engine that never had a configuration.
const noTimeout = time.Minute

func newLifecycle(log *slog.Logger, use func(*Generation)) *lifecycle {
	l := &lifecycle{log: log, use: use}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.leaving, l.leave = context.WithCancelCause(l.ctx)
	return l
}

// activate makes g the configuration of the requests that begin from now on.
func (l *lifecycle) activate(g *Generation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generations = append(l.generations, g)
	if l.phase == starting {
		l.phase = serving
	}
	l.tellCurrent()
}

// replace puts g in the place of old, whose reference it gives back. Where a newer configuration serves, it goes on.
func (l *lifecycle) replace(old, g *Generation) {
	l.mu.Lock()
	l.generations[slices.Index(l.generations, old)] = g
	l.tellCurrent()
	release := old.unref()
	l.mu.Unlock()
	release()
}

// retire gives back the reference of whoever made g. When g was the current configuration, the one before it, if it is
// still active, becomes current again.
func (l *lifecycle) retire(g *Generation) {
	l.mu.Lock()
	l.generations = slices.DeleteFunc(l.generations, func(x *Generation) bool { return x == g })
	if len(l.generations) == 0 && l.phase == serving {
		l.phase = starting
	}
	l.tellCurrent()
	release := g.unref()
	l.mu.Unlock()
	release()
}

// tellCurrent tells of the current configuration.
func (l *lifecycle) tellCurrent() {
	g := l.current()
	if g == nil {
		return
	}
	l.last = g
	if l.use != nil {
		l.use(g)
	}
}

// current is the newest active configuration, nil when there is none. The lock is held.
func (l *lifecycle) current() *Generation {
	if n := len(l.generations); n > 0 {
		return l.generations[n-1]
	}
	return nil
}

// begin registers a request on the current configuration; nil when there is none, or the engine has stopped.
func (l *lifecycle) begin() *Generation {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.current()
	if g == nil || l.phase == stopped {
		return nil
	}
	g.refs++
	l.running++
	l.entering++
	return g
}

// enter is for a request that needs the ledger no more to begin.
func (l *lifecycle) enter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entering--
	if l.entering == 0 && l.entered != nil {
		close(l.entered)
		l.entered = nil
	}
}

// awaitEntered waits until no request needs the ledger to begin, or for ctx.
func (l *lifecycle) awaitEntered(ctx context.Context) {
	l.mu.Lock()
	if l.entering == 0 {
		l.mu.Unlock()
		return
	}
	if l.entered == nil {
		l.entered = make(chan struct{})
	}
	entered := l.entered
	l.mu.Unlock()
	select {
	case <-entered:
	case <-ctx.Done():
	}
}

// beside registers more work on the configuration of a request that runs; false once a drain has begun.
func (l *lifecycle) beside(g *Generation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase >= draining {
		return false
	}
	g.refs++
	l.running++
	return true
}

// end is for a request that began on g.
func (l *lifecycle) end(g *Generation) {
	l.mu.Lock()
	l.running--
	if l.running == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	release := g.unref()
	l.mu.Unlock()
	release()
}

// acquire keeps the current configuration and its providers, nil when there is none. Unlike begin it is no request:
// nothing waits for it.
func (l *lifecycle) acquire() (g *Generation, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g = l.current(); g == nil {
		return nil, func() {}
	}
	g.refs++
	return g, func() {
		l.mu.Lock()
		release := g.unref()
		l.mu.Unlock()
		release()
	}
}

// drain begins the drain, and reports whether this is its first call. After the delay and the drain timeout, what
// still runs is told to end.
func (l *lifecycle) drain(delay time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase >= draining {
		return false
	}
	l.phase = draining
	l.leave(ErrShutdown)
	timeout := noTimeout
	if l.last != nil {
		timeout = l.last.Config.Gateway.DrainTimeout
	}
	l.until = time.Now().Add(delay + timeout)
	l.over = time.AfterFunc(delay+timeout, func() { l.timedOut(timeout) })
	if l.running > 0 {
		l.log.Info("waiting for the requests that run", "requests", l.running, "until", l.until)
	}
	return true
}

// endNow ends a drain at once, as if its time were over: what runs is told to end, and settles.
func (l *lifecycle) endNow() (running int) {
	l.drain(0)
	l.mu.Lock()
	running = l.running
	if now := time.Now(); now.Before(l.until) {
		l.until = now
	}
	l.mu.Unlock()
	if running > 0 {
		l.log.Warn("ending the requests that are left: somebody does not wait for them", "requests", running)
	}
	l.cancel(ErrShutdown)
	return running
}

// waitsFor is how many requests run, and when a drain that has begun ends at most.
func (l *lifecycle) waitsFor() (running int, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running, l.until
}

func (l *lifecycle) timedOut(timeout time.Duration) {
	l.mu.Lock()
	running := l.running
	l.mu.Unlock()
	if running > 0 {
		l.log.Warn("drain timeout is over: ending the requests that are left", "requests", running, "drain_timeout", timeout)
	}
	l.cancel(ErrShutdown)
}

// stop waits until nothing runs, and lets nothing begin any more. A drain has begun before.
func (l *lifecycle) stop() {
	for !l.tryStop() {
		l.wait()
	}
}

func (l *lifecycle) tryStop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running > 0 {
		return false
	}
	l.phase = stopped
	if l.over != nil {
		l.over.Stop()
	}
	l.cancel(ErrShutdown)
	return true
}

// wait returns as soon as nothing runs.
func (l *lifecycle) wait() {
	l.mu.Lock()
	if l.running == 0 {
		l.mu.Unlock()
		return
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	<-idle
}

// ready is nil while requests are to be sent here, as far as the engine's life goes.
func (l *lifecycle) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.phase {
	case starting:
		return errors.New("no configuration is active")
	case serving:
		return nil
	default:
		return ErrShutdown
	}
}
