package alerts

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// clock is one that tests turn, and that wakes who waits for it.
type clock struct {
	mu      sync.Mutex
	now     time.Time
	waiting []waiter
	asked   chan struct{} // gets one for each wait that begins
}

type waiter struct {
	at time.Time
	ch chan time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2026, time.November, 27, 1, 0, 0, 0, time.UTC), asked: make(chan struct{}, 1000)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := waiter{c.now.Add(d), make(chan time.Time, 1)}
	c.waiting = append(c.waiting, w)
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return w.ch
}

func (c *clock) turn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	left := c.waiting[:0]
	for _, w := range c.waiting {
		if w.at.After(c.now) {
			left = append(left, w)
		} else {
			w.ch <- c.now
		}
	}
	c.waiting = left
}

// bench is a service with what it is made of.
type bench struct {
	*Service
	clock *clock

	mu   sync.Mutex
	cfg  config.Alerts
	seen map[string]Seen
}

func newBench(t *testing.T, dir string, cfg config.Alerts) *bench {
	t.Helper()
	b := &bench{clock: newClock(), cfg: cfg, seen: make(map[string]Seen)}
	b.Service = New(Options{Dir: dir, Gateway: "desk", Now: b.clock.Now, After: b.clock.After,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Config: func() config.Alerts {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.cfg
		},
		Look: func(context.Context, func(string) []string) map[string]Seen {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.seen
		}})
	return b
}

// finds says what is so from the next look on.
func (b *bench) finds(event string, f ...Finding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := make(map[string]Seen)
	for _, name := range config.AlertEventNames() {
		if name != undelivered {
			fresh[name] = b.seen[name]
		}
	}
	fresh[event] = Seen{Findings: f}
	b.seen = fresh
}

func (b *bench) configure(cfg config.Alerts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cfg = cfg
}

// begin starts it, and ends it with the test.
func (b *bench) begin(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	b.Start(ctx)
	t.Cleanup(func() { stop(); b.Close() })
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ"

func hook(name, url string) config.Webhook {
	return config.Webhook{Name: name, URL: url, Secrets: []string{secret}, Timeout: 2 * time.Second}
}

// untilTrue turns the clock until something is so: other goroutines take their time to come to the next wait.
func (b *bench) untilTrue(t *testing.T, step time.Duration, is func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		if is() {
			return true
		}
		b.clock.turn(step)
		return false
	}, 20*time.Second, 2*time.Millisecond)
}
