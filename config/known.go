package config

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
)

// measured is how good models are, one a line, each with its public source and date: the shares of MMLU-Redux
// (default), CRUXEval (code) and the hardest MATH problems (math) that it answered rightly, all by one benchmark, so
// that they compare. A model has several names where services call it by several. released is the month in which it
// came, by its maker.
//
//go:embed quality.csv
var measured string

// knownQuality is how good a model was found to be.
type knownQuality struct {
	name     string // as its makers call it
	quality  float64
	by       map[string]float64
	source   string
	date     string // of the measurement, year-month-day
	released string // year-month
	from     string // where that is said
}

// knownTable is the table, by the names that it has and by what is left of them without what services add.
type knownTable struct {
	rows   []*knownQuality
	byName map[string]*knownQuality
	byPart map[ModelName]*knownQuality // with Name and Date alone
	newest string                      // month
}

var knownModels = sync.OnceValue(func() *knownTable {
	rows, err := csv.NewReader(strings.NewReader(measured)).ReadAll()
	if err != nil {
		panic(err) // the file is part of the program, and its test reads it
	}
	t := &knownTable{byName: make(map[string]*knownQuality), byPart: make(map[ModelName]*knownQuality)}
	for _, row := range rows[1:] {
		var share [3]float64
		for i := range share {
			if share[i], err = strconv.ParseFloat(row[1+i], 64); err != nil {
				panic(err)
			}
		}
		names := strings.Fields(row[0])
		k := &knownQuality{quality: share[0], by: map[string]float64{KindCode: share[1], KindMath: share[2]},
			source: row[4], date: row[5], released: row[6], from: row[7]}
		for _, name := range names {
			part := ParseModelName(name)
			t.byName[strings.ToLower(name)] = k
			t.byPart[ModelName{Name: part.Name, Date: part.Date}] = k
			if k.name == "" || part.Date == "" && len(name) < len(k.name) {
				k.name = name
			}
		}
		t.rows, t.newest = append(t.rows, k), max(t.newest, k.released)
	}
	return t
})

// qualityOf finds a model by the name that a service has for it (ParseModelName). Of a snapshot that the table does
// not have, what it has of the model by its bare name stands.
func qualityOf(model string) (*knownQuality, bool) {
	t := knownModels()
	if k, ok := t.byName[strings.ToLower(model)]; ok {
		return k, true
	}
	n := ParseModelName(model)
	if n.Tuned || n.Name == "" {
		return nil, false
	}
	if k, ok := t.byPart[ModelName{Name: n.Name, Date: n.Date}]; ok {
		return k, true
	}
	k, ok := t.byPart[ModelName{Name: n.Name}]
	return k, ok
}

// qualityAuto is the quality of a known model, as the file of the predictor or else the table has it.
const qualityAuto = "auto"

// overall reads how good a route is on the whole: a number, or what is known of its model.
func (s *section) overall(name string, r *Route, model value, predictor *trained) {
	v, ok := s.read(name)
	switch {
	case !ok:
	case v.Type() != cty.String || v.AsString() != qualityAuto:
		s.fractionOf(v, &r.Quality)
	case r.Model == "": // which is reported
	default:
		predictor.ask(r.Model)
		if q, by, ok := predictor.figures(r.Model); ok {
			r.Quality, r.QualityBy = q, by
			return
		}
		known, ok := qualityOf(r.Model)
		if !ok {
			s.fail(v.at, "Nothing is known of this model's quality", unknownQuality(name, model, predictor))
			return
		}
		predictor.byTable = v.at
		r.Quality, r.QualityBy = known.quality, maps.Clone(known.by)
	}
}

