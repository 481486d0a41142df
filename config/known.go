package config

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
)

// measured is how good models are, one a line, each with its public source and date: the shares of MMLU-Redux
// (default), CRUXEval (code) and the hardest MATH problems (math) that it answered rightly, all by one benchmark, so
// that they compare. A model has several names where services call it by several.
//
//go:embed quality.csv
var measured string

// knownQuality is how good a model was found to be.
type knownQuality struct {
	quality float64
	by      map[string]float64
	source  string
	date    string // of the measurement, year-month-day
}

var knownQualities = sync.OnceValue(func() map[string]knownQuality {
	rows, err := csv.NewReader(strings.NewReader(measured)).ReadAll()
	if err != nil {
		panic(err) // the file is part of the program, and its test reads it
	}
	known := make(map[string]knownQuality)
	for _, row := range rows[1:] {
		var share [3]float64
		for i := range share {
			if share[i], err = strconv.ParseFloat(row[1+i], 64); err != nil {
				panic(err)
			}
		}
		for name := range strings.FieldsSeq(row[0]) {
			known[strings.ToLower(name)] = knownQuality{quality: share[0], source: row[4], date: row[5],
				by: map[string]float64{KindCode: share[1], KindMath: share[2]}}
		}
	}
	return known
})

// qualityOf finds a model by the name that a service has for it: as it is, or behind the name of its maker or of a
// region, as in "meta-llama/Llama-3.1-70B-Instruct" and "eu.meta.llama3-1-70b-instruct-v1:0".
func qualityOf(model string) (knownQuality, bool) {
	name := strings.ToLower(model)
	name = name[strings.LastIndex(name, "/")+1:]
	q, ok := knownQualities()[name]
	if !ok {
		if _, name, ok = strings.Cut(name, "."); ok {
			q, ok = knownQualities()[name]
		}
	}
	return q, ok
}

// qualityAuto is the quality of a known model, as its table has it.
const qualityAuto = "auto"

// overall reads how good a route is on the whole: a number, or what is known of its model.
func (s *section) overall(name string, r *Route, model value) {
	v, ok := s.read(name)
	switch {
	case !ok:
	case v.Type() != cty.String || v.AsString() != qualityAuto:
		s.fractionOf(v, &r.Quality)
	case r.Model == "": // which is reported
	default:
		known, ok := qualityOf(r.Model)
		if !ok {
			s.fail(v.at, "Nothing is known of this model's quality", s.unknownQuality(model))
			return
		}
		r.Quality, r.QualityBy = known.quality, maps.Clone(known.by)
	}
}

func (s *section) unknownQuality(model value) string {
	detail := "The table of known models has no row for it. Write how good it is compared with the other routes, a " +
		"number from 0 to 1, as in quality = 0.7"
	if !model.outside {
		if near := Nearest(model.AsString(), slices.Sorted(maps.Keys(knownQualities()))); near != "" {
			return detail + fmt.Sprintf("; or did you mean the model %q?", near)
		}
	}
	return detail + "."
}
