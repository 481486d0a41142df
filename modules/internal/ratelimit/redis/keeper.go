package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/redisconn"
)

const (
	// beatEvery is how often a node says that it lives. One that has not for ten seconds is none any more.
	beatEvery = time.Second
	// probeEvery is how often a server that is away is tried.
	probeEvery = 250 * time.Millisecond
	// renewEvery is how often leases are renewed.
	renewEvery = ratelimit.LeaseTime / 3
	// forgetEvery is how often what is over is forgotten.
	forgetEvery = 5 * time.Second
	// patience is how long anything takes that no request waits for.
	patience = 2 * time.Second
	// mostInMessage is how many commands one message has.
	mostInMessage = 200
)

// all keys of nodes have one tag.
const nodesTag = "nodes"

func (l *Limiter) beatKey() string  { return l.conn.Key(nodesTag, "beat") }
func (l *Limiter) nodesKey() string { return l.conn.Key(nodesTag, "list") }

func (l *Limiter) clustered() bool { return l.conn.Mode() == redisconn.Cluster }

// clock is the moment that scripts go by, "" for the server's.
func (l *Limiter) clock() string {
	if l.o.now == nil {
		return ""
	}
	return strconv.FormatInt(l.o.now(), 10)
}

// keep does what nobody waits for, until Close.
func (l *Limiter) keep() {
	timer := time.NewTimer(l.pause())
	defer timer.Stop()
	renewed, forgotten := time.Now(), time.Now()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.probe: // it went away
		case <-l.dirty:
			l.keeper.Lock()
			if l.state.isUp() {
				l.note(l.tell(l.ctx))
			}
			l.keeper.Unlock()
			continue
		case <-timer.C:
			l.keeper.Lock()
			if l.state.isUp() {
				l.note(l.look(time.Since(renewed) >= renewEvery))
			} else {
				l.tryResume()
			}
			if !l.state.isUp() || time.Since(renewed) >= renewEvery {
				renewed = time.Now()
			}
			l.keeper.Unlock()
			if time.Since(forgotten) > forgetEvery {
				forgotten = time.Now()
				l.own.forget(l.state.estimate(l.elapsed()))
			}
		}
		timer.Reset(l.pause())
	}
}

// look is what is done every so often.
func (l *Limiter) look(renew bool) error {
	err := l.pulse(l.ctx)
	if err == nil && renew {
		err = l.renew(l.ctx)
	}
	if err == nil {
		err = l.tell(l.ctx) // what could not be told before
	}
	return err
}

func (l *Limiter) pause() time.Duration {
	if l.state.isUp() {
		return beatEvery
	}
	return probeEvery
}

// note notes what came of something that no request waits for.
func (l *Limiter) note(err error) {
	if err != nil && l.ctx.Err() == nil {
		l.count.errors.Add(1)
		l.goAway(err)
	}
}

// pulse says that this node lives, and looks whether the server still has what it had.
func (l *Limiter) pulse(ctx context.Context) error {
	known := l.known.Load()
	v, err := l.say(ctx, "1")
	if err != nil {
		return err
	}
	if step := l.adopt(v.now); step || v.generation != known.generation {
		return &lostError{known: known.beat, found: v.before, moment: v.now}
	}
	l.known.Store(&v.known)
	return nil
}

// said is what the server says to a beat.
type said struct {
	known
	now, before int64
}

// say says that this node lives ("1") or leaves ("").
func (l *Limiter) say(ctx context.Context, alive string) (said, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := beatScript.run(ctx, l.conn, []string{l.beatKey(), l.nodesKey()}, l.clock(), l.o.Node, alive,
		l.known.Load().beat)
	if err != nil {
		return said{}, err
	}
	if len(v) != 4 {
		return said{}, fmt.Errorf("the server answered a beat with %v", v)
	}
	l.nodes.Store(max(1, v[2]))
	return said{known: known{generation: v[3], beat: v[0]}, now: v[0], before: v[1]}, nil
}

// adopt takes up the server's clock, and reports whether it is another one than before.
func (l *Limiter) adopt(now int64) (step bool) {
	by := now - l.state.estimate(l.elapsed())
	l.state.offset.Add(by)
	known := l.state.known.Swap(true)
	if known && -clockStep < by && by < clockStep {
		return false
	}
	l.own.shift(by)
	return known
}

// tryResume tries to reach the server, and gives it what this node knows when it answers in time.
func (l *Limiter) tryResume() {
	err := l.resume(l.ctx)
	if err != nil && l.ctx.Err() == nil {
		l.stayAway(err)
	}
}

