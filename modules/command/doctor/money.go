package doctor

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

var moneyChecks = []Check{
	{Name: "accounts", About: "money", Worst: Warning,
		Looks: "whether somebody can call: accounts, their states, credits and keys, and keys that expire soon",
		Why:   "nobody can use the gateway",
		Next:  "fareway gateway account list",
		run:   checkAccounts},
	{Name: "margin", About: "money", Worst: Warning,
		Looks: "what each route earned in the last 30 days, less refunds and its cost, and work that nobody pays for",
		Why:   "you lose with each request",
		Next:  "fareway gateway usage --by route --since 30d",
		run:   checkMargin},
	{Name: "bill", About: "money", Worst: Error, needs: configured,
		Looks: "our cost against an upstream's bill (--bill PROVIDER=USD, of last month or --since and --until)",
		Why:   "one of the two is wrong: prices, missing usage, or somebody else who has your key",
		Next:  "fareway gateway usage --by route,day",
		run:   checkBills},
	{Name: "unproven", About: "money", Worst: Warning, needs: gatewayRuns,
		Looks: "attempts whose usage is not proven, and settlements that wait for a receipt",
		Why:   "they are free for their accounts when receipt_age is over, and you pay them",
		Next:  "fareway gateway usage --by route",
		run:   checkUnproven},
}

// A price is in microcents for a million tokens: 100,000,000 of them are a dollar.
const (
	perDollar = 100_000_000
	mostUSD   = 1000   // no model costs so much for a million tokens
	leastUSD  = 0.0009 // and none so little, but for free ones
	rareUSD   = 0.005  // hardly one costs less
	sameModel = 300    // from which factor on two prices of one model are in two units
)

// dear is what hardly a model costs, in US dollars.
var dear = map[string]float64{"input": 200, "output": 700}

func usd(microcents int64) float64 { return float64(microcents) / perDollar }

func checkPrices(_ context.Context, s *Subject, r *result) {
	slips := priceSlips(s, r)
	byModel := make(map[string]*config.Route)
	for i := range s.Config.Routes {
		route := &s.Config.Routes[i]
		if slices.Contains(slips, route.Model) {
			continue // in the wrong unit, its other numbers say nothing
		}
		for _, c := range classes(&route.Price)[:2] { // the others are input's where they are not said
			switch dollars := usd(c.price); {
			case dollars > mostUSD:
				r.found("route %s has %s = %g, that is US$%g for a million tokens", route.Name, c.name, dollars, dollars).
					because("no model costs so much: it may be the price of a billion, or in cents").
					then("write the price of a million tokens in US dollars in %s", s.HCL)
			case c.price > 0 && dollars < rareUSD && dollars >= leastUSD, dollars > dear[c.name]:
				r.found("route %s has %s = %g, that is US$%g for a million tokens", route.Name, c.name, dollars, dollars).
					as(Warning).because("hardly a model costs that: the price may be of a thousand tokens, or of a billion").
					then("write the price of a million tokens in US dollars in %s", s.HCL)
			case c.price > 0 && dollars < leastUSD:
				r.found("route %s has %s = %g, that is US$%g for a million tokens", route.Name, c.name, dollars, dollars).
					because("no model costs so little: it looks like the price of a thousand tokens, or of one").
					then("write the price of a million tokens in US dollars in %s", s.HCL)
			}
		}
		checkLaterPrices(s, r, route)
		checkMargins(s, r, route)
		first, ok := byModel[route.Model]
		if !ok {
			byModel[route.Model] = route
			continue
		}
		a, b := first.Price.Input, route.Price.Input
		if a > 0 && b > 0 && (a/b >= sameModel || b/a >= sameModel) {
			r.found("routes %s and %s are the same model (%s), and cost US$%g and US$%g for a million tokens of input",
				first.Name, route.Name, route.Model, usd(a), usd(b)).
				because("one of the two is in another unit").then("compare them in %s", s.HCL)
		}
	}
}

// priceSlips tells of the prices that the configuration's check knows to be in the wrong unit, and returns their
// models.
func priceSlips(s *Subject, r *result) (models []string) {
	for _, d := range s.Diagnostics.All() {
		if !isPriceFinding(&d) {
			continue
		}
		r.found("%s: %s", d.Position(), d.Summary).because("%s", d.Detail)
		for _, route := range s.Config.Routes {
			if strings.Contains(d.Summary, " "+route.Model+" ") {
				models = append(models, route.Model)
			}
		}
	}
	return models
}

