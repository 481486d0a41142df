package ratelimit

// semaphores are those of one shard, with the permits that are out.
type semaphores struct {
	held    map[name]int64
	permits map[Permit]name
	last    uint64
}

// acquire makes a permit of the semaphore, whose shard has that number.
func (s *semaphores) acquire(n name, shard uint8) Permit {
	if s.held == nil {
		s.held, s.permits = make(map[name]int64), make(map[Permit]name)
	}
	s.last++
	p := Permit(s.last*shardCount + uint64(shard)) // so that whoever has it knows the shard
	s.held[n]++
	s.permits[p] = n
	return p
}

func (s *semaphores) release(p Permit) {
	n, out := s.permits[p]
	if !out {
		return
	}
	delete(s.permits, p)
	s.held[n]--
	if s.held[n] == 0 {
		delete(s.held, n) // the account or the route may be gone
	}
}
