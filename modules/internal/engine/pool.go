package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// pool is a provider with several keys, as a Backend: for each key a plugin of its own, whose settings have that key.
// So keys are the host's affair alone: every plugin can have them, whatever language and version of the protocol it is
// of, no plugin sees two credentials, and a process that ends takes one key with it. What that costs is a process for
// each key.
//
// A conversation stays on its key, for an upstream's prompt cache belongs to a key: weighted rendezvous hashing of the
// account and the conversation's beginning says in which order the keys are asked. A key that does not serve at the
// moment is passed over, and nothing is remembered of who went elsewhere.
type pool struct {
	name string       // the provider's
	keys []keyBackend // in the order of the configuration
	now  func() time.Time
}

// keyBackend is one key of a pool with its plugin.
type keyBackend struct {
	Backend
	plugin *host.Plugin
	key    *providerKey
	weight int64
}

// Keyed is the Stream of a provider with keys.
type Keyed interface {
	// Key is the name of the key that the attempt is made with.
	Key() string
}

// Ready implements Backend: one of its keys' plugins takes requests.
func (p *pool) Ready() bool {
	return slices.ContainsFunc(p.keys, func(l keyBackend) bool { return l.Ready() })
}

// ProvesCancel implements Backend. The plugins of a pool are one program.
func (p *pool) ProvesCancel(ctx context.Context, model string) bool {
	return p.keys[0].ProvesCancel(ctx, model)
}

// GivesReceipts implements Backend.
func (p *pool) GivesReceipts() bool { return p.keys[0].GivesReceipts() }

// Receipts implements Backend. The key that made an attempt knows of it: where nobody said which one that was, or it
// is gone, each is asked.
func (p *pool) Receipts(ctx context.Context, attempts []ledger.Waiting) ([]host.Receipt, error) {
	var found []host.Receipt
	var errs []error
	missing := slices.Clone(attempts)
	for _, l := range p.keys {
		var theirs []ledger.Waiting
		for _, a := range missing {
			if a.Key == l.key.name || !slices.ContainsFunc(p.keys, func(l keyBackend) bool { return a.Key == l.key.name }) {
				theirs = append(theirs, a)
			}
		}
		if len(theirs) == 0 {
			continue
		}
		receipts, err := l.Receipts(ctx, theirs)
		if err != nil {
			errs = append(errs, err)
		}
		found = append(found, receipts...)
		missing = slices.DeleteFunc(missing, func(a ledger.Waiting) bool {
			return slices.ContainsFunc(receipts, func(r host.Receipt) bool { return r.Attempt == a.Attempt })
		})
	}
	if len(missing) == 0 {
		return found, nil
	}
	return found, errors.Join(errs...)
}

// refuses implements refuser: the keys of a pool are for one service.
func (p *pool) refuses(model, restriction string) bool {
	return slices.ContainsFunc(p.keys, func(l keyBackend) bool {
		known, ok := l.Backend.(refuser)
		return ok && known.refuses(model, restriction)
	})
}

// info sums up how the plugins of the keys run.
func (p *pool) info() host.Info {
	var each []host.Info
	for _, l := range p.keys {
		each = append(each, l.plugin.Info())
	}
	all := sumOf(each)
	all.Provider = p.name
	return all
}

// sumOf is how several plugins run together: the state is that of the one that does best.
func sumOf(each []host.Info) host.Info {
	all := host.Info{Failures: make(map[host.Cause]int), Violations: make(map[host.Violation]int)}
	for i, one := range each {
		if i == 0 || one.State == host.Ready && all.State != host.Ready {
			all.Origin, all.About, all.State, all.Problem = one.Origin, one.About, one.State, one.Problem
			all.PID, all.Started, all.MaxMemory, all.Confine = one.PID, one.Started, one.MaxMemory, one.Confine
		}
		all.Memory += one.Memory
		all.Streams += one.Streams
		all.Restarts += one.Restarts
		if one.Crash != nil && (all.Crash == nil || all.Crash.At.Before(one.Crash.At)) {
			all.Crash = one.Crash
		}
		for cause, n := range one.Failures {
			all.Failures[cause] += n
		}
		for kind, n := range one.Violations {
			all.Violations[kind] += n
		}
		all.Violation = cmp.Or(one.Violation, all.Violation)
	}
	return all
}

// Generate implements Backend.
func (p *pool) Generate(ctx context.Context, account string, req *llm.Request) (Stream, error) {
	s := &pooled{pool: p, ctx: ctx, account: account, req: req, left: p.order(account, req)}
	if err := s.next(nil); err != nil {
		return nil, err
	}
	return s, nil
}

// order is the order in which a conversation asks the keys, as places in the pool's keys.
func (p *pool) order(account string, req *llm.Request) []int {
	places := make([]int, len(p.keys))
	for i := range places {
		places[i] = i
	}
	if len(places) < 2 {
		return places
	}
	scores := make([]float64, len(p.keys))
	beginning := beginningOf(account, req)
	for i, l := range p.keys {
		sum := sha256.Sum256(append(beginning[:], l.key.name...))
		// In (0, 1], with the 53 bits that a float64 has.
		u := (float64(binary.BigEndian.Uint64(sum[:])>>11) + 1) / (1 << 53)
		scores[i] = -float64(l.weight) / math.Log(u) // of 1: infinite
	}
	slices.SortStableFunc(places, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	return places
}

// beginningOf hashes what stays the same in a conversation: whose it is, and its beginning.
func beginningOf(account string, req *llm.Request) [sha256.Size]byte {
	h := sha256.New()
	text := func(s string) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(s)))
		_, _ = h.Write(length[:]) // a hash takes everything
		_, _ = h.Write([]byte(s))
	}
	text(account)
	affinity.Beginning(req, func(_ llm.Role, part string, plain bool) {
		if !plain {
			part = llm.Quoted(part).String()
		}
		text(part)
	})
	return [sha256.Size]byte(h.Sum(nil))
}

