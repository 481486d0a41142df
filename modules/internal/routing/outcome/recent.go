package outcome

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// MaxRecent is how many requests are remembered, at about 300 bytes each, and Lifetime for how long.
	MaxRecent = 8192
	Lifetime  = 24 * time.Hour
	// retryWithin is how soon a prompt must be asked again to be one whose answer did not please.
	retryWithin = 2 * time.Minute
)

// Request is what is remembered of a request that was answered: which route it was, what kinds of work it was of, and
// where its conversation was then. It has no text.
type Request struct {
	ID           string
	Route, Model string
	Kinds        Kinds
	Turn         Turn
	At           time.Time
	// Judged: what the turn that comes after it could show is counted. Remember takes it, for a call that was wrong.
	Judged bool

	told    Verdict // what somebody said of it, None for nothing
	retried bool
}

// Turn is a place in a conversation.
type Turn struct {
	Key      affinity.Key
	Messages int    // of the request
	Last     uint64 // a hash of the last one
}

var seed = maphash.MakeSeed()

// TurnOf is where a request is.
func TurnOf(key affinity.Key, req *llm.Request) Turn {
	t := Turn{Key: key, Messages: len(req.Messages)}
	if t.Messages == 0 {
		return t
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for _, p := range req.Messages[t.Messages-1].Parts {
		text, _ := p.Text.Plain()
		_, _ = h.WriteString(text) // it takes everything
		_ = h.WriteByte(0)
	}
	t.Last = h.Sum64()
	return t
}

// Recent remembers the last requests, bounded in number and in time. Many may use it at once.
type Recent struct {
	now func() time.Time

	mu     sync.Mutex
	ring   []Request
	next   int // of the ring
	byID   map[string]int
	byTurn map[affinity.Key]int // the last of each conversation
}

func newRecent(most int, now func() time.Time) *Recent {
	return &Recent{now: now, ring: make([]Request, 0, most), byID: make(map[string]int),
		byTurn: make(map[affinity.Key]int)}
}

// Remember remembers a request.
func (r *Recent) Remember(req Request) {
	req.At = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := r.byTurn[req.Turn.Key]; ok && r.ring[before].Turn == req.Turn {
		req.retried = true // a prompt that is sent over and over is no question of its answer
	}
	at := r.next
	if len(r.ring) < cap(r.ring) {
		r.ring = append(r.ring, req)
	} else {
		old := &r.ring[at]
		delete(r.byID, old.ID)
		if r.byTurn[old.Turn.Key] == at {
			delete(r.byTurn, old.Turn.Key)
		}
		*old = req
	}
	r.byID[req.ID], r.byTurn[req.Turn.Key] = at, at
	r.next = (at + 1) % cap(r.ring)
}

// find is a request by its place, nil where it is forgotten. The lock is held.
func (r *Recent) find(at int, ok bool) *Request {
	if !ok || r.now().Sub(r.ring[at].At) >= Lifetime {
		return nil
	}
	return &r.ring[at]
}

// Look says what a request shows of the one before it in its conversation, and which that was: None when nothing, and
// what it shows but once.
func (r *Recent) Look(turn Turn, req *llm.Request) (before Request, v Verdict) {
	before, v, since := r.findPrevious(turn)
	if since > 0 {
		v = judge(req, req.Messages[since:])
	}
	return before, v
}

// findPrevious finds the request before, and whether that shows now: from which message on, or at once.
func (r *Recent) findPrevious(turn Turn) (before Request, v Verdict, since int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.byTurn[turn.Key]
	known := r.find(at, ok)
	switch {
	case known == nil:
		return Request{}, None, 0
	case turn.Messages == known.Turn.Messages && turn.Last == known.Turn.Last:
		if !known.retried && r.now().Sub(known.At) < retryWithin {
			v = Retried
		}
		known.retried = true
	case turn.Messages > known.Turn.Messages && !known.Judged:
		known.Judged = true
		since = known.Turn.Messages
	}
	return *known, v, since
}

// judge says what the messages that came behind a request show of its answer, which is the first of them.
func judge(req *llm.Request, since []llm.Message) Verdict {
	if since[0].Role != llm.RoleAssistant {
		return None
	}
	for _, p := range since[0].Parts {
		if p.Call != nil && !Fits(req.Tools, p.Call) {
			return Mismatch
		}
	}
	for _, m := range since[1:] {
		if m.Role != llm.RoleTool {
			break
		}
		if m.IsError {
			return ToolFailed
		}
	}
	return None
}

// KindsOf are the kinds of work of a request: as predicted, otherwise those of the turn before, otherwise tools where
// it has some.
func KindsOf(predicted Kinds, before *Request, tools bool) Kinds {
	switch {
	case predicted != Kinds{}:
		return predicted
	case before.Kinds != Kinds{}:
		return before.Kinds
	case tools:
		return Kinds{predict.Tools: 1}
	}
	return Kinds{predict.Knowledge: 1}
}

// Find is what is remembered of a request.
func (r *Recent) Find(id string) (Request, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.byID[id]
	if known := r.find(at, ok); known != nil {
		return *known, true
	}
	return Request{}, false
}

// Tell counts what somebody says of a request that is remembered: ToldGood or ToldBad, the last word once. It returns
// which request it was.
func (b *Book) Tell(id string, v Verdict) (Request, bool) {
	b.Recent.mu.Lock()
	at, ok := b.byID[id]
	known := b.find(at, ok)
	if known == nil {
		b.Recent.mu.Unlock()
		return Request{}, false
	}
	before := known.told
	known.told = v
	req := *known
	b.Recent.mu.Unlock()
	if before == v {
		return req, true
	}
	if before != None {
		b.note(req.Route, req.Model, "", &req.Kinds, before, -1)
	}
	b.note(req.Route, req.Model, "", &req.Kinds, v, 1)
	return req, true
}
