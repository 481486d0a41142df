package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
)

// Problem is something that an operator has to know of.
type Problem struct {
	Severe bool   `json:"severe"` // requests or money are at stake now
	About  string `json:"about"`
	Text   string `json:"text"`
}

// findProblems says what is wrong by what the gateway says itself, what matters most first.
func findProblems(s *Snapshot, f *Frame) []Problem {
	list := []Problem{}
	note := func(severe bool, about, format string, args ...any) {
		list = append(list, Problem{severe, about, fmt.Sprintf(format, args...)})
	}
	v := &s.Status
	if !v.Ready {
		note(true, "gateway", "not ready: %s", v.Reason)
	}
	if v.Loss.Undecided() != nil {
		note(true, "ledger", "%s", gateway.Own("it has lost what was acknowledged, and charges nothing until an operator "+
			"decides: `fareway gateway ledger verify`"))
	}
	if l := v.Ledger; l != nil {
		if !l.Up {
			note(true, "ledger", "the database %s is away since %s: %s", l.Address, clock(l.Since, s.At), l.Reason)
		}
		for _, drift := range l.Drift {
			note(false, "nodes", "they differ: %s", drift)
		}
	}
	if n := v.Spool.Undecided; n > 0 {
		note(true, "spool", gateway.Own("%s to be decided: `fareway gateway ledger spool list`"), human.Count(n, "item"))
	}
	if n := v.Spool.Waiting; n > 0 {
		note(false, "spool", "%s for the ledger", human.Count(n, "settlement")+" wait")
	}
	findRouteProblems(s, f, note)
	if u := f.Rates.Failed; u != nil && f.Rates.Requests != nil && *u > 0 && *u >= *f.Rates.Requests/20 {
		note(true, "requests", "%.0f %% of the requests of the last seconds failed", 100**u / *f.Rates.Requests)
	}
	if l := v.FailedLoad; l != nil {
		note(false, "config", "as it is saved it is refused since %s: %s", clock(l.At, s.At), firstLine(l.Problem))
	}
	if l := v.Limiter; l != nil && !l.Up {
		note(false, "limiter", "%s is away since %s: %s", l.Address, clock(l.Since, s.At), l.Reason)
	}
	for _, what := range slices.Sorted(maps.Keys(v.Servers)) {
		if server := v.Servers[what]; !server.Up {
			note(false, what, "%s is away since %s: %s", server.Address, clock(server.Since, s.At), server.Reason)
		}
	}
	for i := range v.Certificates {
		c := &v.Certificates[i]
		if !c.IsValid(s.At) {
			note(true, "certificate", "%s has none that is valid", c.Host)
		}
		if c.Failed != nil {
			note(false, "certificate", "%s: renewing failed at %s: %s", c.Host, clock(c.Failed.At, s.At), c.Failed.Text)
		}
	}
	if b := v.Backups; b != nil {
		switch {
		case b.Problem != "":
			note(false, "backup", "%s", b.Problem)
		case len(b.Missed) > 0:
			note(false, "backup", "missed: %s", gateway.Own("`fareway gateway status` says since when"))
		}
		if b.Backup.Failed != nil {
			note(false, "backup", "failed at %s: %s", clock(b.Backup.Failed.At, s.At), firstLine(b.Backup.Failed.Text))
		}
	}
	if f.Gateway.MaxFiles > 0 && f.Gateway.Files > 0.9*f.Gateway.MaxFiles {
		note(true, "files", "%.0f of %.0f are open: raise LimitNOFILE", f.Gateway.Files, f.Gateway.MaxFiles)
	}
	for _, p := range s.Plugins {
		if p.ReplacedBy != "" {
			note(false, "plugin", gateway.Own("%s on disk is not what runs: `fareway reload` starts it"), p.Name)
		}
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return cmp.Compare(weight(a), weight(b)) })
	return list
}

func weight(p Problem) int {
	if p.Severe {
		return 0
	}
	return 1
}

func findRouteProblems(s *Snapshot, f *Frame, note func(severe bool, about, format string, args ...any)) {
	serving := 0
	for i := range f.Routes {
		if r := &f.Routes[i]; r.State == "serves" {
			serving++
		}
	}
	if serving == 0 && len(f.Routes) > 0 {
		note(true, "routes", "none serves")
	}
	for _, p := range s.Status.Providers {
		if !p.Ready {
			note(true, "provider "+p.Name, "%s: %s", p.State, cmp.Or(firstLine(p.Problem), "it takes no requests"))
		}
		for _, k := range p.Keys {
			if k.State != "serves" {
				note(false, "provider "+p.Name, "key %s: %s", k.Name, strings.ReplaceAll(k.State, "_", " "))
			}
		}
	}
	for i := range f.Routes {
		if r := &f.Routes[i]; r.State != "serves" {
			text := cmp.Or(r.Reason, strings.ReplaceAll(r.State, "_", " "))
			if r.Until != nil {
				text += ", until " + clock(*r.Until, s.At)
			}
			note(false, "route "+r.Name, "%s", text)
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// clock is a time of day; of another day with that.
func clock(t, now time.Time) string {
	if now.Sub(t) > 20*time.Hour {
		return human.Moment(t)
	}
	return t.UTC().Format(time.TimeOnly)
}
