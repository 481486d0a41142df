package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/modules/routelab/learn"
	"github.com/fareway/fareway/modules/routelab/measure"
)

func routeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "route",
		Short: "Trains, measures and shows what is expected of each route",
		Long: `Trains and measures the model that predicts, for each request, how well each route
would serve it and what that would cost, from folders of recorded answers; and shows
what the gateway that runs has learned of its routes since.

A folder holds *.jsonl.gz or *.jsonl files. The first line of each is a header
with "models", a list of names; each further line is a prompt: "prompt", "s" (a
score from 0 to 1 for each model), and where they are known "g" (a task), "i"
(input tokens), "o" (output tokens of each model), "c" (cost of each model), and
"tools". prices.json, {"prices": {"MODEL": [INPUT, OUTPUT]}} in US dollars per
million tokens, gives costs where "c" does not. "a", where answers can be compared, has a
number for each model's answer: the same for the same one, -1 for none.`,
	}
	cmd.AddCommand(routeTrainCommand(), routeEvalCommand(), routeCalibrateCommand(), routeShowCommand(),
		routeFeedbackCommand())
	return group(cmd)
}

// trainedView is the result of `gateway route train`.
type trainedView struct {
	File    string `json:"file"`
	Bytes   int    `json:"bytes"`
	Prompts int    `json:"prompts"`
	Models  int    `json:"models"`
	Seed    uint64 `json:"seed"`
}

func routeTrainCommand() *cobra.Command {
	var out output
	var data, graded, file, outcomes, model string
	var seed uint64
	var ifBetter bool
	cmd := &cobra.Command{
		Use:   "train --recorded DIR|--outcomes PATH --out FILE",
		Short: "Trains a model from a folder of recorded answers",
		Long: `Trains a model from a folder of recorded answers, on one core in a minute or so. The
same folder and seed give the same model; the file says besides when it was trained
(SOURCE_DATE_EPOCH, where that is set). It holds weights and tables, and no text of any
prompt. A gateway uses it by predictor { model = "FILE" } in its configuration.

--outcomes adds to a model (--model, or the one that is built in) what a gateway has kept
of how its routes did: the folder fareway.db.outcomes beside its ledger, or one file of
it (block outcomes). It learns, of each model with 30 lines and more, how good it is and
at which requests more or less than the others, and tries that on a fifth of the requests
that it is not taught by. Of four accounts and more each counts for a quarter at most of
what is learned of a model, two or three alike; what a client can bring about by itself
counts only beside another account's lines. Lines that the base model has not read, and
those of another version, are left out and counted, and models with fewer lines named.
--if-better writes nothing unless the held-out requests are predicted better than before,
in 97.5% of bootstrap samples. That is no failure: it says so, and exits with 0 ("written"
is false in JSON).`,
		Example: `  fareway gateway route train --recorded answers --out routes.model
  fareway gateway route train --outcomes data/fareway.db.outcomes --out routes.model --if-better`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if outcomes != "" {
				v, err := trainOutcomes(outcomes, model, file, ifBetter)
				if err != nil {
					return err
				}
				return out.print(cmd, v, v.print)
			}
			if model != "" || ifBetter {
				return errors.New("--model and --if-better are for --outcomes, which adds to a model")
			}
			sets, err := learn.ReadDir(data)
			if err != nil {
				return err
			}
			f, undo, err := modelFile(file)
			if err != nil {
				return err
			}
			defer undo()
			c, err := readCorpus(graded)
			if err != nil {
				return err
			}
			m, err := learn.TrainWith(sets, c, seed)
			if err != nil {
				return err
			}
			m.Trained = trainedAt()
			text, err := writeModel(m, f)
			if err != nil {
				return err
			}
			v := trainedView{File: file, Bytes: len(text), Seed: seed}
			for i := range m.Pools {
				v.Prompts += m.Pools[i].Rows
				v.Models += len(m.Pools[i].Models)
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d bytes, from %d prompts and %d models.\n", v.File, v.Bytes, v.Prompts, v.Models)
			})
		},
	}
	cmd.Flags().StringVar(&data, "recorded", "", "the folder `DIR` of recorded answers")
	cmd.Flags().StringVar(&graded, "graded", "", "the folder `DIR` of graded prompts (default: those that are built in)")
	cmd.Flags().StringVar(&file, "out", "", "the model `FILE` to write")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "what the order of training follows from, a number `N`")
	cmd.Flags().StringVar(&outcomes, "outcomes", "", "the folder or file `PATH` of outcomes that a gateway has kept")
	cmd.Flags().StringVar(&model, "model", "",
		"the model `FILE` that outcomes are added to (default: the one that is built in)")
	cmd.Flags().BoolVar(&ifBetter, "if-better", false, "write only what predicts held-out requests better than before")
	noDataFolder(cmd)
	required(cmd, "out")
	cmd.MarkFlagsMutuallyExclusive("recorded", "outcomes")
	cmd.MarkFlagsOneRequired("recorded", "outcomes")
	out.addFlag(cmd)
	return cmd
}

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

