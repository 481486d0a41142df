package measure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/modules/routelab/learn"
)

// Figure is one of the figures of a model on graded prompts, with the interval that 95% of bootstrap samples lie in.
type Figure struct {
	Name  string  `json:"figure"`
	N     int     `json:"n"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// GradedRoute is one of the routes that graded prompts are chosen among.
type GradedRoute struct {
	Name          string
	Quality       float64
	Input, Output float64 // US dollars per million tokens
}

// GradedRoutes are three at list prices, the cheapest first.
var GradedRoutes = [3]GradedRoute{{"nano", .55, .05, .4}, {"mini", .75, .25, 2}, {"best", .95, 5, 25}}

// asked is a prompt in an outfit, as the model sees it.
type asked struct {
	graded *learn.Graded
	work   predict.Work
	length float64
	cost   [len(GradedRoutes)]float64
	weight float64
	group  int // prompts that say the same go together in samples
}

func (a *asked) quality(route int) float64 {
	prior := predict.Flat(GradedRoutes[route].Quality)
	return a.work.Quality(&prior)
}

// choice is the route of the largest utility at a rate, the cheaper one of equals.
func (a *asked) choice(rate float64) (at int) {
	best := math.Inf(-1)
	for k := range GradedRoutes {
		if u := a.quality(k) - rate*a.cost[k]/a.cost[2]; u > best+1e-12 {
			best, at = u, k
		}
	}
	return at
}

// priced fills in what a request costs on the routes.
func (a *asked) priced(input, output float64) {
	for k, r := range GradedRoutes {
		a.cost[k] = (input*r.Input + output*r.Output) / 1e6
	}
}

type grading struct {
	m      *predict.Model
	output predict.Output
	f      *predict.Features
	seed   uint64
}

func (g *grading) look(p *learn.Graded, req *learn.Request) asked {
	s := &predict.Signal{}
	g.f.Read(req)
	g.m.Look(g.f, s)
	a := asked{graded: p, work: g.m.Work(s), length: g.output.Of(s), weight: 1}
	a.priced(float64(learn.Size(req))/4+1, a.length)
	return a
}

// EvalGraded judges a model by the graded prompts that training has not seen, in dresses of makes that it has not
// seen. Routes are chosen at a rate for each profile (routing.Exchange).
func EvalGraded(m *predict.Model, c *learn.Corpus, seed uint64, rates map[string]float64) ([]Figure, error) {
	if m.Grader == nil || len(m.Reference) == 0 {
		return nil, fmt.Errorf("the model was trained without graded prompts: train it again")
	}
	g := &grading{m: m, output: m.Output(), f: predict.NewFeatures(), seed: seed}
	profiles := slices.SortedFunc(maps.Keys(rates), func(a, b string) int { return cmp.Compare(rates[b], rates[a]) })
	looks := map[string][]asked{}
	for _, outfit := range learn.Outfits {
		w := c.Dresses.Dresser(true, seed)
		groups := map[string]int{}
		for i := range c.Prompts {
			p := &c.Prompts[i]
			if !p.Held() {
				continue
			}
			a := g.look(p, w.Dress(p.Prompt, outfit))
			key := p.Same
			if key == "" {
				key = p.ID
			}
			at, ok := groups[key]
			if !ok {
				at = len(groups)
				groups[key] = at
			}
			a.group = at
			looks[outfit] = append(looks[outfit], a)
		}
	}
	bare := looks["bare"]
	var out []Figure
	add := func(name string, n int, of func([]int) float64) { out = append(out, g.figure(name, bare, n, of)) }
	plain := func(a *asked) bool { return a.graded.Kind != "tools" }
	for _, outfit := range learn.Outfits {
		list := looks[outfit]
		add("auc of difficulty, "+outfit, len(list), func(pick []int) float64 { return auc(list, pick, plain) })
		if outfit == "bare" {
			add("auc of difficulty, English", len(list), func(pick []int) float64 {
				return auc(list, pick, func(a *asked) bool { return plain(a) && a.graded.Lang == "en" })
			})
			add("auc of difficulty, other languages", len(list), func(pick []int) float64 {
				return auc(list, pick, func(a *asked) bool { return plain(a) && a.graded.Lang != "en" })
			})
		}
	}
	for _, outfit := range learn.Outfits[1:] {
		list := looks[outfit]
		add("quality moved by dress, "+outfit, len(list), func(pick []int) float64 {
			return over(pick, func(i int) float64 {
				sum := 0.0
				for k := range GradedRoutes {
					sum += math.Abs(list[i].quality(k)-bare[i].quality(k)) / float64(len(GradedRoutes))
				}
				return sum
			})
		})
		add("choices unchanged by dress, "+outfit, len(list), func(pick []int) float64 {
			return over(pick, func(i int) float64 {
				same := 0.0
				for _, rate := range rates {
					same += truth(list[i].choice(rate) == bare[i].choice(rate)) / float64(len(rates))
				}
				return same
			})
		})
		add("choices unchanged by dress at the bare cost, "+outfit, len(list), func(pick []int) float64 {
			return over(pick, func(i int) float64 {
				same, one := 0.0, list[i]
				one.cost = bare[i].cost
				for _, rate := range rates {
					same += truth(one.choice(rate) == bare[i].choice(rate)) / float64(len(rates))
				}
				return same
			})
		})
	}
	for grade := 1; grade <= 5; grade++ {
		for k, r := range GradedRoutes {
			add(fmt.Sprintf("quality of a route of %.2f, grade %d", r.Quality, grade), len(bare), func(pick []int) float64 {
				return over(only(pick, func(i int) bool { return bare[i].graded.Grade == grade }),
					func(i int) float64 { return bare[i].quality(k) })
			})
		}
	}
	declared := looks["tools"]
	for k := predict.Kind(-1); k < predict.NumKinds; k++ {
		name := "all"
		if k >= 0 {
			name = k.String()
		}
		add("kind right, "+name, len(bare), func(pick []int) float64 {
			return over(only(pick, func(i int) bool { return k < 0 || declared[i].graded.Work() == k }), func(i int) float64 {
				list := bare
				if i%2 == 0 || declared[i].graded.Kind == "tools" { // half of them come with tools that nobody asks for
					list = declared
				}
				return truth(slices.Max(list[i].work.Kinds[:]) == list[i].work.Kinds[list[i].graded.Work()])
			})
		})
	}
	add("length in the right order", len(bare), func(pick []int) float64 { return inOrder(bare, pick) })
	drawn := c.Traffic(4000, true, seed+1)
	traffic, groups := make([]asked, len(drawn)), make(map[*learn.Graded]int)
	for i := range drawn {
		traffic[i] = g.look(drawn[i].Graded, drawn[i].Request)
		traffic[i].priced(float64(drawn[i].Input), traffic[i].length)
		if _, ok := groups[drawn[i].Graded]; !ok {
			groups[drawn[i].Graded] = len(groups)
		}
		traffic[i].group = groups[drawn[i].Graded]
	}
	for _, profile := range profiles {
		rate := rates[profile]
		part := func(name string, of func(*asked) bool, hit func(*asked) float64) {
			out = append(out, g.figure(profile+": "+name, traffic, len(traffic), func(pick []int) float64 {
				return over(only(pick, func(i int) bool { return of(&traffic[i]) }),
					func(i int) float64 { return hit(&traffic[i]) })
			}))
		}
		any := func(*asked) bool { return true }
		out = append(out, Figure{profile + ": rate", len(m.Reference), rate, rate, rate})
		for k := range GradedRoutes {
			part("share of "+GradedRoutes[k].Name, any, func(a *asked) float64 { return truth(a.choice(rate) == k) })
		}
		part("mean quality", any, func(a *asked) float64 { return a.quality(a.choice(rate)) })
		part("mean cost of the dearest route's", any, func(a *asked) float64 { return a.cost[a.choice(rate)] / a.cost[2] })
		part("trivial on the best route", func(a *asked) bool { return a.graded.Grade == 1 },
			func(a *asked) float64 { return truth(a.choice(rate) == 2) })
		part("hard and very hard above the cheapest", func(a *asked) bool { return a.graded.Grade > 3 },
			func(a *asked) float64 { return truth(a.choice(rate) > 0) })
	}
	return out, nil
}

// figure is a figure with its interval: groups of prompts are drawn again.
func (g *grading) figure(name string, list []asked, n int, of func(pick []int) float64) Figure {
	byGroup := map[int][]int{}
	groups := 0
	for i := range list {
		byGroup[list[i].group] = append(byGroup[list[i].group], i)
		groups = max(groups, list[i].group+1)
	}
	f := Figure{Name: name, N: n, Value: of(every(len(list)))}
	random := rand.New(rand.NewPCG(g.seed, 14))
	var samples []float64
	for range 100 {
		var pick []int
		for range groups {
			pick = append(pick, byGroup[random.IntN(groups)]...)
		}
		if v := of(pick); !math.IsNaN(v) {
			samples = append(samples, v)
		}
	}
	if len(samples) > 0 {
		slices.Sort(samples)
		f.Low, f.High = quantile(samples, 0.025), quantile(samples, 0.975)
	}
	return f
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func only(pick []int, keep func(int) bool) (out []int) {
	for _, i := range pick {
		if keep(i) {
			out = append(out, i)
		}
	}
	return out
}

func over(pick []int, of func(int) float64) float64 {
	sum := 0.0
	for _, i := range pick {
		sum += of(i)
	}
	return sum / float64(len(pick))
}

// auc is how often a trivial or easy prompt is taken for easier than a hard or very hard one.
func auc(list []asked, pick []int, keep func(*asked) bool) float64 {
	var easy, hard []float64
	for _, i := range pick {
		a := &list[i]
		switch {
		case !keep(a) || a.graded.Grade == 0 || a.graded.Grade == 3:
		case a.graded.Grade < 3:
			easy = append(easy, float64(a.work.Ease))
		default:
			hard = append(hard, float64(a.work.Ease))
		}
	}
	slices.Sort(hard)
	sum := 0.0
	for _, e := range easy {
		below, _ := slices.BinarySearch(hard, e)
		upTo, _ := slices.BinarySearch(hard, math.Nextafter(e, math.Inf(1)))
		sum += float64(below) + float64(upTo-below)/2
	}
	return sum / float64(len(easy)) / float64(len(hard))
}

// inOrder is how often, of two prompts of which one's good reply is at least 2.5 times as long, it is expected to be
// the longer one.
func inOrder(list []asked, pick []int) float64 {
	var right, n float64
	for x, i := range pick {
		for _, j := range pick[:min(x, 400)] {
			a, b := &list[i], &list[j]
			if a.graded.Out < b.graded.Out {
				a, b = b, a
			}
			if b.graded.Out > 0 && float64(a.graded.Out) >= 2.5*float64(b.graded.Out) {
				n++
				right += truth(a.length > b.length)
			}
		}
	}
	return right / n
}