// checkLaterPrices compares the prices that a route gets later with today's.
func checkLaterPrices(s *Subject, r *result, route *config.Route) {
	for _, later := range route.LaterPrices {
		now, then := route.Price.Input, later.Price.Input
		if now > 0 && then > 0 && (now/then >= sameModel || then/now >= sameModel) {
			r.found("route %s charges US$%g for a million tokens of input, and US$%g from %s on", route.Name, usd(now),
				usd(then), later.From.Format(time.DateOnly)).because("one of the two is in another unit").
				then("compare them in %s", s.HCL)
		}
	}
}

// checkMargins compares what accounts pay for a route with what it costs.
func checkMargins(s *Subject, r *result, route *config.Route) {
	costs := classes(&route.Cost)
	var lost []string
	for i, c := range classes(&route.Price) {
		if c.price < costs[i].price {
			lost = append(lost, fmt.Sprintf("US$%g for %s, which costs US$%g", usd(c.price), c.name, usd(costs[i].price)))
		}
	}
	if len(lost) > 0 {
		r.found("route %s charges less for a million tokens than they cost: %s", route.Name, strings.Join(lost, "; ")).
			as(Warning).because("you lose with each request").
			then("raise the price, or correct the cost, of route %s in %s", route.Name, s.HCL)
	}
	p := route.Price
	if p.Input == 0 && p.Output == 0 && s.isPublic() {
		r.found("route %s is free", route.Name).as(Note).because("whoever has a key uses it without end")
	} else if route.MaxOutput > 0 && (p.Input == 0) != (p.Output == 0) {
		free := "input"
		if p.Output == 0 {
			free = "output"
		}
		r.found("route %s charges nothing for %s", route.Name, free).as(Warning).
			because("services charge for both: one of the two may be missing").
			then("write both in the block price of route %s in %s", route.Name, s.HCL)
	} else if p.Output > 0 && p.Input > 2*p.Output {
		r.found("route %s charges US$%g for input and US$%g for output", route.Name, usd(p.Input), usd(p.Output)).as(Note).
			because("services charge more for output: the two may be exchanged")
	}
}

type class struct {
	name  string
	price int64
}

func classes(p *config.Price) []class {
	return []class{{"input", p.Input}, {"output", p.Output}, {"cache_read", p.CacheRead}, {"cache_write", p.CacheWrite}}
}

// mostRows is how many rows of a list are looked at: there may be millions.
const mostRows = 20_000

func checkAccounts(ctx context.Context, s *Subject, r *result) {
	var accounts, active, funded, keys, usable, endless int
	var soon []string
	now := s.Now()
	ok := s.ask(ctx, r, func(c *admin.Client) error {
		err := upTo(mostRows, func(each func() error) error {
			return admin.ReadList(ctx, c, "/fareway/accounts", nil, func(a admin.Account) error {
				accounts++
				if a.State == string(ledger.Active) {
					active++
					if a.AvailableCredits > 0 {
						funded++
					}
				}
				return each()
			})
		})
		if err != nil {
			return err
		}
		return upTo(mostRows, func(each func() error) error {
			return admin.ReadList(ctx, c, "/fareway/keys", nil, func(k admin.Key) error {
				keys++
				if k.State != admin.KeyActive {
					return each()
				}
				usable++
				if k.Expires != nil && k.Expires.Sub(now) < 7*24*time.Hour {
					soon = append(soon, fmt.Sprintf("%s of %s (%s)", k.Name, k.Account, human.Moment(*k.Expires)))
				}
				if k.Expires == nil && k.SpendCapMicrocents == 0 {
					endless++
				}
				return each()
			})
		})
	})
	if !ok {
		return
	}
	more := ""
	if accounts >= mostRows {
		more = fmt.Sprintf(" (of the first %s)", human.Thousands(mostRows))
	}
	switch {
	case accounts == 0:
		r.found("there is no account").as(s.unlessPublic(Warning)).then("%s", s.command("account create NAME"))
	case active == 0:
		r.found("none of the %s is active%s", human.Count(accounts, "account"), more).as(Error).
			then("%s", s.command("account activate NAME"))
	case funded == 0:
		r.found("none of the %s has credits%s", human.Count(active, "active account"), more).
			because("every request is refused with 402").then("%s", s.command("credit add --account NAME 1000"))
	}
	if s.Config != nil && len(s.Config.Plans) > 0 && funded == 0 &&
		!slices.ContainsFunc(s.Config.Plans, func(p config.Plan) bool { return p.MonthlyCredits > 0 }) {
		r.found("no plan gives monthly credits").as(Note).because("accounts have what `credit add` gives them and no more")
	}
	if accounts > 0 && usable == 0 {
		r.found("none of %s can be used: they are revoked or expired", human.Count(keys, "key")).
			then("%s", s.command("key create --account NAME --name laptop"))
	}
	if len(soon) > 0 {
		r.found("%s within a week: %s", human.Count(len(soon), "key")+" expire", some(soon)).as(Note).
			because("their clients are refused then").then("%s", s.command("key rotate ID"))
	}
	if endless > 0 && s.isPublic() {
		r.found("%s no end and no cap of their own", human.Count(endless, "key")+" have").as(Note).
			because("who finds one spends all that its account has").
			then("%s", s.command("key change ID --spend-cap CREDITS"))
	}
}

