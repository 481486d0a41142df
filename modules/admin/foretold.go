package admin

import (
	"context"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
)

// foretold is what the reference workload comes to, for pages: with a hundred routes it takes a second, and changes
// little by what is learned within a minute. Commands have it computed each time.
type foretold struct {
	prospects   remembered[[]routing.Prospect]
	standpoints remembered[[]routing.Standpoint]
}

// foretoldFor is for how long an answer is as good as a new one.
const foretoldFor = time.Minute

// remembered is an answer that holds for a tariff.
type remembered[T any] struct {
	mu       sync.Mutex // held while the first answer is made: others want the same
	tariff   *engine.Tariff
	made     time.Time
	value    T
	renewing bool
}

// of is the answer for a generation. One that is old is given all the same, once more, while the next one is made.
func (m *remembered[T]) of(ctx context.Context, e *engine.Engine, g *engine.Generation,
	make func(context.Context) (T, error)) (T, error) {
	t, err := g.Tariff(ctx)
	if err != nil {
		var none T
		return none, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tariff == t {
		if e.Now().Sub(m.made) > foretoldFor && !m.renewing {
			m.renewing = true
			go m.renew(context.WithoutCancel(ctx), e, t, make)
		}
		return m.value, nil
	}
	value, err := make(ctx)
	if err == nil {
		m.tariff, m.made, m.value = t, e.Now(), value
	}
	return value, err
}

func (m *remembered[T]) renew(ctx context.Context, e *engine.Engine, t *engine.Tariff,
	make func(context.Context) (T, error)) {
	value, err := make(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renewing = false
	if err == nil && m.tariff == t {
		m.made, m.value = e.Now(), value
	}
}
