package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// question is one Acquire or Check, as it is put to the server.
type question struct {
	take      bool
	subjects  [ratelimit.MaxAsks]subject
	n         int
	permit    ratelimit.Permit
	semaphore string // the key of the one that is asked
}

// subject is an ask that is put to the server.
type subject struct {
	key, tag string
	limit    int64
	member   string // of a semaphore, otherwise ""
	index    int    // of the ask
	asked    bool   // it is part of a script already
	moment   int64  // at which it was counted
}

// checked stands for a member in a Check.
const checked = "?"

func (l *Limiter) question(asks []ratelimit.Ask, take bool) *question {
	q := &question{take: take}
	for i := range asks {
		a := &asks[i]
		semaphore := a.Subject.Kind.Semaphore()
		if a.Limit <= 0 && !semaphore {
			continue // nothing is counted
		}
		s := &q.subjects[q.n]
		q.n++
		s.index, s.limit = i, a.Limit
		s.key, s.tag = l.place(&a.Subject)
		switch {
		case !semaphore:
		case !take:
			s.member = checked
		default:
			q.permit, s.member = l.leases.next()
			q.semaphore = s.key
		}
	}
	return q
}

// of is the subject of an ask.
func (q *question) of(index int) *subject {
	for i := range q.subjects[:q.n] {
		if q.subjects[i].index == index {
			return &q.subjects[i]
		}
	}
	return nil
}

// countAt says when all of it was counted.
func (q *question) countAt(moment int64) {
	for i := range q.subjects[:q.n] {
		q.subjects[i].moment = moment
	}
}

// ask puts a question to the server. An error is that nothing is known; what it means for the limiter is done.
func (l *Limiter) ask(ctx context.Context, q *question) (*ratelimit.Refusal, error) {
	if q.n == 0 {
		return nil, nil
	}
	asked, cancel := context.WithTimeout(ctx, l.conn.Timeout())
	defer cancel()
	r, err := l.askParts(asked, q)
	if err != nil {
		if ctx.Err() == nil { // or it is the client that has left
			l.failed(err)
		}
		return nil, err
	}
	l.state.succeeded()
	return r, nil
}

// askParts asks about all subjects at once, or on a Cluster about those with the same tag, one after the other.
func (l *Limiter) askParts(ctx context.Context, q *question) (*ratelimit.Refusal, error) {
	if !l.clustered() {
		return l.askPart(ctx, q, q.subjects[:q.n], q.take)
	}
	var parts [ratelimit.MaxAsks][]subject
	n := 0
	for i := range q.subjects[:q.n] {
		s := &q.subjects[i]
		if s.asked {
			continue
		}
		for j := i; j < q.n; j++ {
			if t := &q.subjects[j]; t.tag == s.tag {
				t.asked = true
				parts[n] = append(parts[n], *t)
			}
		}
		n++
	}
	var refusal *ratelimit.Refusal
	for i := range n {
		r, err := l.askPart(ctx, q, parts[i], q.take && refusal == nil)
		if err != nil || r != nil {
			if refusal == nil && q.take { // what was taken before is given back
				l.undo(q, parts[:i])
			}
		}
		if err != nil {
			return nil, err
		}
		refusal = join(refusal, r)
	}
	for _, part := range parts[:n] {
		for _, s := range part {
			q.of(s.index).moment = s.moment
		}
	}
	return refusal, nil
}

// join is one refusal of two: the first ask, and the longest wait.
func join(a, b *ratelimit.Refusal) *ratelimit.Refusal {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &ratelimit.Refusal{Ask: min(a.Ask, b.Ask), Wait: max(a.Wait, b.Wait)}
}

// askPart puts one script to the server.
func (l *Limiter) askPart(ctx context.Context, q *question, part []subject, take bool) (*ratelimit.Refusal, error) {
	keys := make([]string, 0, len(part)+1)
	args := make([]any, 4, 4+2*len(part)+4)
	args[0], args[1], args[2], args[3] = l.clock(), "", "", "c"
	if take {
		args[3] = "t"
	}
	var released []string
	for i := range part {
		s := &part[i]
		keys = append(keys, s.key)
		member := s.member
		if member != "" {
			released = l.leases.releasedOf(s.key)
			if !take {
				member = checked
			}
		}
		args = append(args, s.limit, member)
	}
	for _, m := range released {
		args = append(args, m)
	}
	known := l.known.Load()
	if !l.clustered() {
		keys, args[1], args[2] = append(keys, l.beatKey()), known.generation, known.beat
	}
	v, err := l.asked.run(ctx, acquireScript, keys, args...)
	if err != nil {
		return nil, err
	}
	if len(v) < 2 {
		return nil, fmt.Errorf("the server answered a question with %v", v)
	}
	switch v[0] {
	case 0:
		for i := range part {
			part[i].moment = v[1]
		}
		return nil, nil
	case 1:
		return &ratelimit.Refusal{Ask: part[v[1]].index, Wait: time.Duration(v[2]) * time.Second}, nil
	}
	return nil, &lostError{known: known.beat, found: v[2], moment: v[1]}
}

// undo gives back what parts of a question have taken. Who loses the answer to it counts too much for a minute.
func (l *Limiter) undo(q *question, parts [][]subject) {
	for _, part := range parts {
		keys := make([]string, len(part))
		args := make([]any, 1, 1+len(part))
		args[0] = part[0].moment
		for i := range part {
			keys[i] = part[i].key
			args = append(args, part[i].member)
		}
		ctx, cancel := context.WithTimeout(l.ctx, l.conn.Timeout())
		_, err := undoScript.run(ctx, l.conn, keys, args...)
		cancel()
		if err != nil {
			l.failed(err)
		}
	}
}

// lostError says that the server has lost what was counted, or that its clock was set.
type lostError struct{ known, found, moment int64 }

func (e *lostError) Error() string {
	if e.found == 0 {
		return "the server has lost what was counted"
	}
	if e.found > e.known && e.found > e.moment-5*clockStep && e.found < e.moment+clockStep {
		return "another node has found that the server has lost what was counted"
	}
	if e.found < e.known {
		return fmt.Sprintf("the server has an older copy of what was counted, by %v",
			time.Duration(e.known-e.found)*time.Microsecond)
	}
	return fmt.Sprintf("the server's clock is %v from the last beat: it was set, or no node has run",
		time.Duration(e.moment-e.found)*time.Microsecond)
}