// pooled is an attempt by one key after the other, until an upstream takes it.
type pooled struct {
	pool    *pool
	ctx     context.Context
	account string
	req     *llm.Request
	left    []int // the keys that are still to be asked, as places in the pool's keys
	begun   bool  // the upstream has taken it
	passed  []passedOver

	mu     sync.Mutex // Close comes from anywhere
	key    *keyBackend
	stream Stream
	closed bool
}

// passedOver is a key that did not serve an attempt.
type passedOver struct {
	key   string
	state KeyState // "": its plugin did not take it, or it was not allowed this
	until time.Time
}

// next makes the attempt by the next key that serves. last is the failure of the one before.
func (s *pooled) next(last *llm.Error) error {
	for len(s.left) > 0 {
		l := &s.pool.keys[s.left[0]]
		s.left = s.left[1:]
		if !l.Ready() {
			s.passed = append(s.passed, passedOver{key: l.key.name})
			continue
		}
		why, until, ok := l.key.take(s.req.Model)
		if !ok {
			s.passed = append(s.passed, passedOver{l.key.name, why, until})
			continue
		}
		stream, err := l.Generate(s.ctx, s.account, s.req)
		if err != nil {
			failed := asFailure(err)
			if s.ctx.Err() != nil || !l.key.failed(s.req.Model, failed, l.Backend) && failed.Kind != llm.ErrDied {
				return err
			}
			s.pass(l)
			last = failed
			continue
		}
		s.mu.Lock()
		s.key, s.stream = l, stream
		closed := s.closed
		s.mu.Unlock()
		if closed {
			stream.Close()
		}
		return nil
	}
	return s.none(last)
}

// pass notes a key that failed this attempt.
func (s *pooled) pass(l *keyBackend) {
	h := l.key.health()
	if h.State == KeyServes {
		h.State = ""
	}
	s.passed = append(s.passed, passedOver{l.key.name, h.State, h.Until})
}

// keyRank says which of two keys may serve first, by their states.
var keyRank = map[KeyState]int{KeyRefused: 1, KeyExhausted: 2, KeyLimited: 3}

// none is the failure of an attempt that no key serves: that of the one that may serve first.
func (s *pooled) none(last *llm.Error) error {
	now := s.pool.now()
	failure := &llm.Error{Kind: llm.ErrDied}
	if last != nil {
		*failure = *last
		failure.RetryAfter = 0
	}
	kinds := map[KeyState]llm.ErrorKind{KeyRefused: llm.ErrCredentials, KeyExhausted: llm.ErrQuota,
		KeyLimited: llm.ErrCapacity}
	var best KeyState
	words := make([]string, len(s.passed))
	for i, passed := range s.passed {
		words[i] = passed.key + " (cannot be used)"
		if passed.state == "" {
			continue
		}
		wait := passed.until.Sub(now)
		words[i] = fmt.Sprintf("%s (%s, again in %s)", passed.key, passed.state, wait.Round(time.Second))
		if keyRank[passed.state] > keyRank[best] {
			best = passed.state
		}
		if wait > 0 && (failure.RetryAfter == 0 || wait < failure.RetryAfter) {
			failure.RetryAfter = wait
		}
	}
	if best != "" {
		failure.Kind = kinds[best]
	}
	text := fmt.Sprintf("no key of provider %q can serve: %s", s.pool.name, strings.Join(words, ", "))
	if last != nil {
		text += "; " + last.Message
	}
	failure.Message = text
	return failure
}

// asFailure is an error of a Backend.
func asFailure(err error) *llm.Error {
	if failed, ok := errors.AsType[*llm.Error](err); ok {
		return failed
	}
	return &llm.Error{Kind: llm.KindOf(err), Message: err.Error()}
}

// Recv implements Stream.
func (s *pooled) Recv() ([]llm.Event, error) {
	for {
		events, err := s.stream.Recv()
		if len(events) > 0 && !s.begun {
			s.begun = true
			s.key.key.served(s.req.Model)
			s.req, s.left, s.passed = &llm.Request{Model: s.req.Model}, nil, nil
		}
		failed, ok := errors.AsType[*llm.Error](err)
		if !ok || s.ctx.Err() != nil {
			return events, err
		}
		if mine := s.key.key.failed(s.req.Model, failed, s.key.Backend); !mine || s.begun {
			return events, err
		}
		s.stream.Close()
		s.pass(s.key)
		if err := s.next(failed); err != nil {
			return nil, err
		}
	}
}

// Key implements Keyed.
func (s *pooled) Key() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key.key.name
}

// Cancel implements Stream.
func (s *pooled) Cancel(ctx context.Context) error { return s.current().Cancel(ctx) }

// Close implements Stream.
func (s *pooled) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.current().Close()
}

func (s *pooled) current() Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream
}

var (
	_ Backend = (*pool)(nil)
	_ Stream  = (*pooled)(nil)
	_ Keyed   = (*pooled)(nil)
)
