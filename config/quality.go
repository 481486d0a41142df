package config

import (
	"fmt"
	"maps"
)

// The kinds of work for which a route can be as good as nothing else says.
const (
	KindCode    = "code"
	KindMath    = "math"
	KindTools   = "tools"
	KindWriting = "writing"
)

// KindNames are the kinds of work.
func KindNames() []string { return []string{KindCode, KindMath, KindTools, KindWriting} }

// QualityFor is how good the operator says that the route is at a kind of work.
func (r *Route) QualityFor(kind string) float64 {
	if q, ok := r.QualityBy[kind]; ok {
		return q
	}
	return r.Quality
}

// Learns reports whether what comes of its requests changes what is expected of the route.
func (r *Route) Learns() bool { return r.Learn == nil || *r.Learn }

// quality reads how good a route is: one number, or a block of them.
func (s *section) quality(r *Route, model value, predictor *trained) {
	at, blocks := s.attributes["quality"], s.blocks["quality"]
	switch {
	case at != nil && len(blocks) > 0:
		s.fail(blocks[0].DefRange(), "quality twice",
			fmt.Sprintf("It is also set as an attribute, %s. Remove one of the two.", s.place(at.NameRange)))
	case at == nil && len(blocks) == 0:
		s.fail(s.header, "Missing quality", fmt.Sprintf("%s needs it, for example: quality = %s", capital(s.what),
			s.grammar.rule("quality").example))
	}
	s.overall("quality", r, model, predictor)
	for _, block := range blocks {
		q := s.inner(block, &qualityGrammar)
		q.overall("default", r, model, predictor)
		for _, kind := range KindNames() {
			if q.attributes[kind] == nil {
				continue
			}
			value := r.Quality
			q.fraction(kind, &value)
			if r.QualityBy == nil {
				r.QualityBy = make(map[string]float64)
			}
			r.QualityBy[kind] = value
		}
		if q.integer("weight", &r.QualityWeight); r.QualityWeight > 0 {
			predictor.ask(r.Model)
		}
		if q.attributes["learn"] != nil {
			r.Learn = new(true)
			q.flag("learn", r.Learn)
		}
	}
}

// quality is what is printed of how good a route is: as it was written.
func (r *Route) quality() any {
	if r.QualityBy == nil && r.QualityWeight == 0 && r.Learn == nil {
		return r.Quality
	}
	block := map[string]any{"default": r.Quality}
	for kind, q := range maps.All(r.QualityBy) {
		block[kind] = q
	}
	if r.QualityWeight > 0 {
		block["weight"] = r.QualityWeight
	}
	if r.Learn != nil {
		block["learn"] = *r.Learn
	}
	return block
}
