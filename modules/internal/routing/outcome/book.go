package outcome

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Kinds says how likely a request is of each kind of work, see routing.Itinerary.
type Kinds = [predict.NumKinds]float32

// Book counts outcomes. What it counts is in memory until Save. Many may use it at once.
type Book struct {
	*Recent

	now   func() time.Time
	known atomic.Pointer[routing.Learned]

	mu       sync.Mutex
	counted  map[source]Counts // since the last Save
	underway map[source]Counts // with the Save that runs
	rows     []Row             // as they were kept then

	saving sync.Mutex
}

// NewBook makes a book in which nothing is counted.
func NewBook(now func() time.Time) *Book {
	b := &Book{Recent: newRecent(MaxRecent, now), now: now, counted: make(map[source]Counts)}
	b.known.Store(new(routing.Learned))
	return b
}

// Learned is how outcomes change what is expected of routes.
func (b *Book) Learned() routing.Learned { return *b.known.Load() }

// Note counts a verdict on a route that a request of an account shows, for work of these kinds.
func (b *Book) Note(route *config.Route, account string, kinds *Kinds, v Verdict) {
	if v != None && route.Learns() {
		b.note(route.Name, route.Model, account, kinds, v, 1)
	}
}

func (b *Book) note(route, model, account string, kinds *Kinds, v Verdict, times float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, share := range kinds {
		if share > 0 {
			c := source{cell{route, model, predict.Kind(k).String()}, account}
			b.counted[c] = b.counted[c].plus(weights[v], times*float64(share))
		}
	}
}

// Rows are what counts now, of all accounts together.
func (b *Book) Rows() []Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	return shared(fold(fold(b.rows, b.underway, b.now()), b.counted, b.now()), b.now())
}

// Save adds what was counted to what a store keeps, which others may share, and makes known what that changes. What
// could not be kept is kept the next time. The store may fold several times.
func (b *Book) Save(store func(fold func(kept []Row) []Row) error) error {
	b.saving.Lock()
	defer b.saving.Unlock()
	b.mu.Lock()
	counted := b.counted
	b.counted, b.underway = make(map[source]Counts), counted
	b.mu.Unlock()
	now := b.now()
	var rows []Row
	err := store(func(kept []Row) []Row {
		rows = fold(kept, counted, now)
		return rows
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.underway = nil; err != nil {
		for c, counts := range counted {
			b.counted[c] = b.counted[c].plus(counts, 1)
		}
		return err
	}
	b.rows = rows
	known := learned(rows, b.Learned(), now)
	b.known.Store(&known)
	return nil
}
