package views

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/portal/texts"
)

// Routes is how routes do.
type Routes struct {
	Status admin.Status
	Rows   []RouteRow
	Days   int // over which money is summed up
	Total  admin.Usage
	Plane  Plane
}

// RouteRow is a route, with what is known of it.
type RouteRow struct {
	admin.Route
	Learned admin.LearnedRoute
	Used    admin.Usage
}

// RouteDetail is one route.
type RouteDetail struct {
	RouteRow
	Days  int
	ByDay []admin.Usage
	Chart Chart
}

// Plane is what is expected of usual requests: quality over cost.
type Plane struct {
	Routes   []PlanePoint
	Profiles []PlanePoint
	Curve    []PlanePoint // from where only cost counts to where only quality does
}

// PlanePoint is a place on it. Shares are of a profile: what goes to which route, the most first.
type PlanePoint struct {
	Name       string
	Quality    float64 // 0 to 1
	Microcents float64 // for a request
	Serves     float64 // of a route: the share of requests that it can take
	Shares     []PlaneShare
}

// PlaneShare is the share that a route has.
type PlaneShare struct {
	Route string
	Share float64
}

// RouteWords say in plain words why a route is called or is not.
func RouteWords(p *texts.Language, state string) string {
	switch state {
	case "serves":
		return p.Text("It takes requests.")
	case "open":
		return p.Text("It failed too often: it is not called for a while, and then tried.")
	case "half_open":
		return p.Text("It failed before, and is tried now with one request at a time.")
	case "ejected":
		return p.Text("It does clearly worse than the others: it is called where no other is left.")
	case "rate_limited":
		return p.Text("Its upstream takes no more for the moment.")
	case "out_of_quota":
		return p.Text("What was paid for at its upstream is used up.")
	case "refused":
		return p.Text("Its upstream refuses the credential: look at the provider's key.")
	case "not_ready":
		return p.Text("Its provider does not run.")
	}
	return ""
}

// seconds writes a time, or that there is none.
func seconds(p *Page, v *float64) string {
	if v == nil {
		return "–"
	}
	return p.Milliseconds(1000 * *v)
}

// share writes a part of 1 in percent.
func share(p *Page, part float64) string {
	return p.Decimal(100*part, 1) + " %"
}

// failedOf is how many attempts of a route failed.
func failedOf(c *admin.RouteCounts) (n int64) {
	for _, of := range c.Failed {
		n += of
	}
	return n
}

// failures are those of a route by kind, the most first.
func failures(c *admin.RouteCounts) []string {
	return slices.SortedFunc(maps.Keys(c.Failed), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.Failed[b], c.Failed[a]), strings.Compare(a, b))
	})
}

// shares writes what goes where.
func shares(p *Page, list []PlaneShare) string {
	var texts []string
	for _, s := range list {
		texts = append(texts, s.Route+" "+share(p, s.Share))
	}
	return strings.Join(texts, ", ")
}

// Sizes of the plane, in units of its drawing.
const (
	planeWidth, planeHeight = 720.0, 380.0
	planeLeft, planeRight   = 54.0, 20.0
	planeTop, planeBottom   = 16.0, 44.0
	// planeLabels is how many routes are named: those that no other one beats.
	planeLabels = 12
)

// axes are what a plane spans. Costs are on a scale of powers of ten: prices lie far apart.
type axes struct{ least, most, low, high float64 }

func (v *Plane) axes() axes {
	a := axes{least: math.Inf(1), low: math.Inf(1), high: math.Inf(-1)}
	for _, list := range [...][]PlanePoint{v.Routes, v.Profiles, v.Curve} {
		for _, p := range list {
			if p.Serves == 0 && p.Microcents == 0 {
				continue
			}
			cost := max(p.Microcents, 1)
			a.least, a.most = min(a.least, cost), max(a.most, cost)
			a.low, a.high = min(a.low, p.Quality), max(a.high, p.Quality)
		}
	}
	if a.most == 0 {
		return axes{1, 10, 0, 1}
	}
	const air = 1.25
	a.least, a.most = a.least/air, a.most*air
	a.low, a.high = max(0, a.low-.03), min(1, a.high+.03)
	return a
}

