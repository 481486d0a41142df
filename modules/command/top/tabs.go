package top

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

// Tab is one of the views.
type Tab int

// The tabs, in their order.
const (
	Routes Tab = iota
	Accounts
	Requests
	Plugins
	Problems
	tabs
)

var tabNames = [tabs]string{"Routes", "Accounts", "Requests", "Plugins", "Problems"}

// String is the tab's title.
func (t Tab) String() string { return tabNames[t] }

// grid is the table of a tab.
func (f *Frame) grid(t Tab, ui *UI) grid {
	switch t {
	case Routes:
		return f.routeGrid()
	case Accounts:
		return f.accountGrid()
	case Requests:
		return f.requestGrid(ui.OnlyFailed)
	case Plugins:
		return f.pluginGrid()
	}
	return f.problemGrid()
}

func stateStyle(fine bool) style {
	if fine {
		return plain
	}
	return bad
}

func (f *Frame) routeGrid() grid {
	g := grid{empty: "No configuration serves.", columns: []column{
		{title: "ROUTE", least: 12, shrink: 16}, {title: "STATE", shrink: 8},
		{title: "RUN", least: 4, right: true, drop: 3}, {title: "ATT/S", least: 6, right: true},
		{title: "ERR", least: 4, right: true}, {title: "FIRST p50", right: true, drop: 2},
		{title: "p95", least: 6, right: true}, {title: "MARGIN/min", right: true, drop: 1},
		{title: "CHARGED/min", right: true, drop: 5}, {title: "TOOK p95", least: 8, right: true, drop: 4},
		{title: "TOK/S", least: 6, right: true, drop: 6}, {title: "UPSTREAM", shrink: 16, drop: 7},
	}}
	for i := range f.Routes {
		r := &f.Routes[i]
		failing, margin := plain, plain
		if r.FailedShare != nil && *r.FailedShare > 0 {
			failing = bad
		}
		if r.Margin != nil && *r.Margin < 0 {
			margin = bad
		}
		g.rows = append(g.rows, row{key: r.Name, cells: []cell{textCell(r.Name, plain),
			textCell(strings.ReplaceAll(r.State, "_", " "), stateStyle(r.State == "serves")),
			numberCell(amount(r.Running), &r.Running, plain), numberCell(rate(r.Attempts), r.Attempts, plain),
			numberCell(percent(r.FailedShare), r.FailedShare, failing),
			numberCell(seconds(r.FirstTokenP50), r.FirstTokenP50, plain),
			numberCell(seconds(r.FirstTokenP95), r.FirstTokenP95, plain),
			numberCell(credits(r.Margin), r.Margin, margin), numberCell(credits(r.Charged), r.Charged, plain),
			numberCell(seconds(r.TookP95), r.TookP95, plain), numberCell(rate(r.OutputTokens), r.OutputTokens, plain),
			textCell(r.Model+" of "+r.Provider, dim)}})
	}
	return g
}

func (f *Frame) accountGrid() grid {
	g := grid{columns: []column{
		{title: "ACCOUNT", least: 12, shrink: 20}, {title: "SPENT", least: 8, right: true},
		{title: "REQ", least: 6, right: true}, {title: "ERR", least: 4, right: true, drop: 3},
		{title: "REFUSED", right: true, drop: 4}, {title: "TOKENS", least: 7, right: true, drop: 2},
		{title: "BALANCE", least: 9, right: true, drop: 1}, {title: "HELD", least: 7, right: true, drop: 5},
		{title: "AVAILABLE", least: 9, right: true, drop: 7}, {title: "STATE", drop: 6}, {title: "ID", drop: 8},
	}}
	g.empty = "No account has used the gateway in the last " + span(f.Time.Sub(f.AccountsSince)) + "."
	whole := func(v *int64, money bool) cell {
		if v == nil {
			return numberCell(none, nil, plain)
		}
		n := float64(*v)
		s := plain
		if money && n <= 0 {
			s = bad
		}
		return numberCell(human.Thousands(*v), &n, s)
	}
	for i := range f.Accounts {
		a := &f.Accounts[i]
		spent, requests, failures := float64(a.Microcents), float64(a.Requests), float64(a.Failed)
		refused, tokens := float64(a.Refused), float64(a.Tokens)
		held := numberCell(none, nil, plain)
		if a.Held != nil {
			v := float64(*a.Held)
			held = numberCell(credits(&v), &v, plain)
		}
		failing := plain
		if a.Failed > 0 {
			failing = bad
		}
		g.rows = append(g.rows, row{key: a.ID, cells: []cell{textCell(a.Name, plain),
			numberCell(credits(&spent), &spent, plain), numberCell(amount(requests), &requests, plain),
			numberCell(amount(failures), &failures, failing), numberCell(amount(refused), &refused, plain),
			numberCell(amount(tokens), &tokens, plain), whole(a.Balance, true), held, whole(a.Available, true),
			textCell(cmp.Or(a.State, none), stateStyle(a.State == "" || a.State == "active")), textCell(a.ID, dim)}})
	}
	return g
}

