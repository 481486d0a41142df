package views

import "github.com/fareway/fareway/modules/admin"

// Simulator is where a request would go.
type Simulator struct {
	Text          string // a prompt or, with Whole, the body of a request
	Whole         bool
	Profile       string
	Account       string // a name or an id
	Cost, Quality string // weights in place of the profile's
	Keep          string // keep_quality
	Profiles      []Weighing
	Found         *admin.Explanation // nil before anything is asked
}

// Weighing is a profile with its weights.
type Weighing struct {
	Name                       string
	Cost, Quality, KeepQuality float64
}

// whyBehind says of a candidate why it is not the first, "" of the one that is.
func whyBehind(p *Page, v *admin.Explanation, i int) string {
	c := &v.Candidates[i]
	first := &v.Candidates[0]
	switch {
	case i == 0:
		return p.Text("It would be asked first.")
	case c.Behind != "":
		return c.Behind
	case c.Specialty != first.Specialty:
		return p.Text("The first one is kept for such requests.")
	case c.Keeps != first.Keeps, v.KeepFrom > 0:
		return p.Text("It is not the cheapest of those that are good enough.")
	case c.Quality > first.Quality:
		return p.Text("It is better, and costs more than that is worth here.")
	case c.Cost < first.Cost:
		return p.Text("It is cheaper, and loses more quality than that saves here.")
	}
	return p.Text("It is neither better nor cheaper.")
}
