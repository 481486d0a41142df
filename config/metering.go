package config

import (
	"fmt"
	"slices"
)

// streamUsage is the setting by which chat upstreams are asked for the usage of a stream.
const streamUsage = "stream_options"

// Unmetered is what an operator reads of a route whose upstream does not report what replies use, and what mends it.
func (r *Route) Unmetered() string {
	return "its upstream does not say what replies use, so that those in one piece are free and streams fail; " +
		r.metered()
}

// metered is what makes usage known.
func (r *Route) metered() string {
	if slices.Contains(r.Unsupported, streamUsage) {
		return fmt.Sprintf("take %q out of unsupported in route %q, or set metering = %q there", streamUsage, r.Name,
			MeteringEstimate)
	}
	return fmt.Sprintf("set metering = %q in route %q, or make the upstream report it (%s.include_usage)",
		MeteringEstimate, r.Name, streamUsage)
}

// unasked warns of a route whose streams fail unless its upstream reports their usage without being asked.
func (s *section) unasked(r *Route) {
	if r.Metering == MeteringReported && slices.Contains(r.Unsupported, streamUsage) {
		s.warn(s.attributes["unsupported"].Expr.Range(), "The usage of streams is not asked for",
			"A stream whose usage nobody reports fails. Unless the upstream reports it unasked: "+r.metered()+".")
	}
}
