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
func (a *API) routes(*http.Request) (any, error) {
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
	list := make([]LearnedRoute, len(g.Config.Routes))
	for i := range g.Config.Routes {
		r := &g.Config.Routes[i]
		list[i] = viewRoute(r, learned, func(kind string) outcome.Row {
			return rows[outcome.Row{Route: r.Name, Model: r.Model, Kind: kind}]
		})
		list[i].Predicted, list[i].Known = about, predictor.Knows(r.Model)
	}
	return list, nil
}

// profiles lists what each profile makes of the reference workload.
func (a *API) profiles(r *http.Request) (any, error) {
	g := a.engine.Current()
	if g == nil {
		return []routing.Prospect{}, nil
	}
	return g.Prospects(r.Context())
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