// statusText is a status; what broke off has no good one, whatever was sent first.
func statusText(r *admin.EndedRequest) (string, style) {
	switch {
	case r.Aborted:
		return strconv.Itoa(r.Status) + "!", bad
	case r.Status == 0, r.Status == clientLeft:
		return "left", dim
	case r.Status >= 500:
		return strconv.Itoa(r.Status), bad
	case r.Status >= 400:
		return strconv.Itoa(r.Status), warning
	}
	return strconv.Itoa(r.Status), plain
}

// shortID is the end of a request's id: it begins with the time, as all of them do.
const shortID = 8

// shownRequests is how many requests can be scrolled, sorted and filtered: the table is made anew with each key. All
// that are remembered count for who spends.
const shownRequests = 2000

func (f *Frame) requestGrid(onlyFailed bool) grid {
	g := grid{empty: "No request has ended yet.", columns: []column{
		{title: "TIME"}, {title: "ST", least: 3}, {title: "ACCOUNT", least: 10, shrink: 10},
		{title: "KEY", drop: 4, least: 4}, {title: "ROUTE", least: 10, shrink: 10},
		{title: "IN/OUT", right: true, drop: 2, least: 9}, {title: "MICROCENTS", right: true, drop: 1},
		{title: "TOOK", right: true, least: 6}, {title: "REQUEST", shrink: shortID, least: shortID, drop: 3},
		{title: "FIRST", right: true, least: 6, drop: 5}, {title: "REASON", least: 8, shrink: 12, drop: 6},
		{title: "ENDPOINT", shrink: 8, drop: 8}, {title: "N", right: true, drop: 7}, {title: "ID", drop: 9},
	}}
	if onlyFailed {
		g.empty = "No request has failed of those that are remembered. e shows all."
	}
	for i := range f.Requests {
		if len(g.rows) == shownRequests {
			break
		}
		r := &f.Requests[i]
		if onlyFailed && !failed(r) {
			continue
		}
		status, s := statusText(r)
		took, first := r.Took/1000, r.First/1000
		tokens, charged := float64(r.Input+r.Output), float64(r.Microcents)
		attempts, statusOrder, at := float64(r.Attempts), float64(r.Status), float64(r.Time.UnixMilli())
		firstText := none
		if first > 0 {
			firstText = seconds(&first)
		}
		price := human.Thousands(r.Microcents)
		if r.Pending {
			price += "?"
		}
		id := r.ID
		if len(id) > shortID {
			id = id[len(id)-shortID:]
		}
		g.rows = append(g.rows, row{key: r.ID, cells: []cell{numberCell(r.Time.UTC().Format(time.TimeOnly), &at, dim),
			numberCell(status, &statusOrder, s), textCell(cmp.Or(r.Account, none), plain),
			textCell(cmp.Or(r.Last4, none), dim), textCell(cmp.Or(r.Route, none), plain),
			numberCell(amount(float64(r.Input))+"/"+amount(float64(r.Output)), &tokens, plain),
			numberCell(price, &charged, plain), numberCell(seconds(&took), &took, plain), textCell(id, dim),
			numberCell(firstText, &first, plain), textCell(strings.ReplaceAll(r.Reason, "_", " "), plain),
			textCell(r.Endpoint, dim), numberCell(amount(attempts), &attempts, plain), textCell(r.ID, dim)}})
	}
	return g
}

