package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

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
	case *d%day == 0:
		return fmt.Sprintf("%dd", *d/day)
	}
	return d.String()
}

// requires reads what the routes of a plan's accounts must be, and warns of what no route is.
func (s *section) requires(q *Requires, routes []Route) {
	for _, block := range s.blocks["requires"] {
		in := s.inner(block, &requiresGrammar)
		var region string
		in.list("region", func(element value) {
			if in.asRegion(element, &region) {
				q.Regions = append(q.Regions, region)
			}
		})
		in.retention("retention", &q.Retention)
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

const (
	// maxRegion bounds the name of a region, in bytes.
	maxRegion = 64
	// maxRegions bounds how many an account names.
	maxRegions = 16
)

// regionLetters is what the name of a region is made of.
const regionLetters = "letters, digits, \"-\" and \"_\""

func isRegion(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// asRegion reads the name of a region, and reports whether it is one.
func (s *section) asRegion(v value, region *string) bool {
	var name string
	switch {
	case !s.asText(v, maxRegion, &name):
	case !isRegion(name):
		s.refuse(v, "must be one name, of "+regionLetters+", as in \"eu\" or \"us-east-1\"")
	default:
		*region = name
		return true
	}
	return false
}

// ParseRequires reads what is required as Texts writes it, and as an operator does: names of regions, and "none" or a
// duration; "" is however long.
func ParseRequires(regions []string, retention string) (Requires, error) {
	var q Requires
	for _, r := range regions {
		if r == "" || len(r) > maxRegion || !isRegion(r) {
			return q, fmt.Errorf("region %q: write a route's `region`, 1 to %d bytes of %s", r, maxRegion, regionLetters)
		}
	}
	if q.Regions = slices.Compact(slices.Sorted(slices.Values(regions))); len(q.Regions) > maxRegions {
		return q, fmt.Errorf("%d regions: at most %d can be named", len(q.Regions), maxRegions)
	}
	switch retention {
	case "":
	case noRetention:
		q.Retention = new(time.Duration)
	default:
		d, problem := duration(retention, maxRetention)
		if problem != "" {
			return q, fmt.Errorf("retention %q: it %s, or \"none\" for nothing kept", retention, problem)
		}
		q.Retention = &d
	}
	return q, nil
}

// Texts are the regions, and the retention as it is written in a file.
func (q Requires) Texts() (regions []string, retention string) {
	return q.Regions, retentionText(q.Retention)
}

// None reports whether nothing is required.
func (q Requires) None() bool { return len(q.Regions) == 0 && q.Retention == nil }
