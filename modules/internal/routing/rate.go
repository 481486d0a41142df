package routing

import (
	"cmp"
	"math"
	"reflect"
	"slices"

	"github.com/fareway/fareway/config"
)

// The bounds of a rate, but for profiles without a weight of cost (0) or of quality (infinite).
const (
	LeastRate = 0.025
	MostRate  = 5.0
)

// rounding is no difference of qualities.
const rounding = 1e-12

// hair is by how much a rate is less than where the workload's choices change: there they would be equal.
const hair = 1e-6

// Exchange is what quality is worth in money under a configuration (GAP-131): a unit, which is the route that is the
// dearest on the reference workload, and for each profile a rate, which is how much quality the unit's price must
// bring. It is made once of all routes, and does not depend on which of them can serve a request. It is never changed;
// many may use it at once.
//
// Strategies are not among the routes: what they are expected to reach and cost follows from routes and compares with
// these at the same rate, so that a strategy that is added or mended changes the choices that it is better at and no
// other one.
type Exchange struct {
	unit  *config.Route // nil where there is no route
	rates []profileRate
	// from is what the workload comes to at an infinite rate, where each request takes the cheapest route, and ladder
	// what it comes to as the rate falls to 0.
	from   Point
	ladder []Point
	free   bool // the unit costs nothing

	made madeOf
}

// madeOf is all that an exchange depends on.
type madeOf struct {
	routes    []config.Route
	profiles  []config.Profile
	predictor *Predictor
}

type profileRate struct{ cost, quality, rate float64 }

// Point is what the reference workload comes to at rates below Rate, down to that of the next one: means over its
// requests.
type Point struct {
	Rate       float64
	Quality    float64 // expected, 0 to 1
	Microcents float64 // expected, for a request
}

// NewExchange sets the rates of profiles for the routes of a configuration, with their prices in force. Nothing that
// was learned since is in it.
func NewExchange(routes []config.Route, profiles []config.Profile, p *Predictor) *Exchange {
	return newExchange(routes, profiles, p, p.workload())
}

// NewExchangeOn sets them on other requests than the workload, which count alike and have nothing of the moment.
func NewExchangeOn(routes []config.Route, profiles []config.Profile, p *Predictor, requests []Input) *Exchange {
	list := make([]sample, len(requests))
	for i, in := range requests {
		in.Predictor = p
		list[i] = sample{in: in, share: 1 / float64(len(requests))}
	}
	return newExchange(routes, profiles, p, list)
}

func newExchange(routes []config.Route, profiles []config.Profile, p *Predictor, list []sample) *Exchange {
	x := &Exchange{made: madeOf{slices.Clone(routes), slices.Clone(profiles), p}}
	x.climb(list)
	for _, profile := range profiles {
		x.rates = append(x.rates, profileRate{profile.Cost, profile.Quality, x.rate(profile)})
	}
	return x
}

// MadeOf reports whether the exchange is that of these.
func (x *Exchange) MadeOf(routes []config.Route, profiles []config.Profile, p *Predictor) bool {
	return x != nil && reflect.DeepEqual(x.made.routes, routes) && reflect.DeepEqual(x.made.profiles, profiles) &&
		x.made.predictor == p
}

// Unit is the name of the route that is the unit, "" where there is no route.
func (x *Exchange) Unit() string {
	if x.unit == nil {
		return ""
	}
	return x.unit.Name
}

// Rate is a profile's: 0 where cost does not count, and infinite where only cost does.
func (x *Exchange) Rate(p config.Profile) float64 {
	for _, r := range x.rates {
		if r.cost == p.Cost && r.quality == p.Quality {
			return r.rate
		}
	}
	return x.rate(p)
}

// rate is the largest rate at which the workload has come as much of the way from its cheapest choice's quality to the
// best as quality counts beside cost, within the bounds. A profile without any weights weighs both alike.
func (x *Exchange) rate(p config.Profile) float64 {
	whole, way := x.whole(), 0.5
	if p.Cost > 0 || p.Quality > 0 {
		way = p.Quality / (p.Cost + p.Quality)
	}
	switch {
	case way <= 0:
		return math.Inf(1)
	case way >= 1, x.free:
		return 0
	case whole <= rounding:
		return MostRate
	}
	at := slices.IndexFunc(x.ladder, func(p Point) bool { return p.Quality-x.from.Quality >= way*whole-rounding })
	if at < 0 {
		at = len(x.ladder) - 1
	}
	return min(max(x.ladder[at].Rate*(1-hair), LeastRate), MostRate)
}