// errEnough ends a list of which enough was read.
var errEnough = fmt.Errorf("enough was read")

// upTo reads at most so many rows of a list.
func upTo(most int, read func(each func() error) error) error {
	n := 0
	err := read(func() error {
		if n++; n >= most {
			return errEnough
		}
		return nil
	})
	if err == errEnough { //nolint:errorlint // it is handed through as it is
		return nil
	}
	return err
}

// usageByRoute is what was used in a time, by route.
func usageByRoute(ctx context.Context, c *admin.Client, since, until time.Time) (map[string]admin.Usage, error) {
	query := url.Values{"by": {"route"}, "since": {since.UTC().Format(time.RFC3339Nano)}}
	if !until.IsZero() {
		query.Set("until", until.UTC().Format(time.RFC3339Nano))
	}
	sums := make(map[string]admin.Usage)
	err := admin.ReadList(ctx, c, "/fareway/usage", query, func(u admin.Usage) error {
		sums[u.Route] = u
		return nil
	})
	return sums, err
}

func checkMargin(ctx context.Context, s *Subject, r *result) {
	var sums map[string]admin.Usage
	if !s.ask(ctx, r, func(c *admin.Client) (err error) {
		sums, err = usageByRoute(ctx, c, s.Now().Add(-30*24*time.Hour), time.Time{})
		return err
	}) {
		return
	}
	for _, route := range slices.Sorted(maps.Keys(sums)) {
		u := sums[route]
		switch {
		case u.Cost > 0 && u.Margin < 0:
			r.found("route %s brought US$%.2f in 30 days, less US$%.2f of refunds, and cost US$%.2f: a loss of US$%.2f", route,
				usd(u.Microcents), usd(u.Refunded), usd(u.Cost), -usd(u.Margin)).
				then("%s", s.command("usage --by route,account --route %s --since 30d", route))
		case u.Over*20 > u.Cost && u.Over > perDollar:
			r.found("upstreams of route %s have reported US$%.2f beyond what was held in 30 days (of US$%.2f)", route,
				usd(u.Over), usd(u.Cost)).because("nobody pays that but you").
				then("bills_past_allowance = true   # in route %s of %s", route, s.HCL)
		}
	}
}

// Between what upstreams count and what we do there is a little: they round, and a day ends elsewhere.
const (
	billRounds = 0.02
	billWrong  = 0.10
)