func (l *Limiter) resume(ctx context.Context) error {
	if err := l.prepare(ctx); err != nil {
		return err
	}
	began := time.Now()
	v, err := l.say(ctx, "1")
	if err != nil {
		return err
	}
	if took := time.Since(began); took > l.conn.Timeout() {
		return fmt.Errorf("it takes %v to answer, and a question waits for %v at most: raise `timeout` in the block, or "+
			"give it a server that is nearer or has less to do", took.Round(time.Millisecond), l.conn.Timeout())
	}
	if !l.state.lost.Swap(false) && v.before < l.known.Load().beat {
		l.count.losses.Add(1)
		l.log.Warn("the limiter's server had lost what was counted: the nodes give it what they know")
	}
	l.adopt(v.now)
	l.known.Store(&v.known)
	if err := errors.Join(l.renew(ctx), l.tell(ctx)); err != nil {
		return err
	}
	l.comeBack()
	if err := l.seed(ctx); err != nil {
		l.note(err)
		return nil // it is away again, and that was said
	}
	l.state.settleTo.Store(l.elapsed() + max(v.generation-v.now+settling.Microseconds(), settlingLeast.Microseconds()))
	return nil
}

// prepare connects, looks at what server it is, and gives it the scripts.
func (l *Limiter) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := l.conn.Inspect(ctx)
	switch {
	case err != nil && strings.Contains(err.Error(), "NOPERM"):
		// Then nobody can tell.
	case err != nil:
		return err
	case !s.Suffices():
		return fmt.Errorf("it is Redis %s, and 6.2 at least is needed: upgrade it, or write another url", s.Version)
	case s.Eviction != "noeviction" && s.Eviction != "" && !l.state.known.Load():
		l.log.Warn("the limiter's server throws keys away when its memory is full, and with them what was counted: set "+
			"maxmemory-policy noeviction there, or give the limiter a server of its own", "maxmemory_policy", s.Eviction)
	}
	return l.load(ctx)
}

// load gives the server the scripts, on a Cluster each of its nodes.
func (l *Limiter) load(ctx context.Context) error {
	scripts := []script{acquireScript, undoScript, seedScript, renewScript, beatScript}
	if !l.clustered() {
		return l.send(ctx, func(p redis.Pipeliner) {
			for _, s := range scripts {
				p.ScriptLoad(ctx, s.text) // not Load, which takes the digest from an answer that is not there yet
			}
		})
	}
	for _, s := range scripts {
		if err := l.conn.ScriptLoad(ctx, s.text).Err(); err != nil {
			return err
		}
	}
	return nil
}

// send sends commands in messages of some, and reports the first that failed.
func (l *Limiter) send(ctx context.Context, add func(redis.Pipeliner)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := l.conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		add(p)
		return nil
	})
	return err
}

// tell tells the server of the permits that were given back.
func (l *Limiter) tell(ctx context.Context) error {
	for all := l.leases.toTell(); len(all) > 0; {
		some := all[:min(len(all), mostInMessage)]
		all = all[len(some):]
		err := l.send(ctx, func(p redis.Pipeliner) {
			for _, b := range some {
				p.ZRem(ctx, b.semaphore, b.members...)
			}
		})
		if err != nil {
			return err
		}
		l.leases.told(some)
	}
	return nil
}

// renew renews the leases of all permits that are out.
func (l *Limiter) renew(ctx context.Context) error {
	for all := l.leases.held(); len(all) > 0; {
		some := all[:min(len(all), mostInMessage)]
		all = all[len(some):]
		err := l.send(ctx, func(p redis.Pipeliner) {
			for _, b := range some {
				renewScript.EvalSha(ctx, p, []string{b.semaphore}, append([]any{l.clock()}, b.members...)...)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// seed gives the server the moments that this node knows of.
func (l *Limiter) seed(ctx context.Context) error {
	type part struct {
		key  string
		args []any
	}
	var parts []part
	beat := time.Now()
	flush := func() error {
		if len(parts) == 0 {
			return nil
		}
		err := l.send(ctx, func(p redis.Pipeliner) {
			for _, s := range parts {
				seedScript.EvalSha(ctx, p, []string{s.key}, s.args...)
			}
		})
		parts = parts[:0]
		if err == nil && time.Since(beat) > beatEvery {
			beat = time.Now()
			err = l.pulse(ctx)
		}
		return err
	}
	err := l.own.each(l.state.estimate(l.elapsed()), func(key string, all []int64) error {
		for len(all) > 0 {
			some := all[:min(len(all), 5000)]
			all = all[len(some):]
			args := make([]any, 1, 1+len(some))
			args[0] = l.clock()
			for _, m := range some {
				args = append(args, m)
			}
			parts = append(parts, part{key, args})
		}
		if len(parts) >= mostInMessage {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// leave gives back what this process has in the server.
func (l *Limiter) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := l.tell(ctx)
	if err == nil {
		err = l.send(ctx, func(p redis.Pipeliner) {
			for _, b := range l.leases.held() {
				p.ZRem(ctx, b.semaphore, b.members...)
			}
		})
	}
	if err == nil {
		_, err = l.say(ctx, "")
	}
	if err != nil {
		l.log.Warn("what this node has in the limiter's server stays until it lapses there, half a minute at most",
			"error", redisconn.Explain(err))
	}
}
