package alerts

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/clocktest"
)

// bench is a service with what it is made of.
type bench struct {
	*Service
	clock *clocktest.Clock

	mu   sync.Mutex
	cfg  config.Alerts
	seen map[string]Seen
	// owners are addresses by account, and log is what is written there.
	owners map[string][]string
	log    *strings.Builder
}

func newBench(t *testing.T, dir string, cfg config.Alerts) *bench {
	t.Helper()
	b := &bench{clock: clocktest.New(begin), cfg: cfg, seen: make(map[string]Seen), log: new(strings.Builder)}
	b.Service = New(Options{Dir: dir, Gateway: "desk", Now: b.clock.Now, After: b.clock.After,
		Log: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), b.log), nil)),
		Config: func() config.Alerts {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.cfg
		},
		Owners: func(_ context.Context, account string) ([]string, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if account == "unreadable" {
				return nil, errors.New("the ledger is away")
			}
			return b.owners[account], nil
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
		b.clock.Turn(step)
		return false
	}, 20*time.Second, 2*time.Millisecond)
}

// also says what is so of a further event.
func (b *bench) also(event string, s Seen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh := maps.Clone(b.seen)
	fresh[event] = s
	b.seen = fresh
}
