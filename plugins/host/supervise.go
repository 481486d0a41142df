package host

import (
	"context"
	"fmt"
	"time"

	"github.com/fareway/fareway/plugins/internal/proto"
)

const (
	healthInterval = 10 * time.Second
	healthTimeout  = 5 * time.Second
	// A process that leaves this many health checks in a row unanswered hangs, and is killed.
	healthMisses = 3
)

// supervision is a plugin's life: one process after the other until the last Release or the host's end. One goroutine
// runs it, and it alone changes the plugin's state.
type supervision struct {
	*Plugin
	pause  backoff
	proc   *process  // nil while there is none
	since  time.Time // it has served
	health <-chan time.Time
	missed int // health checks in a row

	retry <-chan time.Time // the pause before the next process is started; nil when there is none to be started
	next  <-chan started   // the next process is being started
}

// started is what came of a start.
type started struct {
	proc *process
	err  error
}

// run is the whole of a plugin's life.
func (p *Plugin) run() {
	defer p.unwant(errReleased)
	defer p.enter(Stopped, nil)
	defer p.retiring.Wait()
	p.enter(Starting, nil)
	proc, err := p.start()
	if err != nil {
		p.startErr = err
		p.host.leave(p) // whoever is told may try again at once
		close(p.started)
		return
	}
	s := &supervision{Plugin: p}
	s.serve(proc)
	close(p.started)
	for s.handleNext() {
	}
}

// handleNext deals with the next thing that happens; false when it was the last one.
func (s *supervision) handleNext() bool {
	var exited <-chan struct{}
	var unfit <-chan *failure
	if s.proc != nil {
		exited, unfit = s.proc.child.exited, s.proc.unfit
	}
	select {
	case <-s.wanted.Done():
		s.end()
		return false
	case <-exited:
		s.processGone(s.proc.ending())
	case f := <-unfit:
		if s.retry == nil && s.next == nil {
			s.pause.ran(s.host.clock.Now().Sub(s.since))
			s.failed(f)
			s.restartLater(f)
		}
	case <-s.health:
		s.checkHealth()
	case <-s.retry:
		s.retry = nil
		if s.proc == nil {
			s.enter(Starting, nil)
		}
		next := make(chan started, 1)
		s.next = next
		go func() {
			proc, err := s.startAgain()
			next <- started{proc, err}
		}()
	case r := <-s.next:
		s.next = nil
		if r.err == nil {
			s.serve(r.proc)
		} else if s.wanted.Err() == nil {
			s.failed(r.err)
			if s.proc == nil {
				s.enter(Restarting, nil)
			}
			s.restartLater(r.err)
		}
	}
	return true
}

// serve lets a process that is ready take the requests from now on. The one that did so until now drains.
func (s *supervision) serve(proc *process) {
	old := s.proc
	s.noteStart(proc)
	s.log.Info("provider started", "pid", proc.child.ID(), "version", line(proc.about.GetVersion()))
	if missing := s.spec.Confine.Missing(); len(missing) > 0 {
		s.log.Warn("provider is not confined as its confine block says", "missing", missing)
	}
	s.proc, s.since, s.missed = proc, s.host.clock.Now(), 0
	s.enter(Ready, proc)
	s.health = s.host.clock.After(healthInterval)
	if s.spec.MaxMemory > 0 {
		go s.watchMemory(proc)
	}
	if old != nil {
		s.retiring.Go(func() { s.drain(old) })
	}
}

// processGone is for a process that is gone, or has to go at once.
func (s *supervision) processGone(f *failure) {
	proc := s.proc
	s.proc, s.health = nil, nil
	s.failed(f)
	s.enter(Restarting, nil)
	proc.kill()
	s.pause.ran(s.host.clock.Now().Sub(s.since))
	if s.retry == nil && s.next == nil {
		s.restartLater(f)
	}
}

// restartLater has the next process started after a pause.
func (s *supervision) restartLater(err error) {
	wait := s.pause.next()
	if s.proc == nil {
		s.log.Error("provider failed; starting it again", "cause", causeOf(err), "error", err, "in", wait)
	} else {
		s.log.Error("provider failed; starting another process, which takes over when it is ready", "cause", causeOf(err),
			"error", err, "in", wait)
	}
	s.retry = s.host.clock.After(wait)
}

