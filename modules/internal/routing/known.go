package routing

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// known is which models a trained one was trained on, by their names, and by what is left of these without what
// services add (config.ParseModelName).
type known struct {
	found  atomic.Pointer[map[string][]recorded] // of, by name; never changed
	byName map[string][]recorded
	byPart map[config.ModelName][]recorded // with Name and Date alone, of models that converse
}

// recorded is a model in a pool.
type recorded struct {
	pool *predict.Pool
	k    int
	// calls: the pool has calls of tools alone, which say nothing of conversation.
	calls bool
}

// fits is how far a pool speaks of a request that is so far for calls of tools: one of an operator's own outcomes does
// of all.
func (p *recorded) fits(tools float64) float64 {
	switch {
	case p.pool.Outcomes:
		return 1
	case p.calls:
		return tools
	}
	return 1 - tools
}

// observations are as how many what the pool knows of the model counts, at most as many as any prediction does.
func (p *recorded) observations() float64 {
	if lines := p.route().Lines; lines > 0 {
		return min(float64(lines), predict.LearnedWeight)
	}
	return predict.LearnedWeight
}

// ownOutcomes is how much more a pool of an operator's own outcomes counts than one of strangers' recordings, where it
// has as many lines as any prediction counts for.
const ownOutcomes = 4

func (p *recorded) route() *predict.Route { return &p.pool.Routes[p.k] }

// openLines are lines of models whose bare names are those of models that were not trained for conversation.
var openLines = []string{"llama", "mistral", "mixtral", "qwen", "yi", "gemma"}

// isBase reports whether a name in recorded answers is that of a model that was not trained for conversation: no
// service serves it under the name of one that was.
func isBase(n config.ModelName) bool {
	tokens := strings.Split(n.Name, "-")
	sized := slices.ContainsFunc(tokens, func(t string) bool {
		return t[0] >= '0' && t[0] <= '9' && strings.HasSuffix(t, "b")
	})
	return !n.Chat && sized && slices.Contains(openLines, tokens[0])
}

func knownIn(m *predict.Model) *known {
	k := &known{byName: make(map[string][]recorded), byPart: make(map[config.ModelName][]recorded)}
	for i := range m.Pools {
		pool := &m.Pools[i]
		calls := pool.Calls || !slices.ContainsFunc(pool.Datasets, func(d string) bool {
			return !strings.HasPrefix(d, "bfcl")
		})
		for at, name := range pool.Models {
			one := recorded{pool, at, calls}
			k.byName[name] = append(k.byName[name], one)
			n := config.ParseModelName(name)
			if n.Name == "" || n.Tuned || isBase(n) {
				continue
			}
			parts := config.ModelName{Name: n.Name, Date: n.Date}
			k.byPart[parts] = addRecorded(k.byPart[parts], one)
		}
	}
	return k
}

// addRecorded adds a model; of two in one pool, as of a model that was asked with tools in its prompt and in its own
// way, the better one stands.
func addRecorded(list []recorded, one recorded) []recorded {
	at := slices.IndexFunc(list, func(p recorded) bool { return p.pool == one.pool })
	if at < 0 {
		return append(list, one)
	}
	if one.route().Mean > list[at].route().Mean {
		list[at] = one
	}
	return list
}

// of is where a model is, by a service's name for it: in all pools that have it. Names are those of configurations.
func (k *known) of(model string) []recorded {
	known := k.found.Load()
	if known != nil {
		if list, ok := (*known)[model]; ok {
			return list
		}
	}
	more := map[string][]recorded{model: k.find(model)}
	if known != nil {
		maps.Copy(more, *known)
	}
	k.found.Store(&more) // what another one adds meanwhile is found again
	return more[model]
}

func (k *known) find(model string) []recorded {
	if list, ok := k.byName[model]; ok {
		return list
	}
	n := config.ParseModelName(model)
	if n.Tuned || n.Name == "" {
		return nil
	}
	if list, ok := k.byPart[config.ModelName{Name: n.Name, Date: n.Date}]; ok {
		return list
	}
	return k.byPart[config.ModelName{Name: n.Name}]
}

// stray is how far, in quality, the prediction of one pool may be from the middle of three and more.
const stray = 0.25

// mostPools is from how many pools a model is predicted at most.
const mostPools = 8

// blend joins what pools predict of a model with what the operator says (quality), which counts as much as its weight:
// the mean of pools by how far they know such text, without those that are far from the middle one. Pools of calls
// count as far as the request is for calls, and others as far as it is not. What is written is the mean by how much
// was recorded.
func (s *sight) blend(places []recorded, prior *predict.Prior, quality, output float64) (float64, float64) {
	var said, trusts, counts [mostPools]float64
	n := 0
	tools := float64(s.signal.Kinds[predict.Tools])
	var outputs, counted float64
	for i := range places {
		p := &places[i]
		fits := p.fits(tools)
		if n == mostPools || fits <= 0 {
			continue
		}
		if tokens, ok := p.route().OutputOf(&s.signal); ok {
			rows := fits * float64(p.pool.Rows)
			outputs, counted = outputs+rows*tokens, counted+rows
		}
		if trust := fits * p.pool.Trust(&s.signal); trust > 0 {
			said[n], trusts[n], counts[n] = p.pool.QualityOf(p.k, &s.signal), trust, p.observations()*trust
			if p.pool.Outcomes {
				trusts[n] *= ownOutcomes * p.observations() / predict.LearnedWeight
			}
			n++
		}
	}
	if counted > 0 {
		output = outputs / counted
	}
	middle := median(said[:n])
	var sum, weights, learned float64
	for i := range n {
		if n > 2 && math.Abs(said[i]-middle) > stray {
			continue
		}
		sum, weights, learned = sum+trusts[i]*said[i], weights+trusts[i], max(learned, counts[i])
	}
	if weights == 0 {
		return quality, output
	}
	return (learned*sum/weights + prior.Weight*quality) / (learned + prior.Weight), output
}

// median is the middle one, or the lower of the two in the middle; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	var sorted [mostPools]float64
	n := copy(sorted[:], values)
	slices.Sort(sorted[:n])
	return sorted[(n-1)/2]
}

// Knows reports whether the predictor's model was trained on answers of a model, by a service's name for it.
func (p *Predictor) Knows(model string) bool { return len(p.known.of(model)) > 0 }

// Figures are how good a model was at what was recorded: the mean of all pools that have it, by how much was recorded,
// without those that are far from the middle one. Calls of tools stand for themselves alone.
func (p *Predictor) Figures(model string) (quality float64, by map[string]float64, ok bool) {
	var talk, calls []recorded
	for _, one := range p.known.of(model) {
		if one.calls {
			calls = append(calls, one)
		} else {
			talk = append(talk, one)
		}
	}
	if len(talk) == 0 {
		return 0, nil, false
	}
	if len(calls) > 0 {
		by = map[string]float64{config.KindTools: figure(calls)}
	}
	return figure(talk), by, true
}

// figure is the mean score over pools.
func figure(places []recorded) float64 {
	places = places[:min(len(places), mostPools)]
	var means []float64
	for i := range places {
		means = append(means, float64(places[i].route().Mean))
	}
	middle := median(means)
	var sum, rows float64
	for i, mean := range means {
		if len(means) > 2 && math.Abs(mean-middle) > stray {
			continue
		}
		sum, rows = sum+float64(places[i].pool.Rows)*mean, rows+float64(places[i].pool.Rows)
	}
	return sum / rows
}

// Models are the names of the models that it was trained on.
func (p *Predictor) Models() []string {
	var names []string
	for name := range p.known.byName {
		names = append(names, name)
	}
	return names
}
