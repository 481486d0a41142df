package engine

import (
	"bytes"
	"container/list"
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// maxStates bounds what is kept of the states that upstreams want back, in bytes of all together, keys included.
	maxStates = 64 << 20
	// stateAge is how long one is kept after it was last used: a tool may take a while, and people longer.
	stateAge = time.Hour
	// stateCost is about what an entry takes beside its texts, in bytes.
	stateCost = 320
	// maxReturned bounds the states that one request gets back, in bytes: those of the oldest calls are left out.
	maxReturned = 16 << 20
)

// States keeps in memory what upstreams want back with the results of their calls (GAP-117): for the account, the
// route as it was set up, and the call that it came with, behind what the client had said before; and for nobody else.
// Some services number the calls of each conversation from 0, and some refuse what was thought behind another
// beginning. What was used longest ago goes first, when there is too much, and whatever was not used for an hour. It
// is lost with the process, and clients never see it.
type States struct {
	now  func() time.Time
	seed maphash.Seed

	mu     sync.Mutex
	bytes  int
	byCall map[stateKey]*list.Element
	held   map[StateHolder]int // how many each has
	used   list.List           // of *state, the latest first
}

// StateHolder is an account with a route, and with what is set up behind that.
type StateHolder struct {
	account, route string
	upstream       uint64
}

// StateCall is a call of a conversation: its id, and the hash of what the client had said before it.
type StateCall struct {
	ID     string
	Before uint64
}

type stateKey struct {
	StateHolder
	StateCall
}

type state struct {
	key     stateKey
	value   []byte
	expires time.Time
}

func (s *state) size() int {
	return stateCost + len(s.key.account) + len(s.key.route) + len(s.key.ID) + len(s.value)
}

func newStates(now func() time.Time) *States {
	return &States{now: now, seed: maphash.MakeSeed(), byCall: make(map[stateKey]*list.Element),
		held: make(map[StateHolder]int)}
}

// setup hashes what makes a provider the same service as before, credentials included.
func (s *States) setup(p *config.Provider) uint64 {
	h := s.hash(0, p.Plugin, p.SHA256, string(p.Settings))
	for _, k := range p.Keys {
		h = s.hash(h, string(k.Settings))
	}
	return h
}

// hash goes on with a hash, over texts.
func (s *States) hash(h uint64, texts ...string) uint64 {
	var b [16]byte
	for _, text := range texts {
		binary.LittleEndian.PutUint64(b[:8], h)
		binary.LittleEndian.PutUint64(b[8:], maphash.String(s.seed, text))
		h = maphash.Bytes(s.seed, b[:])
	}
	return h
}

// StateHolder is whom the states of an account with a route are kept for.
func (g *Generation) StateHolder(account string, route *config.Route) StateHolder {
	return StateHolder{account, route.Name, g.states.hash(g.setups[route.Provider], route.Provider, route.Model)}
}

// Calls are those of a conversation that have an id of their own, and the hash of what the client has said by now.
// What counts is what it brought of its own: the tools, the instructions, what the user said and what its tools gave.
// The replies it may write in other words, or parted elsewhere.
func (s *States) Calls(req *llm.Request) (calls []StateCall, now uint64) {
	for i := range req.Tools {
		now = s.hash(now, req.Tools[i].Name, req.Tools[i].Description, string(req.Tools[i].Schema))
	}
	times := make(map[string]int)
	for i := range req.Messages {
		m := &req.Messages[i]
		if m.Role != llm.RoleAssistant {
			now = s.hash(now, string(m.Role), m.CallID)
		}
		for _, part := range m.Parts {
			switch {
			case part.Call != nil:
				times[part.Call.ID]++
				calls = append(calls, StateCall{part.Call.ID, now})
			case m.Role != llm.RoleAssistant:
				text, _ := part.Text.Plain() // in whatever form: the client writes it again as it did
				now = s.hash(now, text)
			}
		}
	}
	own := calls[:0]
	for _, call := range calls {
		if times[call.ID] == 1 {
			own = append(own, call)
		}
	}
	return own, now
}

// Keep keeps the state of a call, in the place of an earlier one.
func (s *States) Keep(holder StateHolder, call StateCall, value []byte) {
	call.ID = strings.Clone(call.ID) // it may be a piece of much more
	kept := &state{stateKey{holder, call}, bytes.Clone(value), s.now().Add(stateAge)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byCall[kept.key]; old != nil {
		s.drop(old)
	}
	s.byCall[kept.key] = s.used.PushFront(kept)
	s.held[holder]++
	s.bytes += kept.size()
	for last := s.used.Back(); last != nil; last = s.used.Back() {
		if s.bytes <= maxStates && s.now().Before(last.Value.(*state).expires) {
			return
		}
		s.drop(last)
	}
}

// Has reports whether a holder has states.
func (s *States) Has(holder StateHolder) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[holder] > 0
}

// Find is what there is of the states of calls, by the calls' ids, and their size in bytes. They are not to be
// changed.
func (s *States) Find(holder StateHolder, calls []StateCall) (found map[string][]byte, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[holder] == 0 {
		return nil, 0
	}
	now := s.now()
	for i := len(calls) - 1; i >= 0; i-- {
		e := s.byCall[stateKey{holder, calls[i]}]
		if e == nil {
			continue
		}
		kept := e.Value.(*state)
		if !now.Before(kept.expires) {
			s.drop(e)
			continue
		}
		if size += int64(len(kept.value)); size > maxReturned {
			return found, size - int64(len(kept.value))
		}
		kept.expires = now.Add(stateAge)
		s.used.MoveToFront(e)
		if found == nil {
			found = make(map[string][]byte)
		}
		found[kept.key.ID] = kept.value
	}
	return found, size
}

// drop is called with the lock held.
func (s *States) drop(e *list.Element) {
	gone := s.used.Remove(e).(*state)
	delete(s.byCall, gone.key)
	s.bytes -= gone.size()
	if s.held[gone.key.StateHolder]--; s.held[gone.key.StateHolder] == 0 {
		delete(s.held, gone.key.StateHolder)
	}
}

// States are what upstreams want back.
func (r *requests) States() *States { return r.states }
