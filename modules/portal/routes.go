package portal

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/portal/views"
)

// maxRouteDays is how far back the money of routes is summed up at most.
const maxRouteDays = 90

// routeDays is over how many days money is summed up, and since when.
func (v *visit) routeDays() (days int, since time.Time) {
	days, err := strconv.Atoi(v.r.URL.Query().Get("days"))
	if err != nil || days < 1 || days > maxRouteDays {
		days = 7
	}
	return days, v.engine.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days)
}

// usageOf are sums of the whole gateway.
func (v *visit) usageOf(q url.Values) ([]admin.Usage, error) {
	return readUsage(v.r.Context(), v.api(v.engine, v.actor()), q)
}

// get reads one value of the admin API.
func (v *visit) get(path string, to any) error {
	return v.api(v.engine, v.actor()).Call(v.r.Context(), http.MethodGet, path, nil, to)
}

// routeRows are the routes, with what is known of them.
func (v *visit) routeRows(status *admin.Status, since time.Time) ([]views.RouteRow, error) {
	if err := v.get("/fareway/status", status); err != nil {
		return nil, err
	}
	var learned []admin.LearnedRoute
	if err := v.get("/fareway/routes", &learned); err != nil {
		return nil, err
	}
	used, err := v.usageOf(url.Values{"by": {"route"}, "since": {since.Format(time.RFC3339)}})
	if err != nil {
		return nil, err
	}
	rows := make([]views.RouteRow, len(status.Routes))
	for i, r := range status.Routes {
		rows[i].Route = r
		if at := slices.IndexFunc(learned, func(l admin.LearnedRoute) bool { return l.Name == r.Name }); at >= 0 {
			rows[i].Learned = learned[at]
		}
		if at := slices.IndexFunc(used, func(u admin.Usage) bool { return u.Route == r.Name }); at >= 0 {
			rows[i].Used = used[at]
		}
	}
	return rows, nil
}

func showRoutes(v *visit) error {
	days, since := v.routeDays()
	view := views.Routes{Days: days}
	var err error
	if view.Rows, err = v.routeRows(&view.Status, since); err != nil {
		return err
	}
	// Not the sum of the rows: there were routes that the configuration has no more, and requests that were tried on two.
	total, err := v.usageOf(url.Values{"since": {since.Format(time.RFC3339)}})
	if err != nil {
		return err
	}
	if len(total) > 0 {
		view.Total = total[0]
	}
	for i := range view.Rows {
		view.Plane.Routes = append(view.Plane.Routes, planePoint(&view.Rows[i].Learned))
	}
	if err := v.planeOf(&view.Plane); err != nil {
		return err
	}
	return v.show(views.RoutesPage(v.page("Routes"), view))
}

func planePoint(r *admin.LearnedRoute) views.PlanePoint {
	return views.PlanePoint{Name: r.Name, Quality: r.Usual.Quality, Microcents: r.Usual.Microcents, Serves: r.Usual.Serves}
}

// planeOf adds what the choice among routes reaches.
func (v *visit) planeOf(plane *views.Plane) error {
	var curve []admin.CurvePoint
	if err := v.get("/fareway/profiles/curve", &curve); err != nil {
		return err
	}
	for _, p := range curve {
		plane.Curve = append(plane.Curve, views.PlanePoint{Quality: p.Quality, Microcents: p.Microcents})
	}
	var profiles []routing.Prospect
	if err := v.get("/fareway/profiles", &profiles); err != nil {
		return err
	}
	for i := range profiles {
		plane.Profiles = append(plane.Profiles, profilePoint(&profiles[i]))
	}
	return nil
}

// shownShares is of how many routes, those that get most, a profile's shares are told.
const shownShares = 6

func profilePoint(p *routing.Prospect) views.PlanePoint {
	point := views.PlanePoint{Name: p.Profile, Quality: p.Quality, Microcents: p.Microcents, Serves: 1 - p.Refused}
	for _, r := range p.Routes {
		if r.Share >= 0.0005 {
			point.Shares = append(point.Shares, views.PlaneShare{Route: r.Route, Share: r.Share})
		}
	}
	slices.SortStableFunc(point.Shares, func(a, b views.PlaneShare) int { return cmp.Compare(b.Share, a.Share) })
	point.Shares = point.Shares[:min(len(point.Shares), shownShares)]
	return point
}

func showRoute(v *visit) error {
	name := v.r.PathValue("name")
	days, since := v.routeDays()
	var status admin.Status
	rows, err := v.routeRows(&status, since)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(rows, func(r views.RouteRow) bool { return r.Name == name })
	if at < 0 {
		return errNotFound
	}
	view := views.RouteDetail{RouteRow: rows[at], Days: days,
		Chart: views.Chart{Title: v.language.Text("Credits charged")}}
	view.ByDay, err = v.usageOf(url.Values{"by": {"day"}, "route": {name}, "since": {since.Format(time.RFC3339)}})
	if err != nil {
		return err
	}
	view.Chart.Bars = v.dayBars(since, view.ByDay)
	page := v.page("Route")
	page.Title = v.language.Text("Route %s", name)
	return v.show(views.RoutePage(page, view))
}

// dayBars are what was charged on each day since one, which begins in UTC.
func (v *visit) dayBars(since time.Time, rows []admin.Usage) (bars []views.Bar) {
	charged := make(map[string]int64, len(rows))
	for _, r := range rows {
		charged[r.Day] += r.Microcents
	}
	for day := since; day.Before(v.engine.Now()); day = day.AddDate(0, 0, 1) {
		label := day.Format(time.DateOnly)
		bars = append(bars, views.Bar{Label: label, Value: charged[label], Text: v.language.Exact(charged[label])})
	}
	return bars
}
