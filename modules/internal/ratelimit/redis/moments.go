package redis

import (
	"hash/fnv"
	"hash/maphash"
	"io"
	"slices"
	"sync"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// window is ratelimit.Window, in the server's microseconds.
const window = int64(ratelimit.Window / 1000)

// moments are those of the requests that this node has admitted in the last minute, by the keys of what they count
// against: what it gives a server that does not know of them.
type moments struct {
	seed   maphash.Seed
	mark   int64 // this node's, see marked
	shards [16]momentShard
}

type momentShard struct {
	mu  sync.Mutex
	all map[string][]int64
}

// mostKeys bounds the keys of one shard. Of more, nothing could be given back: a million addresses in a minute.
const mostKeys = 1 << 16

func (m *moments) open(node string) {
	m.seed = maphash.MakeSeed()
	h := fnv.New32a()
	_, _ = io.WriteString(h, node) // a hash takes everything
	m.mark = int64(h.Sum32() % marks)
	for i := range m.shards {
		m.shards[i].all = make(map[string][]int64)
	}
}

// marks is how many nodes' moments are told apart, within as many microseconds.
const marks = 256

// marked is a moment that this node has reckoned itself, where the server has said none. The server knows a moment that
// it is given again by its being the same: those of two nodes must not be.
func (m *moments) marked(moment int64) int64 { return moment&^(marks-1) | m.mark }

// add notes a request that was admitted.
func (m *moments) add(q *question) {
	for i := range q.subjects[:q.n] {
		if at := &q.subjects[i]; at.member == "" {
			m.note(at.key, at.moment)
		}
	}
}

func (m *moments) note(key string, moment int64) {
	s := &m.shards[maphash.String(m.seed, key)%uint64(len(m.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.all[key]
	if !known && len(s.all) >= mostKeys {
		return
	}
	if len(was) == cap(was) && len(was) > 0 && was[0] <= moment-window {
		was = current(was, moment) // rather than more memory
	}
	s.all[key] = append(was, moment)
}

// current leaves out what is over. They are nearly in order.
func current(all []int64, now int64) []int64 {
	n := 0
	for n < len(all) && all[n] <= now-window {
		n++
	}
	return all[:copy(all, all[n:])]
}

// forget forgets what is over.
func (m *moments) forget(now int64) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for key, all := range s.all {
			if all[0] > now-window {
				continue
			}
			if all = current(all, now); len(all) == 0 {
				delete(s.all, key)
			} else {
				s.all[key] = all
			}
		}
		if len(s.all) == 0 {
			s.all = make(map[string][]int64) // a map never gives memory back
		}
		s.mu.Unlock()
	}
}

// shift moves all of them, for the server's clock was set.
func (m *moments) shift(by int64) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for _, all := range s.all {
			for n := range all {
				all[n] = m.marked(all[n] + by)
			}
		}
		s.mu.Unlock()
	}
}

// each hands out what is not over of each key, in order.
func (m *moments) each(now int64, do func(key string, all []int64) error) error {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		part := make(map[string][]int64, len(s.all))
		for key, all := range s.all {
			part[key] = slices.Clone(all)
		}
		s.mu.Unlock()
		for key, all := range part {
			slices.Sort(all)
			if all = current(all, now); len(all) == 0 {
				continue
			}
			if err := do(key, all); err != nil {
				return err
			}
		}
	}
	return nil
}
