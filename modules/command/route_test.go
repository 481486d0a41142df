package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/routelab/measure"
)

// recorded writes a folder of recorded answers: the strong model alone can do those about matrices.
func recorded(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	lines := []string{`{"dataset":"made","models":["weak","strong"]}`}
	for i := range n {
		task, prompt, weak := "easy", "Which colour has flower %d?", 1
		if i%2 == 0 {
			task, prompt, weak = "hard", "Solve matrix %d for x.", 0
		}
		lines = append(lines, fmt.Sprintf(`{"id":%d,"g":%q,"prompt":%q,"s":[%d,1],"c":[0.001,0.01],"o":[9,9],"i":9}`,
			i, task, fmt.Sprintf(prompt, i*i), weak))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "made.train.jsonl"), []byte(strings.Join(lines, "\n")), 0o600))
	return dir
}

// `route train`, `calibrate` and `eval`: a model is measured on recorded answers.
func TestRoute(t *testing.T) {
	t.Parallel()
	data, dir := recorded(t, 120), t.TempDir()
	model, calibrated := filepath.Join(dir, "new", "a.model"), filepath.Join(dir, "b.model")

	trained := runJSON[trainedView](t, "route", "train", "--recorded", data, "--out", model, "--seed", "7")
	require.Equal(t, 120, trained.Prompts)
	require.Equal(t, uint64(7), trained.Seed)

	report := filepath.Join(dir, "report")
	results := runJSON[[]map[string]any](t, "route", "eval", "--model", model, "--recorded", data, "--leave-out", "hard",
		"--report", report)
	require.Len(t, results, 1)
	require.Equal(t, "made", results[0]["dataset"])
	for _, name := range []string{"n", "area", "area_low", "area_high", "saved95", "saved98", "saved100", "regret", "apgr",
		"cpt50", "cpt80", "cpt80_high", "harm", "shuffled"} {
		require.Contains(t, results[0], name)
	}
	require.FileExists(t, filepath.Join(report, "index.html"))
	require.FileExists(t, filepath.Join(report, "made-curve.svg"))

	kept := runJSON[[]map[string]any](t, "route", "calibrate", "--model", model, "--recorded", data, "--out", calibrated)
	require.Len(t, kept, 4)
	out, err := run(t, "route", "eval", "--model", calibrated, "--recorded", data)
	require.NoError(t, err)
	require.Contains(t, out, "saved98")
	_, err = run(t, "route", "eval", "--recorded", data, "--leave-out", "hards")
	require.ErrorContains(t, err, `did you mean "hard"?`, "before the built-in model, which does not know these, is asked")
	_, err = run(t, "route", "eval", "--recorded", data, "--leave-out", "nothing-like-it")
	require.ErrorContains(t, err, "leave out one of easy, hard")
	_, err = run(t, "route", "eval", "--folds", "2", "--recorded", data)
	require.NoError(t, err)
}

// What agreement saves is measured on recorded answers.
func TestRouteEvalAgree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := []string{`{"dataset":"made","models":["one","two","dear"]}`}
	for i := range 40 {
		answers, scores := "[0,0,0]", "[1,1,1]"
		if i%4 == 0 {
			answers, scores = "[0,1,2]", "[0,0,1]"
		}
		lines = append(lines, fmt.Sprintf(`{"id":%d,"g":"t","prompt":"Question %d?","i":9,"s":%s,"a":%s,`+
			`"c":[0.001,0.001,0.01]}`, i, i*i, scores, answers))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "made.jsonl"), []byte(strings.Join(lines, "\n")), 0o600))
	list := runJSON[[]measure.Agreement](t, "route", "eval", "--recorded", dir, "--agree", "one,two,dear")
	require.Len(t, list, 1)
	require.InDelta(t, 0.75, list[0].Agreed, 1e-9)
	require.InDelta(t, 0.0045, list[0].Cost, 1e-9)
	require.InDelta(t, 0.55, list[0].Saved.Value, 1e-9)
	out, err := run(t, "route", "eval", "--recorded", dir, "--agree", "best")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(out, "one, two"), "each half: %s", out)
}

func TestRoute_mistakes(t *testing.T) {
	t.Parallel()
	data := recorded(t, 20)
	broken := filepath.Join(t.TempDir(), "broken.model")
	require.NoError(t, os.WriteFile(broken, []byte("no model"), 0o600))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no data":           {[]string{"eval"}, "--recorded is missing"},
		"no out":            {[]string{"train", "--recorded", data}, "--out is missing"},
		"no such folder":    {[]string{"train", "--recorded", "nowhere", "--out", broken}, "no such file"},
		"a corrupt model":   {[]string{"eval", "--recorded", data, "--model", broken}, "train it again"},
		"unknown models":    {[]string{"eval", "--recorded", data}, `does not know ["weak" "strong"]`},
		"one fold":          {[]string{"eval", "--recorded", data, "--folds", "1"}, "2 or more"},
		"two of three":      {[]string{"eval", "--recorded", data, "--agree", "weak,strong"}, "three models"},
		"no answers":        {[]string{"eval", "--recorded", data, "--agree", "best"}, "no data set has answers"},
		"agree and folds":   {[]string{"eval", "--recorded", data, "--agree", "best", "--folds", "2"}, "were all set"},
		"a model and folds": {[]string{"eval", "--recorded", data, "--folds", "2", "--model", broken}, "leave out --model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, append([]string{"route"}, c.args...)...)
			require.ErrorContains(t, err, c.want)
		})
	}
}
