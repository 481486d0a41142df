package command

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/modules/internal/routing/predict/learn"
)

// taughtView is the result of `gateway route train --outcomes`.
type taughtView struct {
	Written bool              `json:"written"`        // --if-better writes only what is better
	File    string            `json:"file,omitempty"` // "" where none was written
	Bytes   int               `json:"bytes,omitempty"`
	Base    string            `json:"base"`
	Lines   int               `json:"lines"` // that count
	Models  []taughtModel     `json:"models"`
	Few     []taughtModel     `json:"too_few,omitempty"` // models of which nothing is learned
	Skipped []journal.Skipped `json:"skipped,omitempty"`
	// Others are lines whose requests another model has read, and Alone those that one account could bring about, of
	// routes that no other account has lines of (GAP-130).
	Others int          `json:"read_by_other_models,omitempty"`
	Alone  int          `json:"of_one_account,omitempty"`
	Judged learn.Judged `json:"held_out"`
}

// taughtModel is what was learned of one model.
type taughtModel struct {
	Model string  `json:"model"`
	Lines int     `json:"lines"`
	Mean  float64 `json:"mean"` // score
}

// outcomeLines reads a journal as what a base model can learn from. What each account teaches of a model is bounded
// (GAP-130).
func outcomeLines(path string, base *predict.Model, v *taughtView) ([]learn.Outcome, error) {
	predictor := routing.NewPredictor(base)
	var lines []journal.Line
	told := make(map[string]int) // the last word about a request counts
	skipped, err := journal.Read(path, func(l *journal.Line) error {
		if !predictor.Reads(l.Signal) {
			v.Others++
			return nil
		}
		if at, ok := told[l.ID]; ok && l.From == journal.Told {
			lines[at].Score = l.Score
			return nil
		}
		if len(lines) >= 2*learn.MostOutcomes { // the last ones count
			lines = slices.Delete(lines, 0, learn.MostOutcomes)
			clear(told)
		}
		if l.From == journal.Told {
			told[l.ID] = len(lines)
		}
		lines = append(lines, *l)
		return nil
	})
	if v.Skipped = skipped; err != nil {
		return nil, err
	}
	lines = lines[max(0, len(lines)-learn.MostOutcomes):]
	weights := v.weigh(lines)
	var out []learn.Outcome
	for i := range lines {
		l := &lines[i]
		if weights[i] > 0 {
			out = append(out, learn.Outcome{ID: l.ID, Model: l.Model, Signal: l.Signal[4:], Score: l.Score, Weight: weights[i]})
		}
	}
	v.Lines = len(out)
	return out, nil
}

// weigh says how much each line counts.
func (v *taughtView) weigh(lines []journal.Line) []float64 {
	type source struct{ model, account string }
	counts, accounts := make(map[source]float64), make(map[string][]string)
	for i := range lines {
		of := source{lines[i].Model, lines[i].Account}
		if counts[of]++; counts[of] == 1 {
			accounts[of.model] = append(accounts[of.model], of.account)
		}
	}
	most := make(map[string]float64)
	for model, all := range accounts {
		var seen []float64
		for _, a := range all {
			seen = append(seen, counts[source{model, a}])
		}
		most[model] = outcome.LargestShare(seen, math.Inf(1))
	}
	weights := make([]float64, len(lines))
	for i := range lines {
		l := &lines[i]
		if l.Own && len(accounts[l.Model]) < 2 {
			v.Alone++
			continue
		}
		weights[i] = min(1, most[l.Model]/counts[source{l.Model, l.Account}])
	}
	return weights
}

