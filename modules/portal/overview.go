package portal

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/portal/views"
)

const (
	// expiresSoon is when a certificate ought to have been renewed: Caddy does so with a third of its time left.
	expiresSoon = 7 * 24 * time.Hour
	// spoolLags is from when on settlements that wait mean that the ledger takes none.
	spoolLags = 30 * time.Second
	// rateSpan is over what requests a second are counted.
	rateSpan = time.Minute
)

// showOverview is what operators see first: what needs them, and how it runs.
func showOverview(v *visit) error {
	var status admin.Status
	if err := v.get("/fareway/status", &status); err != nil {
		return err
	}
	var recent admin.Recent
	if err := v.get("/fareway/requests", &recent); err != nil {
		return err
	}
	now := v.engine.Now()
	today, err := v.usageOf(url.Values{"since": {now.UTC().Truncate(24 * time.Hour).Format(time.RFC3339)}})
	if err != nil {
		return err
	}
	view := views.Overview{Status: status, Attention: v.operatorAttention(&status, now)}
	if len(today) > 0 {
		view.Today = today[0]
	}
	view.Rate, view.Failed = rateOf(&recent, now)
	for _, r := range status.Routes {
		if r.State == "serves" {
			view.Serving++
		}
	}
	view.Recent = recent.Requests[:min(len(recent.Requests), 10)]
	return v.show(views.OverviewPage(v.page("Overview"), view))
}

// rateOf is how many requests a second have ended, and how many of them have failed. The list has so many at most;
// where it does not reach back far enough, what it has counts for the time that it has.
func rateOf(recent *admin.Recent, now time.Time) (rate float64, failed int) {
	n, oldest := 0, now
	for i := range recent.Requests {
		r := &recent.Requests[i]
		if now.Sub(r.Time) > rateSpan {
			continue
		}
		n++
		if r.Time.Before(oldest) {
			oldest = r.Time
		}
		if r.Status >= 500 {
			failed++
		}
	}
	span := min(rateSpan, max(now.Sub(recent.Since), time.Second))
	if n == len(recent.Requests) && n > 0 && recent.Missed > 0 {
		span = max(now.Sub(oldest), time.Second)
	}
	return float64(n) / span.Seconds(), failed
}

// operatorAttention is what somebody should do about the gateway, what stops it first.
func (v *visit) operatorAttention(s *admin.Status, now time.Time) (list []views.Attention) {
	t := v.language
	add := func(text, link, act string) {
		list = append(list, views.Attention{Text: text, Link: link, Act: act})
	}
	routes, configuration := t.Text("Routes"), t.Text("Configuration")
	if !s.Ready {
		add(t.Text("This gateway takes no requests: %s", s.Reason), "", "")
	}
	if s.Loss != nil {
		add(t.Text("The ledger lacks something that was in it before: `fareway gateway ledger verify` says what."), "", "")
	}
	if s.Spool.Undecided > 0 {
		add(t.Count(s.Spool.Undecided, "One settlement could not be booked and waits for your decision:",
			"%s settlements could not be booked and wait for your decision:")+" `fareway gateway ledger spool list`", "", "")
	}
	if s.Spool.Since != nil && now.Sub(*s.Spool.Since) > spoolLags {
		add(t.Count(s.Spool.Waiting, "One settlement waits for the ledger, which takes none.",
			"%s settlements wait for the ledger, which takes none."), "", "")
	}
	if s.FailedLoad != nil {
		add(t.Text("The configuration as it is saved was not taken: what served before goes on."),
			"/portal/operator/configuration", configuration)
	}
	for i := range s.Routes {
		if r := &s.Routes[i]; r.State != "serves" {
			add(t.Text("Route %s:", r.Name)+" "+views.RouteWords(t, r.State),
				"/portal/operator/routes/"+url.PathEscape(r.Name), t.Text("Look at it"))
		}
	}
	for _, p := range s.Providers {
		if !p.Ready {
			add(strings.TrimSpace(t.Text("The provider %s is not ready.", p.Name)+" "+p.Problem), "/portal/operator/plugins",
				t.Text("Plugins"))
		}
	}
	if s.Limiter != nil && !s.Limiter.Up {
		add(t.Text("The limiter's server is away: this node admits its share of each limit."), "", "")
	}
	for _, what := range slices.Sorted(maps.Keys(s.Servers)) {
		if !s.Servers[what].Up {
			add(t.Text("A server that nodes share is away (%s): %s", what, s.Servers[what].Reason), "", "")
		}
	}
	if s.Backups != nil {
		v.addBackups(s.Backups, add)
	}
	for _, c := range s.Certificates {
		switch {
		case c.Failed != nil:
			add(t.Text("No certificate could be had for %s: %s", c.Host, c.Failed.Text), "", "")
		case c.Expires != nil && c.Expires.Sub(now) < expiresSoon:
			add(t.Text("The certificate for %s ends soon, and was not renewed.", c.Host), "", "")
		}
	}
	if s.Upstreams != nil {
		add(t.Text("Upstreams do not offer all that the configuration asks of them: `fareway gateway status` says what."),
			"/portal/operator/routes", routes)
	}
	if s.Alerts != nil {
		v.addAlerts(s.Alerts, add)
	}
	return list
}

func (v *visit) addBackups(b *admin.Backups, add func(text, link, act string)) {
	t := v.language
	for _, chore := range b.Missed {
		if chore == chores.Trial {
			add(t.Text("No backup was tried in time: whether they can be restored is not known."), "", "")
		} else {
			add(t.Text("No backup was made in time: see `fareway gateway backup`."), "", "")
		}
	}
	if b.Problem != "" {
		add(t.Text("Whether backups are made is not known: %s", b.Problem), "", "")
	}
}

// shownElsewhere are alerts about what this page says of itself.
var shownElsewhere = []string{"no_route", "provider_down", "provider_key"}

func (v *visit) addAlerts(s *admin.AlertsSummary, add func(text, link, act string)) {
	t := v.language
	for i := range s.Raised {
		if a := &s.Raised[i]; !slices.Contains(shownElsewhere, a.Event) {
			add(alertText(a), "", "")
		}
	}
	for _, event := range slices.Sorted(maps.Keys(s.Accounts)) {
		n := int64(s.Accounts[event])
		add(t.Count(n, "One account:", "%s accounts:")+" "+event, "/portal/operator/accounts", t.Text("Accounts"))
	}
	for i := range s.Failing {
		add(t.Text("Messages to %s do not arrive.", s.Failing[i].Key), "", "")
	}
	if why := cmp.Or(s.Problem, s.Idle); why != "" {
		add(t.Text("Alerts may reach nobody: %s", why), "", "")
	}
}

func alertText(a *alerts.Alert) string { return strings.TrimSpace(a.Text + " " + a.Next) }
