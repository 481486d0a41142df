package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/modules/routelab/learn"
	"github.com/fareway/fareway/modules/routelab/measure"
)

// evaluation is what `gateway route eval` is asked for.
type evaluation struct {
	model, data, train, report, hcl, captures, agree, graded string

	conversations bool
	leaveOut      []string
	seed          uint64
	folds         int
	out           output
}

func routeEvalCommand() *cobra.Command {
	e := new(evaluation)
	cmd := &cobra.Command{
		Use:   "eval --recorded DIR",
		Short: "Measures a model by recorded answers, or profiles on usual requests",
		Long: `Measures a model by recorded answers: what a router that went by its predictions would
have reached, and at which cost. For each data set it prints, with the interval that
95% of 300 bootstrap samples lie in, and beside it the same on a copy with shuffled
options and other words around the question:

  area                       over the best random mix of the single models
  saved95, saved98, saved100 share of the best model's cost that is saved at that
                             share of its quality; nothing where it is not reached
  regret                     to a router that knows the answers, in the middle
  apgr, cpt50, cpt80         for two models: how much of the gap is recovered, and
                             percent of prompts sent to the stronger one for 50 and
                             80% of it

Two models without costs are measured by the share of prompts sent to the stronger
one, more than two without costs by nothing. --leave-out trains once for each task
that it names, without it, and prints the area on it; "harm" is the lowest one.
--folds trains that many times on a part of the folder and measures on the rest.

--hcl alone judges the rule by which the gateway chooses, on the reference workload of
the model: for each profile its rate, the mean quality that is expected and what 1,000
requests cost, beside what the best random mix of the routes has at that cost (GAINED),
and what the mix costs that is as good (SAVED); and each route alone. All is as
expected, by the same predictions that choose: recorded answers judge those. --report
draws the profiles, the routes, the mixes and what the rule comes to at any rate.

--conversations plays made conversations instead, with the prices of prompt caches:
what it costs that a conversation stays on its route (KEPT), that each turn is chosen
afresh, the cheapest single route that is expected to be as good, and the cheapest mix
of single routes that is, with each conversation on one of them by lot. Agents without
tools get what tools say as texts of the user's, so that each turn looks like work of
another kind. "all" is what all kinds come to. Costs are in credits; what is in an
upstream's cache is simulated.
--captures takes how conversations go from requests that clients sent (*.jsonl.gz or
*.jsonl, on each line "path" and "body"), and says something of its own in the place of
their texts: as they were, and those of agents carried on for as long as made ones.

--graded judges by graded prompts that training has not seen, a third of all, in dresses of
programs that it has not seen: how well trivial and easy prompts are told from hard and very
hard ones, bare and dressed; by how much dress moves the predicted quality of routes of .55,
.75 and .95, and how many choices stay; kinds of work; lengths of replies; and, on prompts
drawn as traffic has them, what each profile chooses of three routes at list prices.

--agree measures a strategy of kind "agree" on the data sets that say which models gave
the same answer (the field "a"): two seats, and the model that is escalated to, beside
the cheapest single model that is at least as good, or the best one where none is. With
"best", the cheapest three that are as good as the best single model on one half of the
prompts are measured beside it on the other half. Costs are dollars for 1,000 prompts.`,
		Example: `  fareway gateway route eval --agree best --recorded answers
  fareway gateway route eval --model routes.model --recorded held-out --report report
  fareway gateway route eval --folds 5 --recorded answers --json
  fareway gateway route eval --hcl gateway.hcl --report report
  fareway gateway route eval --graded --model routes.model
  fareway gateway route eval --conversations --hcl gateway.hcl
  fareway gateway route eval --conversations --captures captures`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.run(cmd) },
	}
	e.addFlags(cmd)
	return cmd
}

