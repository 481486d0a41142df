package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/files"
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
