package routing

import (
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// Graphics reports whether a request is for graphics: one of the configured terms is in its last text from the
// user. It does not look where no route is kept for such requests.
func Graphics(cfg *config.Config, req *llm.Request) bool {
	kept := slices.ContainsFunc(cfg.Routes, func(r config.Route) bool {
		return slices.Contains(r.Specialty,
			config.Graphics)
	})
	if !kept {
		return false
	}
	for _, m := range slices.Backward(req.Messages) {
		if m.Role != llm.RoleUser {
			continue
		}
		if text := m.Text(); text != "" {
			return cfg.Special.Graphics.In(text)
		}
	}
	return false
}

// kinds are the specialties that a request asks for.
type kinds struct{ graphics, long bool }

// matches counts the route's specialties that the request asks for.
func (k kinds) matches(route *config.Route) int {
	n := 0
	for _, s := range route.Specialty {
		if s == config.Graphics && k.graphics || s == config.LongContext && k.long {
			n++
		}
	}
	return n
}

func special(route *config.Route) bool { return len(route.Specialty) > 0 }

// survey is what a request's routes are together, ready or not.
type survey struct {
	kinds kinds
	// open: an ordinary route, or one with a specialty that the request asks for, offers what is needed and fits.
	open bool
	// format: a route offers the structured output that is asked for, whether the request fits it or not.
	format bool
	// met: a route is what the account requires. Of no other one is anything said here.
	met bool
}

func look(in *Input) survey {
	var ordinary, graphics, long, met bool
	format := in.Needs.Format == ""
	for i := range in.Routes {
		route := &in.Routes[i]
		if !in.Requires.MetBy(route) {
			continue
		}
		met = true
		if !offersFormat(route, in.Needs.Format) {
			continue
		}
		format = true
		_, fits := fit(route, Sum(in.InputTokens, in.Templates.Of(route)), in.Allowance)
		if !fits || in.Needs.Tools && !route.Tools || in.unfit(route) != nil {
			continue
		}
		ordinary = ordinary || !special(route)
		graphics = graphics || slices.Contains(route.Specialty, config.Graphics)
		long = long || slices.Contains(route.Specialty, config.LongContext)
	}
	k := kinds{
		graphics: in.Graphics,
		long:     !ordinary && long || in.LongAbove > 0 && in.InputTokens+in.Allowance > in.LongAbove,
	}
	return survey{kinds: k, open: ordinary || graphics && k.graphics || long && k.long, format: format, met: met}
}

func (k kinds) names() []string {
	names := []string{}
	if k.graphics {
		names = append(names, string(config.Graphics))
	}
	if k.long {
		names = append(names, string(config.LongContext))
	}
	return names
}
