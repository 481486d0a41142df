package routing

import (
	"math"
	"slices"

	"github.com/fareway/fareway/config"
)

// Prospect is what a profile makes of the reference workload, by the code that routes requests.
type Prospect struct {
	Profile string `json:"profile"`
	// Rate is how much quality the dearest route's price must bring, 0 where cost does not count; null where only cost
	// does. Why says where it comes from other than the weights, "" where it does not.
	Rate *float64 `json:"rate"`
	Why  string   `json:"why,omitempty"`
	Unit string   `json:"unit"` // the dearest route
	// Quality, 0 to 1, and Microcents are means of what is expected of the first choice, over the requests that are
	// served.
	Quality    float64 `json:"expected_quality"`
	Microcents float64 `json:"expected_microcents"`
	// Routes are all of the file, in its order, and then strategies that are taken, as "strategy NAME".
	Routes  []ProspectShare `json:"routes"`
	Refused float64         `json:"refused,omitempty"` // share of the requests that no route can take
}

// ProspectShare is the share of the requests that go to a route first.
type ProspectShare struct {
	Route string  `json:"route"`
	Share float64 `json:"share"`
}

// Prospects plan the reference workload with each profile. base has what a configuration says of any request (Routes,
// Strategies, LongAbove and the like), the predictor, and what was learned.
func Prospects(base Input, profiles []config.Profile) []Prospect {
	base.exchangeFor(profiles)
	list := make([]Prospect, 0, len(profiles))
	samples := base.Predictor.workload()
	for _, profile := range profiles {
		p := Prospect{Profile: profile.Name, Unit: base.Exchange.Unit(), Why: base.Exchange.Why(profile),
			Rate: Finite(base.Exchange.Rate(profile))}
		for i := range base.Routes {
			p.Routes = append(p.Routes, ProspectShare{Route: base.Routes[i].Name})
		}
		for i := range samples {
			p.add(base.with(&samples[i], profile), samples[i].share)
		}
		if served := 1 - p.Refused; served > rounding {
			p.Quality, p.Microcents = p.Quality/served, p.Microcents/served
		}
		list = append(list, p)
	}
	return list
}

// Foretell is what a configuration's profiles make of the reference workload, by routes with their prices in force.
// base has the routes, the exchange, the predictor and what was learned.
func Foretell(cfg *config.Config, base Input) []Prospect {
	base.Strategies, base.LongAbove = cfg.Strategies, cfg.Special.LongContextAbove
	return Prospects(base, cfg.Profiles)
}

// with is a request of the workload, asked of what base says.
func (in *Input) with(s *sample, profile config.Profile) Input {
	one := *in
	one.Profile, one.usual = profile, s.in.usual
	one.InputTokens, one.Needs, one.Traits, one.Past = s.in.InputTokens, s.in.Needs, s.in.Traits, s.in.Past
	return one
}

// add plans a request.
func (p *Prospect) add(in Input, share float64) {
	it, err := MakeItinerary(in)
	if err != nil {
		p.Refused += share
		return
	}
	Foresee(&in, &it)
	first := it.Steps.Steps[0]
	quality, cost := first.Expect()
	p.Quality += share * quality
	p.Microcents += share * cost
	name := it.Candidates[0].Route.Name
	if it.Strategy != nil {
		name = "strategy " + it.Strategy.Name
	}
	at := slices.IndexFunc(p.Routes, func(r ProspectShare) bool { return r.Route == name })
	if at < 0 {
		at = len(p.Routes)
		p.Routes = append(p.Routes, ProspectShare{Route: name})
	}
	p.Routes[at].Share += share
}

// ShareOf is what goes to a route, or a strategy.
func (p *Prospect) ShareOf(route string) float64 {
	for _, r := range p.Routes {
		if r.Route == route {
			return r.Share
		}
	}
	return 0
}

// Same reports whether two prospects are the same to a thousandth.
func (p *Prospect) Same(o *Prospect) bool {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 5e-4 }
	return p.Unit == o.Unit && (p.Rate == nil) == (o.Rate == nil) && (p.Rate == nil || near(*p.Rate, *o.Rate)) &&
		near(p.Quality, o.Quality) && near(p.Microcents/max(o.Microcents, 1), o.Microcents/max(o.Microcents, 1)) &&
		slices.EqualFunc(p.Routes, o.Routes, func(a, b ProspectShare) bool {
			return a.Route == b.Route && near(a.Share, b.Share)
		})
}

// Standpoint is what the reference workload comes to where everything goes to one route that can take it: means over
// those requests, and which share of all requests they are.
type Standpoint struct {
	Route      string
	Quality    float64 // expected, 0 to 1
	Microcents float64 // expected, for a request
	Serves     float64
}

// Standpoints are those of all routes, in their order.
func Standpoints(base Input) []Standpoint {
	list := make([]Standpoint, len(base.Routes))
	samples := base.Predictor.workload()
	for i := range samples {
		in := base.with(&samples[i], config.Profile{})
		s, all := in.read(), look(&in)
		for r := range list {
			c, why := judge(&in, all, &base.Routes[r])
			if why != nil {
				continue
			}
			in.foresee(&c, s)
			list[r].Quality += samples[i].share * c.Quality
			list[r].Microcents += samples[i].share * c.Cost
			list[r].Serves += samples[i].share
		}
		if s != nil {
			in.Predictor.done(s)
		}
	}
	for r := range list {
		p := &list[r]
		p.Route = base.Routes[r].Name
		if p.Serves > rounding {
			p.Quality, p.Microcents = p.Quality/p.Serves, p.Microcents/p.Serves
		}
	}
	return list
}

// exchangeFor makes an exchange where there is none.
func (in *Input) exchangeFor(profiles []config.Profile) {
	if in.Exchange == nil {
		in.Exchange = NewExchange(in.Routes, profiles, in.Predictor)
	}
}

// Finite is a rate as JSON has it: nil where it is infinite.
func Finite(rate float64) *float64 {
	if math.IsInf(rate, 0) {
		return nil
	}
	return &rate
}
