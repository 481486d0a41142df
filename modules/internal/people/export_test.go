package people

// Computed is how often argon2id was computed.
func (s *Service) Computed() int64 { return s.hashing.computed.Load() }

// HashCheaply has passwords hashed with next to no memory, for tests that compute thousands.
func (s *Service) HashCheaply() {
	s.hashing.memory = 64
	s.hashing.nothing = s.hashing.write(make([]byte, saltBytes), make([]byte, hashBytes))
}
