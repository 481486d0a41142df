package portal

import (
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/portal/views"
)

// modelsState is how the upstreams stand, for those who have an account: in plain words, and without their names.
func (v *visit) modelsState() (views.State, error) {
	var status admin.Status
	if err := v.get("/fareway/status", &status); err != nil {
		return views.State{}, err
	}
	s := stateOfModels(&status)
	s.Text = v.language.Text(s.Text)
	return s, nil
}

func stateOfModels(status *admin.Status) views.State {
	var serve, slow, away int
	for i := range status.Routes {
		switch r := &status.Routes[i]; {
		case r.State == "serves" && r.Waiting == 0:
			serve++
		case r.State == "serves", r.State == "half_open", r.State == "ejected":
			slow++
		default:
			away++
		}
	}
	switch {
	case !status.Ready:
		return views.State{Text: "This service takes no requests at the moment. They are refused, and cost nothing.",
			Class: "bad"}
	case serve+slow == 0:
		return views.State{Text: "No model answers at the moment. Requests are refused, and cost nothing.",
			Class: "bad"}
	case away > 0:
		return views.State{Text: "Some models do not answer at the moment. Requests go to others as far as those can " +
			"take them.", Class: "warn"}
	case slow > 0:
		return views.State{Text: "Some answers are slower at the moment.", Class: "warn"}
	}
	return views.State{Text: "All models answer.", Class: "good"}
}