func (f *Frame) pluginGrid() grid {
	g := grid{empty: "No provider runs.", columns: []column{
		{title: "PROVIDER", shrink: 14}, {title: "STATE", shrink: 10}, {title: "STREAMS", right: true},
		{title: "MEMORY", least: 7, right: true}, {title: "MAX", least: 7, right: true, drop: 4},
		{title: "RESTARTS", right: true}, {title: "UP", least: 6, right: true, drop: 1},
		{title: "PLUGIN", shrink: 10, drop: 2}, {title: "CALLS", drop: 3}, {title: "LAST CRASH", shrink: 20, drop: 5},
		{title: "PID", right: true, drop: 6},
	}}
	for i := range f.Plugins {
		p := &f.Plugins[i]
		state := p.State
		if !p.Ready {
			state += "!"
		}
		streams, memory, most, restarts := float64(p.Streams), float64(p.Memory), float64(p.MaxMemory), float64(p.Restarts)
		up, upText := 0.0, none
		if p.Started != nil && p.PID != 0 {
			up, upText = f.Time.Sub(*p.Started).Seconds(), span(f.Time.Sub(*p.Started))
		}
		restarted, full := plain, plain
		if p.Restarts > 0 {
			restarted = warning
		}
		if p.MaxMemory > 0 && p.Memory > p.MaxMemory*9/10 {
			full = bad
		}
		g.rows = append(g.rows, row{key: p.Plugin + "/" + p.Provider, cells: []cell{textCell(p.Provider, plain),
			textCell(state, stateStyle(p.Ready)), numberCell(amount(streams), &streams, plain),
			numberCell(size(memory), &memory, full), numberCell(size(most), &most, plain),
			numberCell(amount(restarts), &restarts, restarted), numberCell(upText, &up, plain), textCell(p.Plugin, dim),
			textCell(map[string]string{"host": "gateway", "process": "process"}[p.Carry], dim),
			textCell(firstLine(p.LastCrash), dim), textCell(strconv.Itoa(p.PID), dim)}})
	}
	return g
}

func (f *Frame) problemGrid() grid {
	g := grid{empty: "Nothing is wrong that the gateway knows of.", columns: []column{
		{title: ""}, {title: "ABOUT", shrink: 14}, {title: "WHAT", shrink: 20},
	}}
	for i, p := range f.Problems {
		mark, s := "-", warning
		if p.Severe {
			mark, s = "!", bad
		}
		g.rows = append(g.rows, row{key: strconv.Itoa(i), cells: []cell{textCell(mark, s), textCell(p.About, s),
			textCell(p.Text, plain)}})
	}
	return g
}

// describe is all that is known of what a row is about, where the gateway need not be asked; "" otherwise.
func (f *Frame) describe(t Tab, key string) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	switch t {
	case Routes:
		for i := range f.Routes {
			r := &f.Routes[i]
			if r.Name != key {
				continue
			}
			line("route", "%s: %s of %s", r.Name, r.Model, r.Provider)
			line("state", "%s", strings.ReplaceAll(r.State, "_", " "))
			if r.Reason != "" {
				line("reason", "%s", r.Reason)
			}
			if r.Until != nil {
				line("called again", "%s", human.Moment(*r.Until))
			}
			if r.FailedAt != nil {
				line("last failure", "%s", human.Moment(*r.FailedAt))
				line("", "%s", r.LastFailure)
			}
			line("running", "%.0f attempts, %s waiting for it", r.Running, human.Count(r.Waiting, "request"))
			line("attempts", "%s a second, %s failed in the last minute", rate(r.Attempts), percent(r.FailedShare))
			line("first token", "p50 %s, p95 %s; whole attempts p95 %s", seconds(r.FirstTokenP50),
				seconds(r.FirstTokenP95), seconds(r.TookP95))
			line("output", "%s tokens a second", rate(r.OutputTokens))
			line("money", "%s credits charged a minute, margin %s", credits(r.Charged), credits(r.Margin))
		}
	case Problems:
		for i, p := range f.Problems {
			if strconv.Itoa(i) == key {
				line("about", "%s", p.About)
				line("what", "%s", p.Text)
			}
		}
	}
	return b.String()
}