func (a axes) x(microcents float64) float64 {
	at := math.Log(max(microcents, 1)/a.least) / math.Log(a.most/a.least)
	return planeLeft + min(max(at, 0), 1)*(planeWidth-planeLeft-planeRight)
}

func (a axes) y(quality float64) float64 {
	at := (quality - a.low) / max(a.high-a.low, 1e-9)
	return planeTop + (1-min(max(at, 0), 1))*(planeHeight-planeTop-planeBottom)
}

// planeTick is a mark of an axis.
type planeTick struct {
	At   float64
	Text string
}

// costs are marks at 1, 2 and 5 times powers of ten, of a thousand requests in credits.
func (a axes) costs(p *Page) (list []planeTick) {
	for power := math.Floor(math.Log10(a.least)); power <= math.Ceil(math.Log10(a.most)); power++ {
		for _, times := range [...]float64{1, 2, 5} {
			if v := times * math.Pow(10, power); v >= a.least && v <= a.most {
				list = append(list, planeTick{a.x(v), p.Language.Credits(int64(1000 * v))})
			}
		}
	}
	for len(list) > 7 {
		var fewer []planeTick
		for i := 0; i < len(list); i += 2 {
			fewer = append(fewer, list[i])
		}
		list = fewer
	}
	return list
}

func (a axes) qualities(p *Page) (list []planeTick) {
	step := 0.05
	for (a.high-a.low)/step > 8 {
		step *= 2
	}
	for v := math.Ceil(a.low/step) * step; v <= a.high+1e-9; v += step {
		list = append(list, planeTick{a.y(v), p.Decimal(v, 2)})
	}
	return list
}

// path is the curve.
func (v *Plane) path(a axes) string {
	var points []string
	for _, p := range v.Curve {
		points = append(points, number(a.x(p.Microcents))+","+number(a.y(p.Quality)))
	}
	return strings.Join(points, " ")
}

// isNamed reports a route that none beats in both, of the first few of those.
func (v *Plane) isNamed(i int) bool {
	if len(v.Routes) <= planeLabels {
		return true
	}
	named := 0
	for at := range v.Routes {
		p := &v.Routes[at]
		if slices.ContainsFunc(v.Routes, func(o PlanePoint) bool {
			return o.Quality > p.Quality && o.Microcents <= p.Microcents
		}) {
			continue
		}
		if named++; at == i {
			return named <= planeLabels
		}
	}
	return false
}

// label is where a point's name stands: to the left where there is no room to the right.
func label(a axes, p *PlanePoint) (x, y, anchor string) {
	at := a.x(p.Microcents)
	if at > planeWidth-150 {
		return number(at - 9), number(a.y(p.Quality) - 7), "end"
	}
	return number(at + 9), number(a.y(p.Quality) - 7), "start"
}

// labelX, labelY and labelAnchor are those of label.
func labelX(a axes, p *PlanePoint) string      { x, _, _ := label(a, p); return x }
func labelY(a axes, p *PlanePoint) string      { _, y, _ := label(a, p); return y }
func labelAnchor(a axes, p *PlanePoint) string { _, _, anchor := label(a, p); return anchor }

// diamond is the mark of a profile.
func diamond(a axes, p *PlanePoint) string {
	x, y := a.x(p.Microcents), a.y(p.Quality)
	const size = 7
	return fmt.Sprintf("%.2f,%.2f %.2f,%.2f %.2f,%.2f %.2f,%.2f", x, y-size, x+size, y, x, y+size, x-size, y)
}

// planeBox is the drawing's view box.
func planeBox() string {
	return "0 0 " + strconv.Itoa(planeWidth) + " " + strconv.Itoa(planeHeight)
}
