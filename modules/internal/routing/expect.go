package routing

import (
	"math"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// expect fills in what is expected of each candidate: by the predictor, and where there is none, or nothing to choose,
// by what the operator says.
func expect(in *Input, it *Itinerary) {
	var s *sight
	if in.Past != nil {
		it.Work = in.Past.Work
	}
	if len(it.Candidates)+len(in.Strategies) > 1 && loopRoute(in, it.Candidates) < 0 {
		s = in.read()
	}
	if s != nil {
		it.Work = s.lasts(in)
	}
	for i := range it.Candidates {
		in.foresee(&it.Candidates[i], s)
	}
	it.Rate, it.Unit = in.Exchange.Rate(in.Profile), in.unit(s)
	in.keep(it, s)
	options(in, it, s)
	if s != nil {
		it.Kinds, it.Trust = s.signal.Kinds, s.signal.Trust
		in.Predictor.done(s)
	}
}

// foresee fills in what is expected of one candidate. s is nil where nothing is predicted.
func (in *Input) foresee(c *Candidate, s *sight) {
	c.Quality, c.Output = c.Route.Quality, ExpectedOutput
	if s != nil {
		c.Quality, c.Output = s.of(c.Route)
	}
	if own, ok := in.classified(c.Route); ok {
		c.Quality, c.Classified = own, true
		if s != nil {
			c.Quality = s.learned.on(c.Route, &s.signal.Kinds, own)
		}
	}
	c.Output = min(c.Output, float64(c.Allowance))
	turns := in.rest()
	if turns > 1 {
		c.Cached = min(in.Past.warm(c.Route.Name), c.Input)
	}
	c.Cost = costOf(c, turns)
}

// classified is what the operator's classifier says of a route.
func (in *Input) classified(route *config.Route) (float64, bool) {
	for i := range in.Classified {
		if &in.Routes[i] == route {
			return in.Classified[i], in.Classified[i] != llm.Unknown
		}
	}
	return 0, false
}

// unit is what the request would cost on the route that is the unit, in microcents, 0 where that is free.
func (in *Input) unit(s *sight) float64 {
	if in.Exchange.unit == nil {
		return 0
	}
	c := in.asIf(in.Exchange.unit, s)
	return c.Cost
}

// asIf is what is expected of a route for the request whatever keeps it from being a candidate, and with nothing of a
// conversation in its upstream's cache. Where the request does not fit its window, the room that is left counts for
// nothing.
func (in *Input) asIf(route *config.Route, s *sight) Candidate {
	c := Candidate{Route: route, Input: Sum(in.InputTokens, in.Templates.Of(route))}
	allowance, fits := fit(route, c.Input, in.Allowance)
	if !fits {
		allowance = in.Allowance
		switch {
		case allowance == 0:
			allowance = DefaultAllowance
		case special(route):
			allowance = max(allowance, RaisedAllowance)
		}
		allowance = min(allowance, route.MaxOutput)
	}
	c.Allowance = allowance
	in.foresee(&c, s)
	if c.Cached > 0 {
		c.Cached = 0
		c.Cost = costOf(&c, in.rest())
	}
	return c
}

// costOf is what a turn is expected to cost on a candidate's route, in microcents: that of a conversation of so many
// turns is the mean of this one, which pays for what the upstream does not have in its cache yet, and of the others to
// come, which find it there. Prices are in microcents per million tokens, of the tier that the input reaches.
func costOf(c *Candidate, turns float64) float64 {
	price, _ := c.Route.Price.At(c.Input)
	return costAt(&price, c, turns)
}

func costAt(price *config.Price, c *Candidate, turns float64) float64 {
	input, cached, output := float64(c.Input), float64(c.Cached), c.Output*float64(price.Output)
	if turns <= 1 {
		return (input*float64(price.Input) + output) / 1e6
	}
	fresh := price.Input
	if price.CacheRead < price.Input {
		fresh = price.CacheWrite
	}
	now := (input-cached)*float64(fresh) + cached*float64(price.CacheRead)
	later := input * math.Min(float64(price.CacheRead), float64(price.Input))
	return ((now+(turns-1)*later)/turns + output) / 1e6
}

// reading is what a call costs that reads so many tokens of others' replies beside the request, in microcents. No
// upstream has those in its cache.
func reading(c *Candidate, turns float64) float64 {
	price, _ := c.Route.Price.At(Sum(c.Input, c.Reads))
	return costAt(&price, c, turns) + float64(c.Reads)*float64(price.Input)/1e6
}
