package endpoint

import (
	"context"
	"sync"
	"time"
)

// life is the context of a call: it has the values of the caller's, and ends when it is told to. For the one function
// that waits for its end, contexts of the standard library take a dozen allocations more.
type life struct {
	caller context.Context

	mu    sync.Mutex
	cause error         // why it has ended, nil while it lasts
	done  chan struct{} // nil until somebody asks for it
	hooks []func()      // what is called at its end; nil for what is not any more
	first [1]func()     // room for them
}

// end ends it for a reason, nil for context.Canceled. The first one counts.
func (l *life) end(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return
	}
	l.cause = cause
	if l.done != nil {
		close(l.done)
	}
	hooks := l.hooks
	l.mu.Unlock()
	for _, hook := range hooks { // which nobody changes any more
		if hook != nil {
			hook()
		}
	}
}

// why is the reason of the end, nil while there is none.
func (l *life) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// AfterFunc has f called at the end, unless it is stopped before: see context.AfterFunc, which uses it.
func (l *life) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		go f()
		return func() bool { return false }
	}
	if l.hooks == nil {
		l.hooks = l.first[:0]
	}
	at := len(l.hooks)
	l.hooks = append(l.hooks, f)
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.cause != nil || l.hooks[at] == nil {
			return false
		}
		l.hooks[at] = nil
		return true
	}
}

// Done implements context.Context.
func (l *life) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		if l.done = make(chan struct{}); l.cause != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err implements context.Context.
func (l *life) Err() error {
	if l.why() != nil {
		return context.Canceled
	}
	return nil
}

// Deadline implements context.Context.
func (*life) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value implements context.Context. By it context.Cause finds the caller: why this one has ended, why says.
func (l *life) Value(key any) any { return l.caller.Value(key) }