func checkBills(ctx context.Context, s *Subject, r *result) {
	if len(s.Bills) == 0 {
		r.skip("no bill was given: --bill PROVIDER=USD has one compared")
		return
	}
	since, until := s.billed()
	var sums map[string]admin.Usage
	if !s.ask(ctx, r, func(c *admin.Client) (err error) {
		sums, err = usageByRoute(ctx, c, since, until)
		return err
	}) {
		return
	}
	gone := s.goneRoutes(r, sums)
	for _, provider := range slices.Sorted(maps.Keys(s.Bills)) {
		billed := s.Bills[provider]
		var cost, pending, pruned int64
		var routes []string
		for _, route := range s.Config.Routes {
			if u, ok := sums[route.Name]; ok && route.Provider == provider {
				cost, pending, pruned = cost+u.Cost, pending+u.Pending, pruned+u.Pruned
				routes = append(routes, route.Name)
			}
		}
		if !slices.ContainsFunc(s.Config.Providers, func(p config.Provider) bool { return p.Name == provider }) {
			r.found("there is no provider %q", provider).because("its bill cannot be compared").
				then("--bill NAME=USD, where NAME is one of %s", s.HCL)
			continue
		}
		before := len(r.findings)
		judgeBill(s, r, provider, billed, usd(cost), pending, routes)
		if len(r.findings) == before {
			continue
		}
		f := &r.findings[before]
		if gone != "" {
			f.Why += "; or the cost of routes that are not in the configuration any more is missing here: " + gone
		}
		if pruned > 0 {
			f.Why += fmt.Sprintf("; of %s only sums are left", human.Count(pruned, "request"))
		}
	}
}

// goneRoutes are those with a cost that the configuration does not have any more: whose upstream it was is not known.
func (s *Subject) goneRoutes(r *result, sums map[string]admin.Usage) string {
	var gone []string
	for _, route := range slices.Sorted(maps.Keys(sums)) {
		known := slices.ContainsFunc(s.Config.Routes, func(c config.Route) bool { return c.Name == route })
		if u := sums[route]; !known && route != "" && u.Cost > 0 {
			gone = append(gone, fmt.Sprintf("%s (US$%.2f)", route, usd(u.Cost)))
		}
	}
	if len(gone) > 0 {
		r.found("routes that are not in the configuration any more have cost: %s", some(gone)).as(Note).
			because("that is in no provider's sum, for which of them served it is not known")
	}
	return some(gone)
}

// billed is the time that bills are of.
func (s *Subject) billed() (since, until time.Time) {
	if !s.Since.IsZero() || !s.Until.IsZero() {
		since, until = s.Since, s.Until
		if until.IsZero() {
			until = s.Now().UTC()
		}
		if since.IsZero() {
			since = until.AddDate(0, -1, 0)
		}
		return since, until
	}
	now := s.Now().UTC()
	until = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return until.AddDate(0, -1, 0), until
}

func judgeBill(s *Subject, r *result, provider string, billed, ours float64, pending int64, routes []string) {
	apart := math.Abs(billed - ours)
	share := apart / max(billed, ours, 0.01)
	if share <= billRounds || apart < 0.01 {
		return
	}
	since, until := s.billed()
	f := r.found("%s has billed US$%.2f from %s to %s, and our cost of its routes (%s) is US$%.2f: %.0f %% apart",
		provider, billed, since.Format(time.DateOnly), until.Format(time.DateOnly), some(routes), ours,
		100*share).then("%s", s.command("usage --by route,day --since %s --until %s", since.Format(time.DateOnly),
		until.Format(time.DateOnly)))
	switch {
	case billed > 300*ours || ours > 300*billed && billed > 0:
		f.because("a price is in another unit: look at `cost` and `price` of its routes")
	case billed > ours && pending > 0:
		f.because("%s wait for a receipt; otherwise the cost is too low in the configuration, or somebody else has the key",
			human.Count(pending, "request"))
	case billed > ours:
		f.because("the cost in the configuration is too low, something else is paid with this key, or somebody else has it")
	default:
		f.because("the cost in the configuration is too high, as where the service gives a discount")
	}
	if share <= billWrong {
		f.as(Warning)
	}
}

func checkUnproven(ctx context.Context, s *Subject, r *result) {
	if !s.needMetrics(ctx, r) {
		return
	}
	const many = 20
	s.each(ctx, "fareway_unproven_attempts", func(m *dto.Metric, n float64) {
		if n >= many {
			r.found("%.0f attempts of provider %s wait for a receipt", n, label(m, "provider")).
				then("look whether the service has receipts, or set metering = \"estimate\" for its routes in %s", s.HCL)
		}
	})
	var estimated []string
	if s.Config != nil {
		for _, route := range s.Config.Routes {
			if route.Metering == config.MeteringEstimate {
				estimated = append(estimated, route.Name)
			}
		}
	}
	if len(estimated) > 0 {
		r.found("what routes %s have used is estimated", strings.Join(estimated, ", ")).as(Note).
			because("the upstream's bill may be another").then("%s", s.command("doctor bill --bill PROVIDER=USD"))
	}
}
