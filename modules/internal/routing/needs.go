package routing

import (
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// Needs is what a request needs a route to offer.
type Needs struct {
	Tools bool
	// Format is the kind of structured output that is asked for, "" for none.
	Format llm.FormatKind
	// ForcedCall: a call of a tool is demanded. FormatWithTools: a format is asked for where there are tools.
	ForcedCall, FormatWithTools bool
}

// NeedsOf reads the needs from a request. A conversation that has tool calls in it needs a route that knows
// tools even when this turn declares none.
func NeedsOf(req *llm.Request) Needs {
	tools := len(req.Tools) > 0 || slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return m.Role == llm.RoleTool || slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return p.Call != nil })
	})
	needs := Needs{Tools: tools, ForcedCall: req.ForcesCall(), FormatWithTools: req.FormatsWithTools()}
	if req.Format != nil {
		needs.Format = req.Format.Kind
	}
	return needs
}

// names are what is needed, as a route offers it.
func (n Needs) names() []string {
	names := []string{}
	if n.Tools {
		names = append(names, "tools")
	}
	switch n.Format {
	case llm.FormatJSONObject:
		names = append(names, "json_object")
	case llm.FormatJSONSchema:
		names = append(names, "json_schema or json_object")
	}
	return names
}

func offersFormat(route *config.Route, format llm.FormatKind) bool {
	switch format {
	case llm.FormatJSONObject:
		return route.JSONObject
	case llm.FormatJSONSchema:
		return route.JSONObject || route.JSONSchema
	}
	return true
}
