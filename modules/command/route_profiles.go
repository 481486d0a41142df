package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/routelab/measure"
)

// judgedView is what the live rule makes of the reference workload, beside what anybody could without knowing
// requests.
type judgedView struct {
	Unit     string          `json:"unit"` // the dearest route
	Profiles []judgedProfile `json:"profiles"`
	Routes   []judgedRoute   `json:"routes"` // each alone
	// Frontier is what the rule comes to as the rate falls from infinity (null) to 0, in a hundred points at most.
	Frontier []judgedPoint `json:"frontier"`
}

// judgedProfile is a profile beside the best random mix of routes.
type judgedProfile struct {
	routing.Prospect
	// Mix is the quality of the best mix at the profile's cost, and MixCost what the mix costs, in microcents, that is as
	// good as the profile; null where none is.
	Mix     float64  `json:"mix_quality"`
	MixCost *float64 `json:"mix_microcents"`
}

type judgedRoute struct {
	Route      string  `json:"route"`
	Quality    float64 `json:"expected_quality"`
	Microcents float64 `json:"expected_microcents"`
	Serves     float64 `json:"serves"` // share of the requests that it can take
}

type judgedPoint struct {
	Rate       *float64 `json:"rate"`
	Quality    float64  `json:"expected_quality"`
	Microcents float64  `json:"expected_microcents"`
}

// evalProfiles judges the profiles of a configuration on the reference workload of a model.
func evalProfiles(ctx context.Context, model, hcl string) (*judgedView, *measure.Plane, error) {
	cfg, diags := engine.CheckConfig(ctx, hcl, slog.New(slog.DiscardHandler))
	if cfg == nil {
		return nil, nil, fmt.Errorf("reading the configuration: %w", diags.Err())
	}
	base := routing.Input{Routes: admin.RoutesAt(cfg, time.Now()), Predictor: routing.PredictorOf(cfg)}
	if model != "" { // in place of the file's own
		m, err := readModel(model)
		if err != nil {
			return nil, nil, err
		}
		base.Predictor = routing.NewPredictor(m)
	}
	base.Exchange = routing.NewExchange(base.Routes, cfg.Profiles, base.Predictor)
	v, plane := &judgedView{Unit: base.Exchange.Unit()}, new(measure.Plane)
	named := func(name string, quality, microcents float64) measure.Named {
		return measure.Named{Name: name, Point: measure.Point{Cost: microcents / microcentsPerDollar, Quality: quality}}
	}
	for _, p := range routing.Standpoints(base) {
		v.Routes = append(v.Routes, judgedRoute{p.Route, p.Quality, p.Microcents, p.Serves})
		plane.Routes = append(plane.Routes, named(p.Route, p.Quality, p.Microcents))
	}
	for _, p := range base.Exchange.Curve(100) {
		v.Frontier = append(v.Frontier, judgedPoint{routing.Finite(p.Rate), p.Quality, p.Microcents})
		plane.Frontier = append(plane.Frontier, named("", p.Quality, p.Microcents).Point)
	}
	for _, p := range routing.Foretell(cfg, base) {
		one := judgedProfile{Prospect: p, Mix: plane.Mix(p.Microcents / microcentsPerDollar)}
		if cost, ok := plane.MixFor(p.Quality); ok {
			one.MixCost = new(cost * microcentsPerDollar)
		}
		v.Profiles = append(v.Profiles, one)
		plane.Profiles = append(plane.Profiles, named(p.Profile, p.Quality, p.Microcents))
	}
	return v, plane, nil
}

// microcentsPerDollar is what a US dollar is.
const microcentsPerDollar = 1e8

// writeJudged writes the profiles beside the routes.
func writeJudged(w io.Writer, v *judgedView) {
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "PROFILE\tRATE\tQUALITY\tUS$ FOR 1,000\tMIX AT THAT COST\tGAINED\tMIX AS GOOD\tSAVED")
		for i := range v.Profiles {
			p := &v.Profiles[i]
			mix, saved := "-", "-"
			if p.MixCost != nil {
				mix = forThousand(*p.MixCost)
				if *p.MixCost > 0 {
					saved = shareOf(1 - p.Microcents / *p.MixCost)
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%.3f\t%s\t%.3f\t%+.3f\t%s\t%s\n", p.Profile, rateText(p.Rate), p.Quality,
				forThousand(p.Microcents), p.Mix, p.Quality-p.Mix, mix, saved)
		}
	})
	fmt.Fprintln(w)
	table(w, func(w io.Writer) {
		fmt.Fprint(w, "ROUTE ALONE\tSERVES\tQUALITY\tUS$ FOR 1,000")
		for i := range v.Profiles {
			fmt.Fprintf(w, "\tOF %s", v.Profiles[i].Profile)
		}
		fmt.Fprintln(w)
		for _, r := range v.Routes {
			fmt.Fprintf(w, "%s\t%s\t%.3f\t%s", r.Route, shareOf(r.Serves), r.Quality, forThousand(r.Microcents))
			v.writeShares(w, r.Route)
		}
		for _, name := range v.strategies() {
			fmt.Fprintf(w, "%s\t-\t-\t-", name)
			v.writeShares(w, name)
		}
	})
	fmt.Fprintln(w)
	for i := range v.Profiles {
		fmt.Fprintf(w, "%s: %s.\n", v.Profiles[i].Profile, prospectWords(&v.Profiles[i].Prospect))
	}
}

// writeShares ends a line with the share of the requests that each profile gives to a route.
func (v *judgedView) writeShares(w io.Writer, route string) {
	for i := range v.Profiles {
		fmt.Fprintf(w, "\t%s", shareOf(v.Profiles[i].ShareOf(route)))
	}
	fmt.Fprintln(w)
}

// strategies are what profiles take that is no route alone.
func (v *judgedView) strategies() (names []string) {
	for i := range v.Profiles {
		for _, r := range v.Profiles[i].Routes {
			alone := slices.ContainsFunc(v.Routes, func(one judgedRoute) bool { return one.Route == r.Route })
			if !alone && !slices.Contains(names, r.Route) {
				names = append(names, r.Route)
			}
		}
	}
	return names
}

// forThousand is what a thousand requests cost, in dollars.
func forThousand(microcents float64) string {
	return fmt.Sprintf("%.4f", 1000*microcents/microcentsPerDollar)
}