// trainOutcomes puts what a journal teaches on top of a base model. With ifBetter nothing is written unless held-out
// lines say that it predicts them better than what predicted before.
func trainOutcomes(path, model, file string, ifBetter bool) (*taughtView, error) {
	base, err := readModel(model)
	if err != nil {
		return nil, err
	}
	v := &taughtView{Base: model, Models: []taughtModel{}}
	lines, err := outcomeLines(path, base, v)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 && v.Others > 0 {
		return nil, fmt.Errorf("the requests of all %d lines were read by another model: name it by --model", v.Others)
	}
	m, err := learn.TrainOutcomes(base, lines)
	if err != nil {
		return nil, errors.Join(err, v.leftOut())
	}
	if v.Judged, err = learn.JudgeOutcomes(base, lines); err != nil && ifBetter {
		return nil, fmt.Errorf("judging by held-out lines: %w", err)
	}
	pool := &m.Pools[len(m.Pools)-1]
	for k, name := range pool.Models {
		v.Models = append(v.Models, taughtModel{name, pool.Routes[k].Lines, float64(pool.Routes[k].Mean)})
	}
	v.Few = fewLines(lines, pool.Models)
	if ifBetter && !v.Judged.Better() {
		return v, nil
	}
	f, undo, err := modelFile(file)
	if err != nil {
		return nil, err
	}
	defer undo()
	m.Trained = trainedAt()
	text, err := writeModel(m, f)
	if err != nil {
		return nil, err
	}
	v.Written, v.File, v.Bytes = true, file, len(text)
	return v, nil
}

// fewLines are the models of lines that are not among those that were taught.
func fewLines(lines []learn.Outcome, taught []string) (few []taughtModel) {
	sums := make(map[string]taughtModel)
	for i := range lines {
		if l := &lines[i]; !slices.Contains(taught, l.Model) {
			m := sums[l.Model]
			sums[l.Model] = taughtModel{l.Model, m.Lines + 1, m.Mean + l.Score}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		m := sums[name]
		m.Mean /= float64(m.Lines)
		few = append(few, m)
	}
	return few
}

// leftOut says where lines stand that do not count, nil where all do.
func (v *taughtView) leftOut() error {
	var errs []error
	for _, s := range v.Skipped {
		errs = append(errs, errors.New(s.String()))
	}
	if v.Others > 0 {
		errs = append(errs, fmt.Errorf("%s left out, whose requests another model has read", human.Count(v.Others, "line")))
	}
	return errors.Join(errs...)
}

func (v *taughtView) print(w io.Writer) {
	for _, m := range v.Models {
		fmt.Fprintf(w, "%s: %s, %.3f in the mean.\n", m.Model, human.Count(m.Lines, "line"), m.Mean)
	}
	for _, m := range v.Few {
		fmt.Fprintf(w, "Nothing is learned of %s: it has %s, and %d are needed.\n", m.Model, human.Count(m.Lines, "line"),
			learn.LeastOutcomes)
	}
	for _, s := range v.Skipped {
		fmt.Fprintf(w, "%s.\n", s)
	}
	if v.Others > 0 {
		fmt.Fprintf(w, "Left out: %s whose requests another model has read.\n", human.Count(v.Others, "line"))
	}
	if v.Alone > 0 {
		fmt.Fprintf(w, "Left out: %s that one account can bring about, of routes that no other one has used.\n",
			human.Count(v.Alone, "line"))
	}
	if j := &v.Judged; j.Requests > 0 {
		fmt.Fprintf(w, "Of %s held out: log loss %.4f before, %.4f with it (gained %.4f, in 95%% of samples %.4f to %.4f).\n",
			human.Count(j.Requests, "request"), j.Before, j.After, j.Gained, j.Low, j.High)
		if v.Written && j.Gained < 0 {
			fmt.Fprintln(w, "They are predicted worse with it: keep the model in force, or say --if-better.")
		}
	} else {
		fmt.Fprintln(w, "There are too few lines to judge by some that are held out.")
	}
	if !v.Written {
		fmt.Fprintln(w, "Nothing is written: held-out requests do not say that it predicts better. The model in force stays.")
		return
	}
	fmt.Fprintf(w, "%s: %d bytes.\n", v.File, v.Bytes)
}