func (e *evaluation) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.model, "model", "", "the model `FILE` (default: the one that is built in)")
	cmd.Flags().StringVar(&e.data, "recorded", "", "the folder `DIR` of recorded answers to measure by")
	cmd.Flags().StringArrayVar(&e.leaveOut, "leave-out", nil,
		"train without this `TASK` and measure on it; may be repeated")
	cmd.Flags().StringVar(&e.train, "train", "",
		"the folder `DIR` that --leave-out trains on (default: that of --recorded)")
	cmd.Flags().IntVar(&e.folds, "folds", 0, "cross-validate with `K` parts in place of --model")
	cmd.Flags().StringVar(&e.report, "report", "",
		"write drawings as SVG and a page with all of them into the folder `DIR`")
	cmd.Flags().Uint64Var(&e.seed, "seed", 1, "what samples, ties and training follow from, a number `N`")
	cmd.Flags().StringVar(&e.agree, "agree", "",
		"measure agreement: `A,B,C`, two seats and what is escalated to, or best")
	cmd.Flags().BoolVar(&e.conversations, "conversations", false, "play conversations, in place of recorded answers")
	cmd.Flags().StringVar(&e.hcl, "hcl", "",
		"the configuration `FILE` whose routes and profiles are judged, or play --conversations (default there: made ones)")
	cmd.Flags().StringVar(&e.captures, "captures", "",
		"play the conversations of captured requests in `DIR`, in place of made ones")
	cmd.Flags().StringVar(&e.graded, "graded", "", "judge by the graded prompts in `DIR`, or those that are built in")
	cmd.Flags().Lookup("graded").NoOptDefVal = builtInCorpus
	noDataFolder(cmd)
	for _, other := range []string{"model", "folds", "leave-out", "report", "conversations"} {
		cmd.MarkFlagsMutuallyExclusive("agree", other)
	}
	for _, other := range []string{"agree", "folds", "leave-out", "report", "conversations"} {
		cmd.MarkFlagsMutuallyExclusive("graded", other)
	}
	e.out.addFlag(cmd)
}

// run measures by what the flags name: conversations, profiles, graded prompts, or recorded answers.
func (e *evaluation) run(cmd *cobra.Command) error {
	if err := checkConversations(cmd, e.conversations); err != nil {
		return err
	}
	switch {
	case e.conversations:
		return e.playConversations(cmd)
	case e.hcl != "":
		return e.judgeProfiles(cmd)
	case cmd.Flags().Changed("graded"):
		return e.judgeGraded(cmd)
	}
	if e.folds > 0 && e.model != "" {
		return errors.New("--folds trains models of its own: leave out --model")
	}
	if e.folds == 1 || e.folds < 0 {
		return errors.New("--folds needs 2 or more: one part to measure on, and the rest to train on")
	}
	sets, err := learn.ReadDir(e.data)
	if err != nil {
		return err
	}
	if e.agree != "" {
		return e.measureAgreement(cmd, sets)
	}
	return e.measureAnswers(cmd, sets)
}

func (e *evaluation) playConversations(cmd *cobra.Command) error {
	views, err := evalConversations(cmd.Context(), e.model, e.hcl, e.captures, e.seed)
	if err != nil {
		return err
	}
	return e.out.print(cmd, views, func(w io.Writer) { writeConversations(w, views) })
}

func (e *evaluation) judgeProfiles(cmd *cobra.Command) error {
	v, plane, err := evalProfiles(cmd.Context(), e.model, e.hcl)
	if err == nil && e.report != "" {
		err = plane.Report(e.report)
	}
	if err != nil {
		return err
	}
	return e.out.print(cmd, v, func(w io.Writer) { writeJudged(w, v) })
}

func (e *evaluation) judgeGraded(cmd *cobra.Command) error {
	figures, err := evalGraded(e.model, e.graded, e.seed)
	if err != nil {
		return err
	}
	return e.out.print(cmd, figures, func(w io.Writer) { writeGraded(w, figures) })
}

func (e *evaluation) measureAgreement(cmd *cobra.Command, sets []*learn.Dataset) error {
	list, err := evalAgree(sets, e.agree, e.seed)
	if err != nil {
		return err
	}
	return e.out.print(cmd, list, func(w io.Writer) { writeAgreements(w, list) })
}

