package host

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/internal/proto"
)

// State is what a provider's process is doing.
type State string

const (
	Starting   State = "starting"
	Ready      State = "ready"
	Unhealthy  State = "unhealthy"  // it runs, and says that it cannot take requests
	Restarting State = "restarting" // it died; the next one starts after a pause
	Draining   State = "draining"   // released; its last streams go on
	Stopped    State = "stopped"    // for good
)

// Capabilities are what a provider can do beside Generate.
type Capabilities struct {
	CancelUsage bool // Stream.Cancel ends with proven usage
	CountTokens bool
	Receipts    bool
	Endpoint    bool // it says where calls go, see Plugin.Carry
	Models      bool // it lists what its upstream offers
	Screen      bool // it judges requests by a content policy
	Predict     bool // it compares routes for requests
}

// Names are those that it has, as the protocol calls them.
func (c Capabilities) Names() []string {
	names := []string{}
	for _, one := range [...]struct {
		name string
		has  bool
	}{
		{"cancel_usage", c.CancelUsage}, {"count_tokens", c.CountTokens}, {"receipts", c.Receipts},
		{"endpoint", c.Endpoint}, {"models", c.Models}, {"screen", c.Screen}, {"predict", c.Predict},
	} {
		if one.has {
			names = append(names, one.name)
		}
	}
	return names
}

// Plugin is a provider that runs: one process at a time, started again when it dies.
type Plugin struct {
	host *Host
	key  string     // behind the host's mu
	spec Spec       // DrainTimeout is behind mu
	exe  executable // the goroutine of run changes it, with mu held
	log  *slog.Logger

	started  chan struct{}   // closed when the first start has succeeded or failed
	startErr error           // why it failed; read after started is closed
	wanted   context.Context // ends with the last Release, or with the host
	unwant   context.CancelCauseFunc
	retiring sync.WaitGroup // processes that were replaced, and drain

	source endpoint.Source // of the calls that the host makes

	mu      sync.Mutex
	refs    int
	state   State
	proc    *process // that takes requests; nil while there is none
	caps    Capabilities
	streams int // of all its processes

	about    *proto.DescribeResponse // of the last process that was ready; nil before
	since    time.Time               // of that process
	problem  string                  // why it is unhealthy
	restarts int
	failures map[Cause]int
	crash    *Crash       // the last one; nil
	carrying atomic.Int64 // attempts that the host makes for it

	violations violations
}

func newPlugin(h *Host, key string, spec Spec, exe executable) *Plugin {
	p := &Plugin{
		host: h, key: key, spec: spec, exe: exe, refs: 1, state: Starting,
		log:      h.log.With("provider", spec.Name, "plugin", spec.Source.Plugin),
		started:  make(chan struct{}),
		failures: make(map[Cause]int),
	}
	p.wanted, p.unwant = context.WithCancelCause(h.life)
	p.source.Ask, p.source.Now = p.askEndpoint, h.clock.Now
	return p
}

var errReleased = errors.New("it was released")

// share takes one more reference; the newest drain timeout counts. The host's lock is held, so that the last
// release cannot come in between.
func (p *Plugin) share(drain time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refs++
	p.spec.DrainTimeout = drain
}

// Release gives one reference back. After the last one the plugin takes no more requests, its streams may go
// on for the spec's DrainTimeout, and then its process ends. It does not wait for that.
func (p *Plugin) Release() {
	p.host.mu.Lock()
	p.mu.Lock()
	p.refs--
	last := p.refs == 0
	if last && p.host.pool[p.key] == p {
		delete(p.host.pool, p.key)
	}
	p.mu.Unlock()
	p.host.mu.Unlock()
	if last {
		p.unwant(errReleased)
	}
}

// State tells what the provider is doing.
func (p *Plugin) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Ready reports whether the provider takes requests.
func (p *Plugin) Ready() bool { return p.State() == Ready }

// Capabilities tells what the provider can do beside Generate.
func (p *Plugin) Capabilities() Capabilities {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.caps
}

// lease takes part in the process for one call. The caller gives it back by returned.
func (p *Plugin) lease() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refusal(); err != nil {
		return nil, err
	}
	p.streams++
	p.proc.streams++
	return p.proc, nil
}

// returned gives a lease back.
func (p *Plugin) returned(proc *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams--
	proc.streams--
	if proc.streams == 0 && proc.idle != nil {
		close(proc.idle)
		proc.idle = nil
	}
}

// idle returns a channel that is closed when the process, which gets no more calls, has none left.
func (p *Plugin) idle(proc *process) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := make(chan struct{})
	if proc.streams == 0 {
		close(idle)
	} else {
		proc.idle = idle
	}
	return idle
}
