package engine

import (
	"container/list"
	"hash/maphash"
	"sync"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

const (
	// maxStates bounds what is kept of the states that upstreams want back, in bytes of all together, keys included.
	maxStates = 64 << 20
	// stateAge is how long one is kept after it was last used: a tool may take a while, and people longer.
	stateAge = time.Hour
	// stateCost is about what an entry takes beside its texts, in bytes.
	stateCost = 256
)

// States keeps in memory what upstreams want back with the results of their calls (GAP-117): for the account, the
// route, the conversation and the call that it came with, and for nobody else: some services number the calls of each
// conversation from 0. What was used longest ago goes first, when there is too much, and whatever was not used for an
// hour. It is lost with the process, and clients never see it.
type States struct {
	now  func() time.Time
	seed maphash.Seed

	mu     sync.Mutex
	bytes  int
	byCall map[stateKey]*list.Element
	used   list.List // of *state, the latest first
}

type stateKey struct {
	account, route, call string
	conversation         uint64
}

type state struct {
	key     stateKey
	value   []byte
	expires time.Time
}

func (s *state) size() int {
	return stateCost + len(s.key.account) + len(s.key.route) + len(s.key.call) + len(s.value)
}

func newStates(now func() time.Time) *States {
	return &States{now: now, seed: maphash.MakeSeed(), byCall: make(map[stateKey]*list.Element)}
}

// Conversation hashes what stays the same in a conversation: all up to the first text of the user.
func (s *States) Conversation(req *llm.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for i := range req.Messages {
		_, _ = h.WriteString(req.Messages[i].Text()) // a hash takes everything
		_ = h.WriteByte(0)
		if req.Messages[i].Role == llm.RoleUser {
			break
		}
	}
	return h.Sum64()
}

// Keep keeps the state of a call, in the place of an earlier one.
func (s *States) Keep(account, route string, conversation uint64, call string, value []byte) {
	kept := &state{stateKey{account, route, call, conversation}, value, s.now().Add(stateAge)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byCall[kept.key]; old != nil {
		s.drop(old)
	}
	s.byCall[kept.key] = s.used.PushFront(kept)
	s.bytes += kept.size()
	for last := s.used.Back(); last != nil; last = s.used.Back() {
		if s.bytes <= maxStates && s.now().Before(last.Value.(*state).expires) {
			return
		}
		s.drop(last)
	}
}

// Find is the state of a call, nil if there is none any more. It is not to be changed.
func (s *States) Find(account, route string, conversation uint64, call string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byCall[stateKey{account, route, call, conversation}]
	if found == nil {
		return nil
	}
	kept := found.Value.(*state)
	now := s.now()
	if !now.Before(kept.expires) {
		s.drop(found)
		return nil
	}
	kept.expires = now.Add(stateAge)
	s.used.MoveToFront(found)
	return kept.value
}

// drop is called with the lock held.
func (s *States) drop(e *list.Element) {
	gone := s.used.Remove(e).(*state)
	delete(s.byCall, gone.key)
	s.bytes -= gone.size()
}

// States are what upstreams want back.
func (e *Engine) States() *States { return e.states }
