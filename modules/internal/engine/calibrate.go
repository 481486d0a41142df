package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/routing"
)

// Calibration is which rates profiles would have on the gateway's own requests, in place of the reference workload.
type Calibration struct {
	Since    time.Time           `json:"since"`
	Requests int64               `json:"requests"` // since then
	Used     int64               `json:"used"`     // of these, at most calibrationMost, evenly spread
	Profiles []CalibratedProfile `json:"profiles"`
}

// CalibratedProfile is a profile with its rate and the one proposed, and what the used requests come to at both. Rates
// are null where only cost counts.
type CalibratedProfile struct {
	Profile  string         `json:"profile"`
	Rate     *float64       `json:"rate"`
	Proposed *float64       `json:"proposed_rate"`
	Now      CalibratedSide `json:"now"`
	Then     CalibratedSide `json:"then"`
	// Cost and Quality are weights that give about the proposed rate on the reference workload, and Gives which one.
	Cost    float64  `json:"cost"`
	Quality float64  `json:"quality"`
	Gives   *float64 `json:"gives_rate"`
}

// CalibratedSide are means over the requests.
type CalibratedSide struct {
	Quality    float64 `json:"expected_quality"`
	Microcents float64 `json:"expected_microcents"`
}

// calibrationMost is how many requests rates are set on at most.
const calibrationMost = 5000

// Calibrate sets rates on the requests since a time, by the numbers that the decision log keeps of them. Turns that
// answer tool calls, which are not chosen for, and requests that the predictor has not read, are left out. It changes
// nothing.
func (l *learning) Calibrate(ctx context.Context, since time.Time) (*Calibration, error) {
	g, release := l.life.acquire()
	defer release()
	if g == nil {
		return nil, ErrReplaced
	}
	t, err := g.Tariff(ctx)
	if err != nil {
		return nil, err
	}
	of, err := l.decisions.Count(ctx, since)
	if err != nil {
		return nil, err
	}
	c := &Calibration{Since: since, Profiles: []CalibratedProfile{}}
	var requests []routing.Input
	step := max(1, of/calibrationMost)
	err = l.decisions.Each(ctx, since, func(r *decisions.Record) error {
		c.Requests++
		if c.Requests%step != 0 || r.Traits.Loop || !g.Predictor().Reads(r.Traits.Signal) {
			return nil
		}
		requests = append(requests, ownRequest(r, g.Config, t.Routes))
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.Used = int64(len(requests))
	if c.Used == 0 {
		return c, nil
	}
	own := routing.NewExchangeOn(t.Routes, g.Config.Profiles, g.Predictor(), requests)
	for _, p := range g.Config.Profiles {
		now, proposed := t.Exchange.Rate(p), own.Rate(p)
		cost, quality := t.Exchange.Weights(proposed)
		c.Profiles = append(c.Profiles, CalibratedProfile{Profile: p.Name, Rate: routing.Finite(now),
			Proposed: routing.Finite(proposed), Now: sideAt(own, now), Then: sideAt(own, proposed), Cost: cost, Quality: quality,
			Gives: routing.Finite(t.Exchange.Rate(config.Profile{Cost: cost, Quality: quality}))})
	}
	return c, nil
}

// ownRequest is a request as one of a workload: with nothing of the moment, and of its conversation that it had turns.
func ownRequest(r *decisions.Record, cfg *config.Config, routes []config.Route) routing.Input {
	in := r.Input(cfg, routes)
	in.Standing, in.Strategies = nil, nil
	traits := r.Traits
	traits.Signal = slices.Clone(traits.Signal)
	in.Traits = &traits
	if traits.Turns > 0 {
		in.Past = new(routing.Past)
	}
	return in
}

func sideAt(x *routing.Exchange, rate float64) CalibratedSide {
	p := x.At(rate)
	return CalibratedSide{Quality: p.Quality, Microcents: p.Microcents}
}