// whole is the way from the cheapest choices' quality to the best.
func (x *Exchange) whole() float64 {
	if len(x.ladder) == 0 {
		return 0
	}
	return x.ladder[len(x.ladder)-1].Quality - x.from.Quality
}

// Why says why a profile's rate is what it is, where that is not its weights alone; "" where it is.
func (x *Exchange) Why(p config.Profile) string {
	rate := x.Rate(p)
	switch {
	case len(x.made.routes) == 1:
		return "there is one route"
	case math.IsInf(rate, 1):
		return "quality has no weight: the cheapest route is taken"
	case p.Cost <= 0 && p.Quality > 0:
		return "cost has no weight: the best route is taken"
	case x.free:
		return "all routes are free: the best one is taken"
	case x.whole() <= rounding:
		return "no route is expected to be better than the cheapest one"
	case rate >= MostRate:
		return "that is the most that it is set to"
	case rate <= LeastRate:
		return "that is the least that it is set to"
	}
	return ""
}

// At is what the workload comes to at a rate.
func (x *Exchange) At(rate float64) Point {
	at := x.from
	for _, p := range x.ladder {
		if p.Rate <= rate {
			break
		}
		at = p
	}
	return at
}

// Weights are those, with a sum of 1 and three decimals, that give a rate which is about this one, or a little more:
// they say how much of the way is behind it.
func (x *Exchange) Weights(rate float64) (cost, quality float64) {
	switch {
	case math.IsInf(rate, 1):
		return 1, 0
	case rate <= 0:
		return 0, 1
	case len(x.ladder) == 0:
		return 0.5, 0.5
	}
	reached := x.At(rate).Quality - x.from.Quality
	whole := x.ladder[len(x.ladder)-1].Quality - x.from.Quality
	if whole <= rounding {
		return 0.5, 0.5
	}
	const least = 0.001
	quality = min(max(math.Floor(1000*reached/whole)/1000, least), 1-least)
	return math.Round(1000*(1-quality)) / 1000, quality
}

// Points are what the workload comes to as the rate falls from infinity to 0.
func (x *Exchange) Points() []Point { return append([]Point{x.from}, x.ladder...) }

// Curve is at most so many of Points, evenly, the first and the last among them.
func (x *Exchange) Curve(most int) (list []Point) {
	points := x.Points()
	step := (len(points) + most - 1) / most
	for i, p := range points {
		if i%step == 0 || i == len(points)-1 {
			list = append(list, p)
		}
	}
	return list
}

// expected is what is expected of one route for one request of the workload.
type expected struct {
	quality, cost, units float64
	takes                bool // it is among those that the choice is between
}

// climb finds the unit, and the way of the workload's choices from the cheapest to the best.
func (x *Exchange) climb(list []sample) {
	routes := x.made.routes
	if len(routes) == 0 {
		return
	}
	n := len(routes)
	all := make([]expected, n*len(list))
	costs, ranks := make([]float64, n), make([]Candidate, n)
	for i := range list {
		in := list[i].in
		in.Routes = routes
		in.foreseeAll(all[i*n:(i+1)*n], ranks)
		for r := range routes {
			costs[r] += list[i].share * all[i*n+r].cost
		}
	}
	order := byCost(routes, costs)
	for _, at := range append(order, order[0]) { // where none is worth it, the dearest
		x.measureBy(at, list, all)
		x.free = costs[at] <= 0
		if x.whole() <= rounding || x.taken(at, list, all) >= leastTaken {
			return
		}
	}
}

// measureBy finds the way of the workload's choices with a route as the unit.
func (x *Exchange) measureBy(at int, list []sample, all []expected) {
	n := len(x.made.routes)
	x.unit, x.from, x.ladder = &x.made.routes[at], Point{Rate: math.Inf(1)}, x.ladder[:0]
	var hull []expected
	served := 0.0
	for i := range list {
		of := all[i*n : (i+1)*n]
		hull = upper(of, of[at].cost, hull[:0])
		share := list[i].share
		for k := range hull {
			if k == 0 {
				served += share
				x.from.Quality += share * hull[0].quality
				x.from.Microcents += share * hull[0].cost
				continue
			}
			x.ladder = append(x.ladder, Point{Rate: slope(&hull[k-1], &hull[k]),
				Quality: share * (hull[k].quality - hull[k-1].quality), Microcents: share * (hull[k].cost - hull[k-1].cost)})
		}
	}
	slices.SortStableFunc(x.ladder, func(a, b Point) int { return cmp.Compare(b.Rate, a.Rate) })
	if served > 0 {
		x.from.Quality, x.from.Microcents = x.from.Quality/served, x.from.Microcents/served
	}
	before := x.from
	for i := range x.ladder {
		p := &x.ladder[i]
		p.Quality, p.Microcents = before.Quality+p.Quality/served, before.Microcents+p.Microcents/served
		before = *p
	}
}

