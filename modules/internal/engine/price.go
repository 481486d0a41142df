package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// Tariff is what the routes of a configuration charge from some time on. It does not change.
type Tariff struct {
	// Routes are those of the configuration, with the prices in force.
	Routes []config.Route
	// Exchange says what quality is worth at these prices.
	Exchange *routing.Exchange

	versions  map[string]int64 // by route name
	until     time.Time        // when the next price begins, zero for never
	predictor *routing.Predictor
}

// PriceVersion is the version of a route's price.
func (t *Tariff) PriceVersion(route string) int64 { return t.versions[route] }

// over reports whether a later price has begun. It asks for the time only where there is one.
func (t *Tariff) over(now func() time.Time) bool { return !t.until.IsZero() && !now().Before(t.until) }

// inForce is the tariff that was made last, nil where a price or another model is in force since.
func (t *tariffs) inForce() *Tariff {
	if last := t.current.Load(); !last.over(t.now) && last.predictor == t.predictor() {
		return last
	}
	return nil
}

// tariffs is the tariff of a generation. Prices that begin later are recorded when a request first comes after that.
type tariffs struct {
	record func(ctx context.Context, route string, price, cost config.Price) (int64, error)
	now    func() time.Time
	routes []config.Route
	// predictor is the one in force, and exchange makes that of routes with their prices in force.
	predictor func() *routing.Predictor
	exchange  func([]config.Route, *routing.Predictor) *routing.Exchange

	current atomic.Pointer[Tariff]
	mu      sync.Mutex // of whoever makes the next one
}

// begin makes the first tariff.
func (t *tariffs) begin(ctx context.Context) error {
	first, err := t.make(ctx, t.now())
	if err != nil {
		return err
	}
	t.current.Store(first)
	return nil
}

func (t *tariffs) make(ctx context.Context, now time.Time) (*Tariff, error) {
	made := &Tariff{Routes: slices.Clone(t.routes), versions: make(map[string]int64, len(t.routes))}
	for i := range made.Routes {
		r := &made.Routes[i]
		r.Price, r.Cost = t.routes[i].In(now)
		v, err := t.record(ctx, r.Name, r.Price, r.Cost)
		if err != nil {
			return nil, fmt.Errorf("recording the price of route %q: %w", r.Name, err)
		}
		made.versions[r.Name] = v
		if next := r.NextPrice(now); !next.IsZero() && (made.until.IsZero() || next.Before(made.until)) {
			made.until = next
		}
	}
	made.predictor = t.predictor()
	made.Exchange = t.exchange(made.Routes, made.predictor)
	return made, nil
}

// of is the tariff at the moment. An error is the ledger's, which cannot record a price that has begun.
func (t *tariffs) of(ctx context.Context) (*Tariff, error) {
	if current := t.inForce(); current != nil {
		return current, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if current := t.inForce(); current != nil {
		return current, nil // another request has made it
	}
	next, err := t.make(ctx, t.now())
	if err != nil {
		return nil, err
	}
	t.current.Store(next)
	return next, nil
}
