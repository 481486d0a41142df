package engine

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
)

// templateKind is what rows of templates are called in what the ledger keeps of routes: their Worked is the tokens.
const templateKind = "template"

const (
	// sureTemplate is how many tokens one report is believed. A larger template needs a second report that agrees, for a
	// garbled one would take room from every prompt of the route.
	sureTemplate = 2048
	// maxTemplates is how many are kept at most, those that were learned last: routes of old configurations are among
	// them.
	maxTemplates = 1000
)

// Templates are how many tokens the chat templates of upstreams add to prompts, as far as their reports show: the
// highest, for a template adds more where there are tools. They outlive reloads and restarts. Many may use them at
// once.
type Templates struct {
	now   func() time.Time
	known atomic.Pointer[routing.Templates]

	mu   sync.Mutex
	at   map[routing.LearnedOf]time.Time // when known was learned
	once map[routing.LearnedOf]int64     // the latest report over sureTemplate
}

func newTemplates(now func() time.Time) *Templates {
	t := &Templates{now: now, at: make(map[routing.LearnedOf]time.Time), once: make(map[routing.LearnedOf]int64)}
	t.known.Store(new(routing.Templates))
	return t
}

// Templates are what upstreams add to prompts.
func (l *learning) Templates() *Templates { return l.templates }

// Known is what routes add. It is not changed.
func (t *Templates) Known() routing.Templates { return *t.known.Load() }

// Note takes how many tokens an upstream reported beyond the most that a prompt can have.
func (t *Templates) Note(r *config.Route, tokens int64) {
	of := routing.LearnedOf{Route: r.Name, Model: r.Model}
	if tokens <= t.Known()[of] || tokens > routing.MostTemplate(r) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if tokens > sureTemplate {
		before := t.once[of]
		t.once[of] = tokens
		tokens = min(tokens, before)
	}
	t.raise(of, tokens, t.now())
}

// raise makes known what is higher.
func (t *Templates) raise(of routing.LearnedOf, tokens int64, at time.Time) {
	if tokens <= t.Known()[of] {
		return
	}
	known := maps.Clone(t.Known())
	if known == nil {
		known = make(routing.Templates)
	}
	known[of], t.at[of] = tokens, at
	t.known.Store(&known)
}

// fold takes up what is kept, which others may have learned, and returns all that is to be kept.
func (t *Templates) fold(kept []ledger.Learned) []ledger.Learned {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range kept {
		of := routing.LearnedOf{Route: k.Route, Model: k.Model}
		if t.raise(of, int64(k.Worked), k.At); int64(k.Worked) == t.Known()[of] {
			t.at[of] = k.At // as it is written, so that nothing is written again
		}
	}
	all := make([]ledger.Learned, 0, len(t.Known()))
	for of, tokens := range t.Known() {
		all = append(all, ledger.Learned{Route: of.Route, Model: of.Model, Kind: templateKind, Worked: float64(tokens),
			At: t.at[of]})
	}
	slices.SortFunc(all, func(a, b ledger.Learned) int { return cmp.Or(b.At.Compare(a.At), order(a, b)) })
	return all[:min(len(all), maxTemplates)]
}

// order is that of the rows that are kept.
func order(a, b ledger.Learned) int {
	return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Kind, b.Kind))
}
