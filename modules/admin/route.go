package admin

import (
	"errors"
	"net/http"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// LearnedRoute is a route with what was learned of it.
type LearnedRoute struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Learns   bool   `json:"learns"`
	// Predicted is the trained model that predicts, and Known says whether that was trained on answers of this model, so
	// that `weight` joins the two.
	Predicted routing.About `json:"predicted_by"`
	Known     bool          `json:"known"`
	Kinds     []LearnedKind `json:"kinds"`
	Counted   RouteCounts   `json:"counted"`
	// Usual is what is expected of it for usual requests (the reference workload), if all that it can take went there.
	Usual UsualRequests `json:"usual"`
}

// RouteCounts is how the attempts on a route went, on this node since its process began. Times are seconds, null where
// there was none.
type RouteCounts struct {
	Since         time.Time        `json:"since"`
	Attempts      int64            `json:"attempts"`
	Failed        map[string]int64 `json:"failed"` // by kind
	FirstTokenP50 *float64         `json:"first_token_p50_seconds"`
	FirstTokenP95 *float64         `json:"first_token_p95_seconds"`
	TookP50       *float64         `json:"attempt_p50_seconds"`
	TookP95       *float64         `json:"attempt_p95_seconds"`
}

// UsualRequests is what usual requests come to on one route.
type UsualRequests struct {
	Quality    float64 `json:"expected_quality"` // mean, 0 to 1
	Microcents float64 `json:"expected_microcents"`
	Serves     float64 `json:"serves"` // share of the requests that it can take
}

// LearnedKind is what was learned of a route at one kind of work. Counts are by weight, and decay.
type LearnedKind struct {
	Kind    string  `json:"kind"`
	Quality float64 `json:"quality"` // as the operator says
	Worked  float64 `json:"worked"`  // replies that were what they should, as far as that shows
	Failed  float64 `json:"failed"`
	Good    float64 `json:"good"` // what people said of it
	Bad     float64 `json:"bad"`
	// Expected is the quality with what was learned, as it is used now: it follows the counts by steps, once a minute.
	Expected float64 `json:"expected"`
}

// routes lists the routes with what was learned of them, in file order.
func (a *API) routes(r *http.Request) (any, error) {
	g := a.engine.Current()
	if g == nil {
		return []LearnedRoute{}, nil
	}
	rows := make(map[outcome.Row]outcome.Row)
	for _, r := range a.engine.Outcomes().Rows() {
		rows[outcome.Row{Route: r.Route, Model: r.Model, Kind: r.Kind}] = r
	}
	learned := a.engine.Outcomes().Learned()
	predictor, about := a.engine.PredictorOf(g.Config)
	usual, err := a.standpoints(r, g)
	if err != nil {
		return nil, err
	}
	list := make([]LearnedRoute, len(g.Config.Routes))
	for i := range g.Config.Routes {
		r := &g.Config.Routes[i]
		list[i] = viewRoute(r, learned, func(kind string) outcome.Row {
			return rows[outcome.Row{Route: r.Name, Model: r.Model, Kind: kind}]
		})
		list[i].Predicted, list[i].Known = about, predictor.Knows(r.Model)
		list[i].Counted = a.counted(r.Name)
		list[i].Usual = UsualRequests{usual[i].Quality, usual[i].Microcents, usual[i].Serves}
	}
	return list, nil
}

// counted is how the attempts on a route went.
func (a *API) counted(route string) RouteCounts {
	c := a.engine.Metrics().RouteCounts(route)
	return RouteCounts{Since: a.engine.Opened(), Attempts: int64(c.Took.Total()), Failed: c.Failed,
		FirstTokenP50: c.FirstToken.Quantile(0.5), FirstTokenP95: c.FirstToken.Quantile(0.95),
		TookP50: c.Took.Quantile(0.5), TookP95: c.Took.Quantile(0.95)}
}

// profiles lists what each profile makes of the reference workload.
func (a *API) profiles(r *http.Request) (any, error) {
	g := a.engine.Current()
	if g == nil {
		return []routing.Prospect{}, nil
	}
	if fromPage(r) {
		return a.foretold.prospects.of(r.Context(), a.engine, g, g.Prospects)
	}
	return g.Prospects(r.Context())
}

func (a *API) standpoints(r *http.Request, g *engine.Generation) ([]routing.Standpoint, error) {
	if fromPage(r) {
		return a.foretold.standpoints.of(r.Context(), a.engine, g, g.Standpoints)
	}
	return g.Standpoints(r.Context())
}

// CurvePoint is what usual requests (the reference workload) come to where quality is worth so much.
type CurvePoint struct {
	Rate       *float64 `json:"rate"` // of a profile that chooses so; null: only cost counts
	Quality    float64  `json:"expected_quality"`
	Microcents float64  `json:"expected_microcents"`
}

// curvePoints bounds how many of them there are.
const curvePoints = 100

// curve is what usual requests come to from where only cost counts to where only quality does.
func (a *API) curve(r *http.Request) (any, error) {
	g := a.engine.Current()
	if g == nil {
		return []CurvePoint{}, nil
	}
	t, err := g.Tariff(r.Context())
	if err != nil {
		return nil, err
	}
	list := []CurvePoint{}
	for _, p := range t.Exchange.Curve(curvePoints) {
		list = append(list, CurvePoint{routing.Finite(p.Rate), p.Quality, p.Microcents})
	}
	return list, nil
}

// calibration proposes rates on the requests since a time.
func (a *API) calibration(r *http.Request) (any, error) {
	since, err := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
	if err != nil {
		return nil, problem(http.StatusBadRequest, "since: %v", err)
	}
	return a.engine.Calibrate(r.Context(), since)
}

func viewRoute(r *config.Route, learned routing.Learned, counted func(kind string) outcome.Row) LearnedRoute {
	v := LearnedRoute{Name: r.Name, Provider: r.Provider, Model: r.Model, Learns: r.Learns()}
	for k := range predict.NumKinds {
		kind := k.String()
		row, q := counted(kind), r.QualityFor(kind)
		one := LearnedKind{Kind: kind, Quality: q, Worked: row.Worked, Failed: row.Failed, Good: row.Good, Bad: row.Bad,
			Expected: learned.On(r, k, q)}
		v.Kinds = append(v.Kinds, one)
	}
	return v
}

// Feedback is what somebody says of a request's reply.
type Feedback struct {
	Request string `json:"request"`
	Verdict string `json:"verdict"` // good or bad
}

// Learned says which route feedback was about.
type Learned struct {
	Feedback
	Route string `json:"route"`
}

func (a *API) feedback(r *http.Request) (any, error) {
	in, err := readJSON[Feedback](r)
	if err != nil {
		return nil, err
	}
	if in.Verdict != "good" && in.Verdict != "bad" {
		return nil, problem(http.StatusBadRequest, "the verdict %q: it is good or bad", in.Verdict)
	}
	route, err := a.engine.Feedback(r.Context(), in.Request, in.Verdict == "good")
	switch {
	case errors.Is(err, engine.ErrNothingToLearn):
		return nil, problem(http.StatusBadRequest, "%w", err)
	case err != nil:
		return nil, err
	}
	return Learned{in, route}, nil
}
