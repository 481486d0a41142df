package host

import (
	"context"
	"errors"
	"fmt"
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

const (
	healthInterval = 10 * time.Second
	healthTimeout  = 5 * time.Second
	// A process that leaves this many health checks in a row unanswered hangs, and is killed.
	healthMisses = 3
)

// Capabilities are what a provider can do beside Generate.
type Capabilities struct {
	CancelUsage bool // Stream.Cancel ends with proven usage
	CountTokens bool
	Receipts    bool
	Endpoint    bool // it says where calls go, see Plugin.Carry
	Attempted   bool // it wants to know of attempts that the host carried
}

// Plugin is a provider that runs: one process at a time, started again when it dies.
type Plugin struct {
	host *Host
	key  string
	spec Spec // DrainTimeout is behind mu
	exe  executable
	log  *slog.Logger

	started  chan struct{}   // closed when the first start has succeeded or failed
	startErr error           // why it failed; read after started is closed
	wanted   context.Context // ends with the last Release, or with the host
	unwant   context.CancelCauseFunc
	idle     chan struct{} // capacity 1: the last stream of a released plugin has ended

	source  endpoint.Source // of the calls that the host makes
	telling sync.Mutex      // one at a time tells the provider of attempts

	mu      sync.Mutex
	refs    int
	state   State
	proc    *process // nil while there is none
	caps    Capabilities
	streams int

	about    *proto.DescribeResponse // of the last process that was ready; nil before
	since    time.Time               // of that process
	problem  string                  // why it is unhealthy, as it says
	restarts int
	crash    *Crash       // the last one; nil
	carrying atomic.Int64 // attempts that the host makes for it

	untold []*proto.CarriedAttempt // attempts that the provider is to be told of
	teller bool                    // somebody is about to
}

func newPlugin(h *Host, key string, spec Spec, exe executable) *Plugin {
	p := &Plugin{
		host: h, key: key, spec: spec, exe: exe, refs: 1, state: Starting,
		log:     h.log.With("provider", spec.Name, "plugin", spec.Source.Plugin),
		started: make(chan struct{}),
		idle:    make(chan struct{}, 1),
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

// run is the plugin's life: one process after the other until the last Release or the host's end.
func (p *Plugin) run() {
	defer p.unwant(errReleased)
	defer p.enter(Stopped, nil)
	var pause backoff
	for first := true; ; first = false {
		p.enter(Starting, nil)
		proc, err := p.start()
		if first && err != nil {
			p.startErr = err
			p.host.leave(p) // whoever is told may try again at once
			close(p.started)
			return
		}
		if err == nil {
			p.noteStart(proc, first)
			p.log.Info("provider started", "pid", proc.child.ID(), "version", proc.about.GetVersion())
			since := p.host.clock.Now()
			p.enter(Ready, proc)
			if first {
				close(p.started)
			}
			if err = p.watch(proc); err == nil {
				p.drain(proc)
				return
			}
			p.crashed(err)
			p.enter(Restarting, nil)
			proc.kill()
			pause.ran(p.host.clock.Now().Sub(since))
		} else {
			p.crashed(err)
		}
		if p.wanted.Err() != nil {
			return
		}
		wait := pause.next()
		p.log.Error("provider failed; starting it again", "error", err, "in", wait)
		p.enter(Restarting, nil)
		select {
		case <-p.host.clock.After(wait):
		case <-p.wanted.Done():
			return
		}
	}
}

// enter changes the state. proc is the process that takes requests from now on.
func (p *Plugin) enter(s State, proc *process) {
	p.mu.Lock()
	changed := p.state != s || s == Starting
	p.state, p.proc = s, proc
	if proc != nil {
		p.caps = capabilitiesOf(proc.about.GetCapabilities())
	}
	p.mu.Unlock()
	if changed {
		p.host.onState(p.spec.Name, s)
	}
}

// start starts one process, ready to take requests. It gives up when nobody needs it any more.
func (p *Plugin) start() (*process, error) {
	ctx, cancel := withStartTimeout(p.wanted, p.spec.StartTimeout)
	defer cancel()
	proc, err := launch(ctx, p.exe, p.log)
	if err != nil {
		return nil, err
	}
	if err := proc.configure(ctx, p.spec.Settings); err != nil {
		proc.kill()
		return nil, err
	}
	return proc, nil
}

// watch returns nil when the process is no longer wanted, or why it is no longer of use.
func (p *Plugin) watch(proc *process) error {
	missed := 0
	for {
		select {
		case <-proc.child.exited:
			return errors.New(proc.death(nil))
		case <-p.wanted.Done():
			return nil
		case <-p.host.clock.After(healthInterval):
			answered, problem := p.checkHealth(proc)
			if answered {
				missed = 0
			} else if missed++; missed == healthMisses {
				return fmt.Errorf("it did not answer %d health checks in a row", missed)
			}
			state := Ready
			if problem != "" {
				state = Unhealthy
			}
			if answered {
				p.note(problem)
			}
			if state != p.State() && answered {
				p.log.Warn("provider's health changed", "state", state, "problem", problem)
				p.enter(state, proc)
			}
		}
	}
}

// noteStart notes a process that is ready.
func (p *Plugin) noteStart(proc *process, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.about, p.since, p.problem = proc.about, p.host.clock.Now(), ""
	if !first {
		p.restarts++
	}
}

// note notes what the provider says of its health.
func (p *Plugin) note(problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problem = problem
}

func (p *Plugin) checkHealth(proc *process) (answered bool, problem string) {
	ctx, cancel := context.WithCancel(p.wanted)
	defer cancel()
	go func() {
		select {
		case <-p.host.clock.After(healthTimeout):
			cancel()
		case <-ctx.Done():
		}
	}()
	health, err := proc.rpc.Health(ctx, &proto.HealthRequest{})
	if err != nil {
		return false, ""
	}
	return true, proc.child.scrub.clean(health.GetError())
}

// drain lets the streams of a released process go on, to the last one or to the drain timeout, and ends it.
func (p *Plugin) drain(proc *process) {
	p.enter(Draining, proc)
	p.mu.Lock()
	idle, timeout := p.streams == 0, p.spec.DrainTimeout
	p.mu.Unlock()
	if !idle {
		select {
		case <-p.idle:
		case <-p.host.clock.After(timeout):
		case <-p.host.life.Done():
		case <-proc.child.exited:
		}
	}
	proc.stop()
}

// lease takes part in the process for one call. The caller gives it back by returned.
func (p *Plugin) lease() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refusal(); err != nil {
		return nil, err
	}
	p.streams++
	return p.proc, nil
}

// returned gives a lease back.
func (p *Plugin) returned() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams--
	if p.streams == 0 && p.state == Draining {
		select {
		case p.idle <- struct{}{}:
		default:
		}
	}
}