func routeCalibrateCommand() *cobra.Command {
	var to target
	var out output
	var model, data, file, since string
	var folds int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "calibrate --recorded DIR --out FILE | --since TIME",
		Short: "Finds the margins that keep a share of the best quality, or rates for your own requests",
		Long: `Finds, on recorded answers that the model was not trained on, the smallest margins with
which the cheapest route that is predicted to keep 90, 95, 98 or 100% of the best
route's quality really keeps it, and writes the model with them. With --folds the
answers are those that the model was trained on: it is trained that many times without
a part of them, which is predicted then. keep_quality in a profile uses the margins.

--since sets the rates of profiles (see ` + "`gateway route show`" + `) on the requests that the
gateway has routed since then, in place of the reference workload: numbers of the decision
log, and no text. It prints for each profile the rate that it has and the one that it would
have, what these requests are expected to come to at both, and weights that give about that
rate. It changes nothing: put the weights into the file, and ` + "`gateway plan`" + ` says what that
changes.`,
		Example: "  fareway gateway route calibrate --model routes.model --recorded held-out --out routes.model\n" +
			"  fareway gateway route calibrate --since 30d",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since != "" {
				return calibrateProfiles(cmd, &to, &out, since)
			}
			if cmd.Flags().Changed("data") {
				return errNoDataFolder(to.data)
			}
			for _, name := range [...]string{"recorded", "out"} {
				if !cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s is missing, as in `%s`", name, cmd.UseLine())
				}
			}
			if folds == 1 || folds < 0 {
				return errors.New("--folds needs 2 or more: one part to measure on, and the rest to train on")
			}
			m, err := readModel(model)
			if err != nil {
				return err
			}
			sets, err := learn.ReadDir(data)
			if err != nil {
				return err
			}
			f, undo, err := modelFile(file)
			if err != nil {
				return err
			}
			defer undo()
			var kept []measure.Kept
			if folds > 0 {
				kept, err = measure.CrossCalibrate(m, sets, folds, seed)
			} else {
				kept, err = measure.Calibrate(m, sets)
			}
			if err != nil {
				return err
			}
			m.Trained = trainedAt()
			if _, err := writeModel(m, f); err != nil {
				return err
			}
			return out.print(cmd, kept, func(w io.Writer) {
				table(w, func(w io.Writer) {
					fmt.Fprintln(w, "DATASET\tSHARE\tMARGIN\tQUALITY KEPT\tCOST SAVED")
					for _, k := range kept {
						missed := ""
						if !k.Reached {
							missed = "  not kept: the best that a margin comes to"
						}
						fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.4f\t%.4f%s\n", k.Dataset, k.Share, k.Margin, k.Quality, k.Saved, missed)
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&model, "model", "", "the model `FILE` (default: the one that is built in)")
	cmd.Flags().StringVar(&data, "recorded", "", "the folder `DIR` of recorded answers to calibrate by")
	cmd.Flags().IntVar(&folds, "folds", 0, "calibrate in `K` parts by what the model was trained on")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "what training follows from, a number `N`")
	cmd.Flags().StringVar(&file, "out", "", "the model `FILE` to write")
	cmd.Flags().StringVar(&since, "since", "", "set rates on the requests since this `TIME`: 30d, 2026-11-20")
	for _, other := range []string{"model", "recorded", "folds", "seed", "out"} {
		cmd.MarkFlagsMutuallyExclusive("since", other)
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// readCorpus reads graded prompts.
func readCorpus(dir string) (*learn.Corpus, error) {
	if dir == "" {
		return learn.BuiltInCorpus()
	}
	c, err := learn.ReadCorpus(os.DirFS(dir))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	return c, nil
}

func readModel(file string) (*predict.Model, error) {
	if file == "" {
		return predict.Default(), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the model: %w", err)
	}
	m, err := predict.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return m, nil
}

// trainedAt is what a model file says of when it was trained: now, or what SOURCE_DATE_EPOCH says, for who wants the
// same bytes again.
func trainedAt() int64 {
	if at, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return at
	}
	return time.Now().Unix()
}

// modelFile begins the file that a model is to be written to, before it is trained. undo leaves nothing of one that
// was not written.
func modelFile(path string) (f *files.Output, undo func(), err error) {
	var folder files.Changes
	if err = folder.MakeFolder(filepath.Dir(path), 0o755); err == nil {
		f, err = files.OpenOutput(path)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("writing the model: %w", err), folder.TakeBack())
	}
	return f, func() {
		f.Discard()
		_ = folder.TakeBack() // a folder that has the model stays
	}, nil
}

// writeModel writes a model, whole or not at all. There is no secret in it.
func writeModel(m *predict.Model, f *files.Output) ([]byte, error) {
	text, err := m.Encode()
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Place()
	}
	if err != nil {
		return nil, fmt.Errorf("writing the model: %w", err)
	}
	return text, nil
}

// noDataFolder says how the folder of recorded answers is named now: --data is a gateway's data folder everywhere.
func noDataFolder(cmd *cobra.Command) {
	var was string
	cmd.Flags().StringVar(&was, "data", "", "")
	_ = cmd.Flags().MarkHidden("data") // it is there
	addPreCheck(cmd, func(cmd *cobra.Command) error {
		if cmd.Flags().Changed("data") {
			return errNoDataFolder(was)
		}
		return nil
	})
}

func errNoDataFolder(was string) error {
	return fmt.Errorf("--data is a gateway's data folder, which this does not need: name the folder of recorded answers "+
		"by --recorded %s", was)
}
