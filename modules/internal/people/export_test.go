package people

import (
	"context"
	"encoding/json"
	"time"
)

// Computed is how often argon2id was computed.
func (s *Service) Computed() int64 { return s.hashing.computed.Load() }

// HashCheaply has passwords hashed with next to no memory, for tests that compute thousands.
func (s *Service) HashCheaply() {
	s.hashing.memory = 64
	s.hashing.nothing = s.hashing.write(make([]byte, saltBytes), make([]byte, hashBytes))
}

// AddClaims has two answers of an issuer be one.
func AddClaims(said, more map[string]json.RawMessage) { claims(said).add(more) }

// Try is one attempt at a transaction, which does nothing but note acts by their subjects; recorded is what the
// attempts before have recorded.
func (s *Service) Try(ctx context.Context, recorded *[]act, subjects ...string) error {
	db, err := s.store.ready(ctx)
	if err != nil {
		return err
	}
	return s.store.try(ctx, db, func(t *tx) error {
		for _, subject := range subjects {
			t.note("portal.test", subject, subject, map[string]any{"email": subject})
		}
		return nil
	}, recorded)
}

// Act is an act.
type Act = act

// WaitAtMost is how long each statement waits for its answer.
func (s *Service) WaitAtMost(d time.Duration) { s.store.patience = d }
