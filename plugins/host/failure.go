package host

import (
	"errors"
	"fmt"
	"time"
)

// Cause is why a provider's process had to be started again.
type Cause string

const (
	CauseCrash     Cause = "crash"      // it ended by itself, or somebody killed it
	CauseHang      Cause = "hang"       // it did not answer health checks
	CauseMemory    Cause = "memory"     // it took more than its max_memory
	CauseProtocol  Cause = "protocol"   // it broke the plugin protocol again and again
	CauseSlowStart Cause = "slow_start" // it was not ready within its start_timeout
	CauseHandshake Cause = "handshake"  // what it printed on stdout was no handshake, or one of another version
	CauseStart     Cause = "start"      // it did not start for any other reason, such as its settings
)

// failure is an error with its cause.
type failure struct {
	cause Cause
	err   error
	// gentle: the process may go on with what it does until its successor has taken over.
	gentle bool
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(cause Cause, format string, args ...any) *failure {
	return &failure{cause: cause, err: fmt.Errorf(format, args...)}
}

// causeOf is the cause of a failed start.
func causeOf(err error) Cause {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.cause
	}
	return CauseStart
}

// Crash is the end of a process that was still wanted, a failed start, or why a process was replaced.
type Crash struct {
	At    time.Time
	Cause Cause
	Why   string // with its last words
}

// failed notes why the process, or a start, has failed.
func (p *Plugin) failed(err error) {
	cause := causeOf(err)
	p.mu.Lock()
	p.crash = &Crash{At: p.host.clock.Now(), Cause: cause, Why: err.Error()}
	p.failures[cause]++
	p.mu.Unlock()
	p.host.onFailure(p.spec.Name, cause)
}
