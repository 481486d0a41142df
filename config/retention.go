package config

import (
	"time"

	"github.com/zclconf/go-cty/cty"
)

// noRetention says that nothing is kept.
const noRetention = "none"

// maxRetention is longer than anybody promises.
const maxRetention = 3650 * day

// retention reads for how long something is kept: none, or a duration.
func (s *section) retention(name string, target **time.Duration) {
	v, ok := s.read(name)
	if !ok {
		return
	}
	if v.Type() != cty.String {
		s.refuseType(v, "\"none\", or a duration in quotes, as in \"30d\"")
		return
	}
	if v.AsString() == noRetention {
		*target = new(time.Duration)
		return
	}
	d, problem := duration(v.AsString(), s.grammar.rule(name).kind.longest)
	if problem != "" {
		s.refuse(v, problem+", or \"none\"")
		return
	}
	*target = &d
}

// retentionText is how it is printed, "" where nothing is said.
func retentionText(d *time.Duration) string {
	switch {
	case d == nil:
		return ""
	case *d == 0:
		return noRetention
	}
	return d.String()
}

// requires reads what the routes of a plan's accounts must be, and warns of what no route is.
func (s *section) requires(q *Requires) {
	for _, block := range s.blocks["requires"] {
		in := s.inner(block, &requiresGrammar)
		in.list("region", func(element value) {
			var region string
			if in.asText(element, maxRegion, &region) {
				q.Regions = append(q.Regions, region)
			}
		})
		in.retention("retention", &q.Retention)
		routes := s.config.Routes
		met := false
		for i := range routes {
			met = met || q.MetBy(&routes[i])
		}
		if !met && len(routes) > 0 {
			s.warn(block.DefRange(), "No route is what the plan requires", "Every request of its accounts would be refused. "+
				"Say region and retention of the routes that are.")
		}
	}
}

// maxRegion bounds the name of a region, in bytes.
const maxRegion = 64
