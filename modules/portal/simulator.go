package portal

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/portal/views"
)

func showSimulator(v *visit) error { return v.simulatorPage(views.Simulator{}) }

func (v *visit) simulatorPage(view views.Simulator) error {
	g := v.engine.Current()
	if g != nil {
		for i := range g.Config.Profiles {
			p := &g.Config.Profiles[i]
			view.Profiles = append(view.Profiles, views.Weighing{Name: p.Name, Cost: p.Cost, Quality: p.Quality,
				KeepQuality: p.KeepQuality})
		}
	}
	return v.show(views.SimulatorPage(v.page("Simulator"), view))
}

// simulate asks where a request would go. It is a form that is posted, so that no address has a prompt in it.
func simulate(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	view := views.Simulator{Text: form.Get("text"), Whole: form.Get("as") == "body", Profile: form.Get("profile"),
		Account: strings.TrimSpace(form.Get("account")), Cost: form.Get("cost"), Quality: form.Get("quality"),
		Keep: form.Get("keep")}
	if form.Get("act") != "simulate" {
		return errBadForm
	}
	ask := admin.ExplainRequest{Profile: view.Profile, Account: view.Account}
	if view.Whole {
		ask.Body = view.Text
	} else {
		ask.Prompt = view.Text
	}
	if ask.Weights, err = weightsOf(&view); err != nil {
		return v.simulatorRefused(view, v.language.Text("Weights are numbers from 0 on, as in 0.5: give both, or neither."))
	}
	found := new(admin.Explanation)
	err = v.api(v.engine, v.actor()).Call(v.r.Context(), http.MethodPost, "/fareway/explain", ask, found)
	if admin.StatusOf(err) == http.StatusNotFound {
		return v.simulatorRefused(view, err.Error())
	}
	if text, ok := v.refusedText(err); ok {
		return v.simulatorRefused(view, text)
	}
	if err != nil {
		return err
	}
	view.Found = found
	return v.simulatorPage(view)
}

func (v *visit) simulatorRefused(view views.Simulator, why string) error {
	v.status, v.fault = http.StatusBadRequest, why
	return v.simulatorPage(view)
}

// weightsOf are those that stand in place of the profile's; nil for none.
func weightsOf(view *views.Simulator) (*admin.Weights, error) {
	if view.Cost == "" && view.Quality == "" && view.Keep == "" {
		return nil, nil
	}
	w := new(admin.Weights)
	for _, one := range []struct {
		text string
		to   *float64
	}{{view.Cost, &w.Cost}, {view.Quality, &w.Quality}, {cmp.Or(view.Keep, "0"), &w.KeepQuality}} {
		n, err := strconv.ParseFloat(strings.ReplaceAll(one.text, ",", "."), 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, errBadForm
		}
		*one.to = n
	}
	return w, nil
}
