package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// background is what the engine does beside requests, each loop in a goroutine of its own, from the first
// activated configuration to Close. The zero value does nothing.
type background struct {
	loops []*loop

	once    sync.Once
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// start begins the loops, at the first call only. They end with ctx, or stop.
func (b *background) start(ctx context.Context) {
	b.once.Do(func() {
		ctx, b.cancel = context.WithCancel(ctx)
		for _, l := range b.loops {
			b.running.Go(func() { l.run(ctx) })
		}
	})
}

// stop ends the loops, or lets none begin.
func (b *background) stop() {
	b.once.Do(func() {})
	if b.cancel != nil {
		b.cancel()
	}
	b.wait()
}

// wait returns when the loops have ended.
func (b *background) wait() { b.running.Wait() }

// chore is periodic work. It is repeated as long as it fails, too, and must not mind being interrupted.
type chore struct {
	name  string // what it does, for the log: "ending periods"
	every time.Duration
	first time.Duration // how long after the start it runs first
	do    func(context.Context) error

	due     time.Time
	failing bool
}

// loop does its chores one after the other.
type loop struct {
	chores []*chore
	log    *slog.Logger
	now    func() time.Time
	after  func(time.Duration) <-chan time.Time
}

func (l *loop) run(ctx context.Context) {
	start := l.now()
	for _, c := range l.chores {
		c.due = start.Add(c.first)
	}
	for {
		wait := l.chores[0].every
		for _, c := range l.chores {
			if ctx.Err() != nil {
				return
			}
			now := l.now()
			if c.due.Sub(now) > max(c.every, c.first) {
				c.due = now // the clock has been turned back
			}
			if !now.Before(c.due) {
				l.runChore(ctx, c)
				c.due = l.now().Add(c.every)
			}
			wait = min(wait, c.due.Sub(l.now()))
		}
		select {
		case <-ctx.Done():
			return
		case <-l.after(max(wait, 0)):
		}
	}
}

// runChore logs the first error of a streak, and its end: what fails each minute is said once.
func (l *loop) runChore(ctx context.Context, c *chore) {
	err := c.do(ctx)
	switch {
	case ctx.Err() != nil: // interrupted by Close
	case err != nil && !c.failing:
		c.failing = true
		l.log.Error(c.name+" fails; it is tried again and again", "every", c.every, "error", err)
	case err == nil && c.failing:
		c.failing = false
		l.log.Info(c.name + " works again")
	}
}
