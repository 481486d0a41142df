package endpoint

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

// renewBefore is how long before its end an endpoint is asked for anew, while the old one is used.
const renewBefore = 30 * time.Second

// maxModels bounds the models whose endpoints are kept.
const maxModels = 1024

// Source hands out the endpoint of each upstream model. It asks for one when it has none that is valid, once for all
// who wait. It may be used concurrently.
type Source struct {
	// Ask makes the endpoint of a model. refused says that the upstream did not take the credential of the last one.
	// Errors are *llm.Error, or count as a failure of the upstream.
	Ask func(ctx context.Context, model string, refused bool) (*Endpoint, error)
	// Now is the time, nil for that of the system.
	Now func() time.Time

	mu     sync.Mutex
	models map[string]*entry
}

// entry is the endpoint of one model.
type entry struct {
	endpoint *Endpoint     // nil while there was none
	asking   chan struct{} // closed when the question at hand is answered; nil when none is
	err      error         // of the last answer
}

func (s *Source) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Valid reports whether calls could begin without asking anybody: there is an endpoint, of any model, that is valid.
func (s *Source) Valid() bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.models {
		if e.endpoint.valid(now) {
			return true
		}
	}
	return false
}

// Refuses reports whether the upstream of a model is known to refuse that, see llm.Restrictions, without asking
// anybody.
func (s *Source) Refuses(model, restriction string) bool {
	s.mu.Lock()
	var e *Endpoint
	if kept := s.models[model]; kept != nil {
		e = kept.endpoint
	}
	s.mu.Unlock()
	return e != nil &&
		(slices.Contains(e.Refuses, restriction) || slices.Contains(e.codec().refuses(e, model), restriction))
}

func (e *Endpoint) valid(now time.Time) bool {
	return e != nil && (e.Expires.IsZero() || now.Before(e.Expires))
}

// Proves reports whether the upstream of a model says what it has done before its reply has ended, see Call.Stop. It
// asks for the endpoint where there never was one; one that cannot be had proves nothing, and is not waited for here
// again.
func (s *Source) Proves(ctx context.Context, model string) bool {
	s.mu.Lock()
	known := s.entry(model)
	e, failed := known.endpoint, known.err
	s.mu.Unlock()
	if e == nil && failed == nil {
		e, _ = s.get(ctx, model, nil)
	}
	return e != nil && e.Timings
}

// Endpoint returns the endpoint of a model, and asks for it where there is none that is valid.
func (s *Source) Endpoint(ctx context.Context, model string) (*Endpoint, error) {
	return s.get(ctx, model, nil)
}

// cachedEndpoint returns the endpoint of a model, nil when nobody can say without being asked. One that nears its end
// is handed out while a new one is asked for.
func (s *Source) cachedEndpoint(ctx context.Context, model string) *Endpoint {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(model)
	if !e.endpoint.valid(now) {
		return nil
	}
	if !e.endpoint.valid(now.Add(renewBefore)) {
		s.begin(ctx, model, false, e)
	}
	return e.endpoint
}

// get asks for the endpoint of a model, unless there is a valid one. refused is one that the upstream did not take.
func (s *Source) get(ctx context.Context, model string, refused *Endpoint) (*Endpoint, error) {
	s.mu.Lock()
	e := s.entry(model)
	if have := e.endpoint; have != refused && have.valid(s.now()) {
		s.mu.Unlock()
		return have, nil
	}
	answered := s.begin(ctx, model, refused != nil, e)
	s.mu.Unlock()
	select {
	case <-answered:
	case <-ctx.Done():
		return nil, callerError(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.err != nil {
		return nil, e.err
	}
	return e.endpoint, nil
}

// begin asks for an endpoint, unless somebody has. It is called with the lock held, and returns what is closed when
// there is an answer.
func (s *Source) begin(ctx context.Context, model string, refused bool, e *entry) <-chan struct{} {
	if e.asking == nil {
		e.asking = make(chan struct{})
		// Whoever asks first may leave, and the others still wait.
		go s.ask(context.WithoutCancel(ctx), model, refused, e)
	}
	return e.asking
}

// entry is called with the lock held.
func (s *Source) entry(model string) *entry {
	e := s.models[model]
	if e == nil {
		if s.models == nil {
			s.models = make(map[string]*entry)
		}
		if len(s.models) >= maxModels {
			clear(s.models)
		}
		e = &entry{}
		s.models[model] = e
	}
	return e
}

// askTimeout bounds a question for an endpoint: it may fetch a token from somewhere.
const askTimeout = 30 * time.Second

func (s *Source) ask(ctx context.Context, model string, refused bool, e *entry) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	endpoint, err := s.Ask(ctx, model, refused)
	if err == nil {
		if problem := endpoint.Check(s.now()); problem != nil {
			err = llm.Errorf(llm.ErrProtocol, "the provider's endpoint cannot be used: %v", problem)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.err = err; err == nil {
		e.endpoint = endpoint
	}
	close(e.asking)
	e.asking = nil
}