// unknownQuality says what to write of a model that nobody has measured.
func unknownQuality(attribute string, model value, predictor *trained) string {
	t := knownModels()
	detail := fmt.Sprintf("The table of known models, which ends with those of %s, has no row for it", t.newest)
	if predictor.model != nil {
		detail += ", and the model file of the predictor was not trained on it"
	}
	detail += ". Write how good it is compared with the other routes, a number from 0 to 1"
	if model.outside { // it is not shown, nor what it is like
		return fmt.Sprintf("%s, as in %s = 0.7.", detail, attribute)
	}
	given := model.AsString()
	if n := ParseModelName(given); n.Tuned {
		if base, ok := qualityOf(n.Name + "-" + n.Date); ok {
			return fmt.Sprintf("%s. It is tuned for something, and nobody else has measured it. If it is about as good at your "+
				"requests as what it was made of, write:\n%s", detail, base.proposal(attribute))
		}
	}
	near := Nearest(given, slices.Sorted(maps.Keys(t.byName)))
	if near != "" && slices.Equal(versions(near), versions(given)) {
		return fmt.Sprintf("%s, as in %s = 0.7; or did you mean the model %q?", detail, attribute, near)
	}
	like, ok := relativeOf(given)
	if !ok {
		return fmt.Sprintf("%s, as in %s = 0.7. %s", detail, attribute, strangers(given))
	}
	if of, _ := lineageOf(ParseModelName(given).Name); of.size == 0 && !like.alike {
		if sizes := sizesOf(of.line); len(sizes) > 1 { // a bare tag, as Ollama has them
			var lines []string
			for _, k := range sizes {
				lines = append(lines, k.proposal(attribute))
			}
			return fmt.Sprintf("%s. Its name does not say how large it is: where the service knows the model by its size, too, "+
				"write that (as in llama3.1:8b). Of its line there are these; take the one of its size, and more or less as it is "+
				"newer or older:\n%s", detail, strings.Join(lines, "\n"))
		}
	}
	switch {
	case !like.alike && likeSized(given) != nil:
		k := likeSized(given)
		return fmt.Sprintf("%s. The models of its line are of other sizes; as large as it is %s, of %s. Begin with that, "+
			"and correct it by what you see of its replies:\n%s", detail, k.name, k.released, k.proposal(attribute))
	case !like.alike:
		return fmt.Sprintf("%s. The nearest relative is %s, of %s, which is of another size. Begin with that, and correct "+
			"it by what you see of its replies:\n%s", detail, like.name, like.released, like.proposal(attribute))
	case like.newer:
		return fmt.Sprintf("%s. The nearest relative is %s, of %s, a later version: yours is hardly better, so write no "+
			"more than this:\n%s", detail, like.name, like.released, like.proposal(attribute))
	}
	return fmt.Sprintf("%s. The nearest relative is %s, of %s. If yours is about as good, write this, and more if it is "+
		"better, as newer ones mostly are:\n%s", detail, like.name, like.released, like.proposal(attribute))
}

// strangers says what models of other lines are like one of which no line is known.
func strangers(given string) string {
	const none = "No model of the table is of its line"
	if k := likeSized(given); k != nil {
		return fmt.Sprintf("%s; one of its size is %s, of %s, with %g.", none, k.name, k.released, k.quality)
	}
	var scale []string
	for _, name := range []string{"gpt-4o", "gpt-4o-mini", "Llama-3.1-8B-Instruct"} {
		if k, ok := qualityOf(name); ok {
			scale = append(scale, fmt.Sprintf("%s has %g", name, k.quality))
		}
	}
	return fmt.Sprintf("%s. To compare: %s.", none, strings.Join(scale, ", "))
}

// proposal is a line for the file.
func (k *knownQuality) proposal(attribute string) string {
	return fmt.Sprintf("%s = %g  # like %s (%s)", attribute, k.quality, k.name, k.released)
}

var numbers = regexp.MustCompile(`[0-9.]*[0-9]`)

// versions are the numbers in a name: a slip of the pen leaves them.
func versions(name string) []string { return numbers.FindAllString(strings.ToLower(name), -1) }
