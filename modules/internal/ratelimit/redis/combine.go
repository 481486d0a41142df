package redis

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/fareway/fareway/modules/internal/redisconn"
)

// combiner sends scripts of requests that come at the same time in one message: most of what one costs, here and in
// the server, is its message. Who comes while few are on their way sends at once, and with it what waits; who comes
// while they are waits for one of them to come back.
type combiner struct {
	conn *redisconn.Conn

	mu      sync.Mutex
	waiting []*call
	sending int
}

// mostSending is how many messages are on their way at a time, and mostCombined how many scripts one has.
const (
	mostSending  = 4
	mostCombined = 64
)

// call is a script that is to be run.
type call struct {
	script  script
	keys    []string
	args    []any
	done    chan struct{}
	numbers []int64
	err     error
	left    atomic.Bool // nobody waits for it any more
}

// run runs a script, with others.
func (c *combiner) run(ctx context.Context, s script, keys []string, args ...any) ([]int64, error) {
	one := &call{script: s, keys: keys, args: args, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, one)
	if c.sending < mostSending {
		c.sending++
		batch := c.next()
		c.mu.Unlock()
		c.send(batch)
		c.goOn()
	} else {
		c.mu.Unlock()
	}
	select {
	case <-one.done:
		return one.numbers, one.err
	case <-ctx.Done():
		one.left.Store(true)
		return nil, ctx.Err()
	}
}

// next is what is sent next. The lock is held.
func (c *combiner) next() []*call {
	n := min(len(c.waiting), mostCombined)
	batch := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	if len(c.waiting) == 0 {
		c.waiting = nil
	}
	return batch
}

// goOn sends what has come meanwhile, aside.
func (c *combiner) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.sending--
		return
	}
	batch := c.next()
	go func() {
		c.send(batch)
		c.goOn()
	}()
}

// send sends scripts in one message, and hands out the answers.
func (c *combiner) send(batch []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), c.conn.Timeout())
	defer cancel()
	if len(batch) == 1 {
		one := batch[0]
		if !one.left.Load() {
			one.numbers, one.err = one.script.run(ctx, c.conn, one.keys, one.args...)
		}
		close(one.done)
		return
	}
	p := c.conn.Pipeline()
	answers := make([]*redis.Cmd, len(batch))
	for i, one := range batch {
		if !one.left.Load() {
			answers[i] = one.script.EvalSha(ctx, p, one.keys, one.args...)
		}
	}
	_, _ = p.Exec(ctx) // each command has its own error
	for i, one := range batch {
		if answers[i] != nil {
			one.numbers, one.err = readNumbers(answers[i].Result())
			if one.err != nil && strings.HasPrefix(one.err.Error(), "NOSCRIPT") {
				one.numbers, one.err = one.script.run(ctx, c.conn, one.keys, one.args...)
			}
		}
		close(one.done)
	}
}