// foreseeAll fills in what is expected of each route, also of those that cannot take the request.
// ranks is room for as many candidates.
func (in *Input) foreseeAll(out []expected, ranks []Candidate) {
	s := in.read()
	if s != nil {
		s.lasts(in)
		defer in.Predictor.done(s)
	}
	survey := look(in)
	var first *Candidate
	for r := range out {
		c := in.asIf(&in.Routes[r], s)
		out[r] = expected{quality: c.Quality, cost: c.Cost}
		as, why := judge(in, survey, &in.Routes[r])
		if why != nil {
			continue
		}
		out[r].takes, ranks[r] = true, as
		if first == nil || compareRank(&as, first) < 0 {
			first = &ranks[r]
		}
	}
	for r := range out {
		out[r].takes = out[r].takes && compareRank(&ranks[r], first) == 0
	}
}

// leastTaken is the share of the workload that must be worth a route's price for it to be the unit.
const leastTaken = 0.01

// byCost are the places of routes by their mean cost, the dearest first: of several that cost as much, the one with
// the highest prices or the largest output, and then the first.
func byCost(routes []config.Route, costs []float64) []int {
	order := make([]int, len(routes))
	for r := range order {
		order[r] = r
	}
	slices.SortStableFunc(order, func(r, other int) int {
		a, b := &routes[r].Price, &routes[other].Price
		return -cmp.Or(cmp.Compare(costs[r], costs[other]), cmp.Compare(a.Output, b.Output), cmp.Compare(a.Input, b.Input),
			cmp.Compare(a.CacheWrite, b.CacheWrite), cmp.Compare(a.CacheRead, b.CacheRead),
			cmp.Compare(routes[r].MaxOutput, routes[other].MaxOutput))
	})
	return order
}

// taken is the share of the workload that goes to a route with the weights that the profile max has by default. Beside
// one that nothing goes to even so, such as the best model there is at ten times the price, or one that is kept for
// other requests, all others would seem to cost next to nothing.
func (x *Exchange) taken(at int, list []sample, all []expected) float64 {
	n := len(x.made.routes)
	profiles := config.DefaultProfiles()
	rate := x.rate(profiles[len(profiles)-1])
	share, whole := 0.0, 0.0
	for i := range list {
		whole += list[i].share
		if isBest(all[i*n:(i+1)*n], at, rate) {
			share += list[i].share
		}
	}
	if whole == 0 {
		return 0
	}
	return share / whole
}

// isBest reports whether a route is chosen for a request, where it is the unit.
func isBest(all []expected, at int, rate float64) bool {
	if !all[at].takes {
		return false
	}
	_, most := worth(all[at].quality, all[at].cost, all[at].cost, rate)
	for i := range all {
		if _, other := worth(all[i].quality, all[i].cost, all[at].cost, rate); all[i].takes && other > most {
			return false
		}
	}
	return true
}

// upper are the routes that some rate chooses for one request, from the cheapest to the best: the upper hull of
// quality over cost in units. Where the unit costs nothing for it, they are the best alone, which any rate chooses.
func upper(all []expected, unit float64, hull []expected) []expected {
	for i := range all {
		if e := all[i]; e.takes {
			e.units, _ = worth(0, e.cost, unit, 0)
			hull = append(hull, e)
		}
	}
	slices.SortFunc(hull, func(a, b expected) int {
		return cmp.Or(cmp.Compare(a.units, b.units), cmp.Compare(b.quality, a.quality), cmp.Compare(a.cost, b.cost))
	})
	n := 0
	for _, e := range hull {
		if n > 0 && e.quality <= hull[n-1].quality {
			continue
		}
		for n > 1 && slope(&hull[n-2], &hull[n-1]) <= slope(&hull[n-1], &e) {
			n--
		}
		hull[n] = e
		n++
	}
	return hull[:n]
}

// slope is the rate at which a better route's utility is that of one before it.
func slope(a, b *expected) float64 { return (b.quality - a.quality) / (b.units - a.units) }