// measureAnswers measures a model, or those that folds train, and what is left out of training.
func (e *evaluation) measureAnswers(cmd *cobra.Command, sets []*learn.Dataset) error {
	if err := checkLeaveOut(sets, e.leaveOut); err != nil {
		return err
	}
	results, err := e.measure(sets)
	if err != nil {
		return err
	}
	if len(e.leaveOut) > 0 {
		from := sets
		if e.train != "" {
			if from, err = learn.ReadDir(e.train); err != nil {
				return err
			}
		}
		if err := measure.LeaveOut(from, sets, e.leaveOut, e.seed, results); err != nil {
			return err
		}
	}
	if e.report != "" {
		if err := measure.Report(e.report, results); err != nil {
			return err
		}
	}
	return e.out.print(cmd, results, func(w io.Writer) { writeFigures(w, results) })
}

func (e *evaluation) measure(sets []*learn.Dataset) ([]*measure.Result, error) {
	if e.folds > 0 {
		return measure.CrossEval(sets, e.folds, e.seed)
	}
	m, err := readModel(e.model)
	if err != nil {
		return nil, err
	}
	return measure.Eval(m, sets, e.seed)
}

// builtInCorpus names the graded prompts that the program has.
const builtInCorpus = "built-in"

// evalGraded judges a model by graded prompts.
func evalGraded(model, dir string, seed uint64) ([]measure.Figure, error) {
	m, err := readModel(model)
	if err != nil {
		return nil, err
	}
	c, err := readCorpus(strings.TrimPrefix(dir, builtInCorpus))
	if err != nil {
		return nil, err
	}
	return measure.EvalGraded(m, c, seed, gradedRates(m))
}

// gradedRates are the rates, by profile, at which routes are chosen there: by the rule that a gateway goes by.
func gradedRates(m *predict.Model) map[string]float64 {
	var routes []config.Route
	for _, r := range measure.GradedRoutes {
		const perDollar = 100_000_000
		price := config.Price{Input: int64(r.Input * perDollar), Output: int64(r.Output * perDollar)}
		price.CacheRead, price.CacheWrite = price.Input, price.Input
		routes = append(routes, config.Route{Name: r.Name, Model: r.Name, Quality: r.Quality, Price: price, Tools: true,
			ContextWindow: 2_000_000, MaxOutput: 32_000})
	}
	profiles := config.DefaultProfiles()
	x := routing.NewExchange(routes, profiles, routing.NewPredictor(m))
	rates := make(map[string]float64)
	for _, p := range profiles {
		rates[p.Name] = x.Rate(p)
	}
	return rates
}

func writeGraded(w io.Writer, figures []measure.Figure) {
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "FIGURE\tPROMPTS\tVALUE\tLOW\tHIGH")
		for _, f := range figures {
			fmt.Fprintf(w, "%s\t%d\t%.4f\t%.4f\t%.4f\n", f.Name, f.N, f.Value, f.Low, f.High)
		}
	})
}

// checkLeaveOut refuses tasks that no data set can be judged by, before a model is measured and others are trained.
func checkLeaveOut(sets []*learn.Dataset, tasks []string) error {
	if len(tasks) == 0 {
		return nil
	}
	judged := measure.Judged(sets)
	for _, task := range tasks {
		if slices.Contains(judged, task) {
			continue
		}
		step := "leave out one of " + strings.Join(judged, ", ")
		if near := config.Nearest(task, judged); near != "" {
			step = fmt.Sprintf("did you mean %q?", near)
		} else if len(judged) == 0 {
			step = "there is no other one either, so leave out --leave-out"
		}
		return fmt.Errorf("no data set has 30 prompts of the task %q with costs: %s", task, step)
	}
	return nil
}

// writeFigures writes a line for each figure.
func writeFigures(w io.Writer, results []*measure.Result) {
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "DATASET\tPROMPTS\tFIGURE\tVALUE\tLOW\tHIGH\tSHUFFLED")
		for _, r := range results {
			for _, name := range measure.Names {
				v, ok := r.Value[name]
				if !ok {
					continue
				}
				shuffled := ""
				if v, ok := r.Shuffled[name]; ok {
					shuffled = fmt.Sprintf("%.4f", v)
				}
				fmt.Fprintf(w, "%s\t%d\t%s\t%.4f\t%.4f\t%.4f\t%s\n", r.Dataset, r.N, name, v, r.Low[name], r.High[name],
					shuffled)
			}
			if len(r.LeftOut) > 0 {
				fmt.Fprintf(w, "%s\t%d\tharm\t%.4f\n", r.Dataset, r.N, r.Harm())
			}
		}
	})
}