// end ends all processes, the streams of the one that serves last.
func (s *supervision) end() {
	if s.next != nil {
		if r := <-s.next; r.err == nil {
			r.proc.kill()
		}
	}
	if s.proc != nil {
		s.enter(Draining, s.proc)
		s.drain(s.proc)
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

// startAgain is start for a plugin whose file may have changed. There is no other content to start it from, so what is
// there is started, unless the operator pinned its digest.
func (p *Plugin) startAgain() (*process, error) {
	exe, err := p.host.find(p.spec.Source)
	if err != nil {
		return nil, err
	}
	exe.confine, exe.telemetry = p.spec.Confine, p.spec.Telemetry
	if exe.digest != p.exe.digest {
		p.log.Warn("the plugin's file has changed; starting it as it is now", "file", exe.argv[0], "sha256", exe.digest)
		p.host.rekey(p, exe)
	}
	return p.start()
}

// start starts one process, ready to take requests. It gives up when nobody needs it any more.
func (p *Plugin) start() (*process, error) {
	ctx, cancel := withStartTimeout(p.wanted, p.spec.StartTimeout)
	defer cancel()
	proc, err := launch(ctx, p.exe, &p.host.scrub, p.log)
	if err != nil {
		return nil, err
	}
	if err := proc.configure(ctx, p.spec.Settings); err != nil {
		proc.kill()
		return nil, err
	}
	if f := p.checkRestMemory(proc); f != nil {
		proc.kill()
		return nil, f
	}
	return proc, nil
}

// noteStart notes a process that is ready.
func (p *Plugin) noteStart(proc *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.about != nil {
		p.restarts++
	}
	p.about, p.since, p.problem = proc.about, p.host.clock.Now(), ""
}

// note notes why the provider does not take requests.
func (p *Plugin) note(problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problem = problem
}

// checkHealth asks the process how it is. One that does not answer gets no requests until it does.
func (s *supervision) checkHealth() {
	problem, err := s.askHealth()
	if err != nil {
		select {
		case <-s.proc.child.exited:
			return // the next step finds out why
		default:
		}
		if s.missed++; s.missed == healthMisses {
			s.proc.condemn(fail(CauseHang, "it did not answer %d health checks in a row (%s)", s.missed,
				s.proc.child.scrub.clean(err.Error())))
		} else if s.missed > healthMisses {
			s.processGone(s.proc.ending()) // the kernel does not let go of it
			return
		}
		problem = "it did not answer its last health check"
	} else {
		s.missed = 0
	}
	s.note(problem)
	state := Ready
	if problem != "" {
		state = Unhealthy
	}
	if state != s.State() {
		s.log.Warn("provider's health changed", "state", state, "problem", problem)
		s.enter(state, s.proc)
	}
	s.health = s.host.clock.After(healthInterval)
}

func (s *supervision) askHealth() (problem string, err error) {
	ctx, cancel := context.WithCancelCause(s.wanted)
	defer cancel(nil)
	go func() {
		select {
		case <-s.host.clock.After(healthTimeout):
			cancel(fmt.Errorf("no answer within %s", healthTimeout))
		case <-ctx.Done():
		}
	}()
	health, err := s.proc.rpc.Health(ctx, &proto.HealthRequest{})
	switch {
	case err == nil:
		return s.proc.child.scrub.clean(health.GetError()), nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	return "", err
}

// drain lets the streams of a process that gets no more go on, to the last one or to the drain timeout, and ends it.
func (p *Plugin) drain(proc *process) {
	p.mu.Lock()
	timeout := p.spec.DrainTimeout
	p.mu.Unlock()
	idle := p.idle(proc)
	select {
	case <-idle:
	default:
		select {
		case <-idle:
		case <-p.host.clock.After(timeout):
		case <-p.host.life.Done():
		case <-proc.child.exited:
		}
	}
	proc.stop()
}
