package host

import (
	"errors"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

// Violation is a way to break the plugin protocol.
type Violation string

const (
	ViolationOrder       Violation = "order"        // an event that must not come then, or not as it came
	ViolationEnd         Violation = "end"          // a stream without a finish, or with an end that nobody asked for
	ViolationAfterFinish Violation = "after_finish" // something behind the finish
	ViolationMessage     Violation = "message"      // a message that is too large
	ViolationStatus      Violation = "status"       // a gRPC status other than OK, or a broken connection
	ViolationAnswer      Violation = "answer"       // an answer that cannot be one
	ViolationLate        Violation = "late"         // no end within the time limit
)

// A process that breaks the protocol maxOffences times within offenceWindow is replaced. What is late does not count,
// for a slow upstream looks the same.
const (
	maxOffences   = 10
	offenceWindow = time.Minute
)

// quiet is how long the log tells of no other violation of the same provider; all of them are counted.
const quiet = 10 * time.Second

// violations are what a provider has broken.
type violations struct {
	count  map[Violation]int
	last   string
	logged time.Time
}

// offences are the times of the last violations of a process.
type offences struct {
	times [maxOffences]time.Time
	n     int
}

// add reports whether this one makes too many.
func (o *offences) add(now time.Time) bool {
	o.times[o.n%maxOffences] = now
	o.n++
	oldest := o.times[o.n%maxOffences]
	return o.n >= maxOffences && now.Sub(oldest) <= offenceWindow
}

// violated counts a violation of the protocol by a process, whose error says what it was.
func (p *Plugin) violated(proc *process, v Violation, err error) {
	if proc.stopping.Load() {
		return // it was us
	}
	what := err.Error()
	if typed, ok := errors.AsType[*llm.Error](err); ok {
		what = typed.Message
	}
	what = proc.child.scrub.clean(what)
	now := p.host.clock.Now()
	p.mu.Lock()
	if p.violations.count == nil {
		p.violations.count = make(map[Violation]int)
	}
	p.violations.count[v]++
	count, tell := p.violations.count[v], p.violations.last == "" || now.Sub(p.violations.logged) >= quiet
	p.violations.last = what
	if tell {
		p.violations.logged = now
	}
	tooMany := v != ViolationLate && proc.offences.add(now)
	p.mu.Unlock()
	p.host.onViolation(p.spec.Name, v)
	if tell {
		p.log.Warn("provider broke the plugin protocol", "violation", v, "problem", what, "count", count)
	}
	if tooMany {
		f := fail(CauseProtocol, "it broke the plugin protocol %d times within %s, the last time so: %s; %s", maxOffences,
			offenceWindow, what, proc.child.say)
		f.gentle = true
		proc.replace(f)
	}
}
