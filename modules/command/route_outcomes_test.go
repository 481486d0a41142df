package command

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/modules/internal/routing/predict/learn"
	"github.com/fareway/fareway/plugins/llm"
)

// signalOf is what the model that is built in makes of a text, as the gateway keeps it.
func signalOf(t *testing.T, text string) []byte {
	t.Helper()
	p := routing.DefaultPredictor()
	it, err := routing.MakeItinerary(routing.Input{Routes: someRoutes(), Predictor: p, Keep: routing.KeepAll,
		InputTokens: 10,
		Request:     &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}}}})
	require.NoError(t, err)
	require.NotEmpty(t, it.Traits.Signal)
	return it.Traits.Signal
}

// someRoutes are two to choose from.
func someRoutes() []config.Route {
	one := config.Route{Name: "a", Model: "m", ContextWindow: 100_000, MaxOutput: 1000, Quality: 0.5}
	two := one
	two.Name, two.Quality = "b", 0.9
	return []config.Route{one, two}
}

// journalOf writes lines as a gateway does.
func journalOf(t *testing.T, lines ...journal.Line) string {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	for i, l := range lines {
		if l.Version == 0 {
			l.Version = journal.Version
		}
		if l.ID == "" {
			l.ID = fmt.Sprint("req_", i)
		}
		if l.Route == "" {
			l.Route = l.Model
		}
		l.At = time.Unix(int64(1_790_000_000+i), 0).UTC()
		text, err := json.Marshal(l)
		require.NoError(t, err)
		b.Write(append(text, '\n'))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lines-001790000000.jsonl"), []byte(b.String()), 0o600))
	return dir
}

// works are requests of two sorts, each somewhat different.
func works(t *testing.T, n int) (code, talk [][]byte) {
	t.Helper()
	for i := range n {
		code = append(code, signalOf(t, fmt.Sprintf("Write a function in Go that sorts a slice of %d structs by the field "+
			"`Key%d`:\n```go\ntype T%d struct{ Key%d int }\n```", i, i, i, i)))
		talk = append(talk, signalOf(t, fmt.Sprintf("Who was the mayor of town number %d in the year %d?", i, 1800+i)))
	}
	return code, talk
}

// TestTrainOutcomes: lines of outcomes teach which requests a model is good at, on top of a base model, and what is
// written can be loaded.
func TestTrainOutcomes(t *testing.T) {
	t.Parallel()
	code, talk := works(t, 60)
	var lines []journal.Line
	for i := range code {
		account := fmt.Sprint("acct_", i%4)
		for _, l := range []journal.Line{
			{Model: "coder-1", Score: 1, Signal: code[i]}, {Model: "coder-1", Score: 0, Signal: talk[i]},
			{Model: "talker-1", Score: 0, Signal: code[i]}, {Model: "talker-1", Score: 1, Signal: talk[i]},
		} {
			l.Account, l.From = account, journal.Agreed
			lines = append(lines, l)
		}
	}
	file := filepath.Join(t.TempDir(), "taught.model")
	v := runJSON[taughtView](t, "route", "train", "--outcomes", journalOf(t, lines...), "--out", file, "--if-better")
	require.Equal(t, file, v.File)
	require.Len(t, v.Models, 2)
	require.Equal(t, 60*4, v.Lines)
	require.Positive(t, v.Judged.Low, "held-out requests say so: %+v", v.Judged)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	m, err := predict.Decode(text)
	require.NoError(t, err)
	require.Positive(t, m.Trained)
	require.Equal(t, predict.Default().Fingerprint(), m.Fingerprint(), "signals that are kept stay of use")
	pool, at, err := m.Pool([]string{"coder-1", "talker-1"})
	require.NoError(t, err)
	var s predict.Signal
	for i, want := range map[int]float64{at[0]: 1, at[1]: 0} {
		require.True(t, m.Unpack(signalOf(t, "Write a function in Go that sorts a slice of 999 structs by `Key`.")[4:], &s))
		require.InDelta(t, want, pool.QualityOf(i, &s), 0.35)
	}
	predictor, err := routing.ReadPredictor(text)
	require.NoError(t, err)
	require.True(t, predictor.Knows("openai/coder-1"))

	again := runJSON[taughtView](t, "route", "train", "--outcomes", journalOf(t, lines...), "--out", file, "--model", file)
	require.Len(t, again.Models, 2)
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	twice, err := predict.Decode(text)
	require.NoError(t, err)
	require.Len(t, twice.Pools, len(m.Pools), "what was taught before is replaced, not added to")
}

// TestTrainOutcomesOfNoUse: what does not predict held-out requests better is not taken where that is asked.
func TestTrainOutcomesOfNoUse(t *testing.T) {
	t.Parallel()
	_, talk := works(t, 60)
	var lines []journal.Line
	coin := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		lines = append(lines, journal.Line{Model: "coin-1", Score: float64(coin.IntN(2)), Account: "acct_1",
			Signal: talk[i%60]})
	}
	for i := range learn.LeastOutcomes - 1 {
		lines = append(lines, journal.Line{Model: "few-1", Score: 0.5, Account: "acct_1", Signal: talk[i]})
	}
	file := filepath.Join(t.TempDir(), "taught.model")
	v := runJSON[taughtView](t, "route", "train", "--outcomes", journalOf(t, lines...), "--out", file, "--if-better")
	require.Empty(t, v.File)
	require.False(t, v.Written)
	require.Equal(t, []taughtModel{{"few-1", learn.LeastOutcomes - 1, 0.5}}, v.Few, "named, and not dropped in silence")
	require.NoFileExists(t, file)
	out, err := run(t, "route", "train", "--outcomes", journalOf(t, lines...), "--out", file, "--if-better")
	require.NoError(t, err)
	require.Contains(t, out, "Nothing is written")
	require.Contains(t, out, "Nothing is learned of few-1: it has 29 lines, and 30 are needed.")
	out, err = run(t, "route", "train", "--outcomes", journalOf(t, lines...), "--out", file)
	require.NoError(t, err)
	require.Contains(t, out, "taught.model: ")
	require.True(t, runJSON[taughtView](t, "route", "train", "--outcomes", journalOf(t, lines...), "--out", file).Written)
}

// TestTrainOutcomesOfAccounts: of four accounts each counts for a quarter at most, and what a client can bring about
// by itself only beside others.
func TestTrainOutcomesOfAccounts(t *testing.T) {
	t.Parallel()
	_, talk := works(t, 60)
	var lines []journal.Line
	for i := range 1000 { // one account says nothing but bad
		lines = append(lines, journal.Line{Model: "m-1", Score: 0, Account: "loud", Signal: talk[i%60]})
	}
	for i := range 60 {
		lines = append(lines, journal.Line{Model: "m-1", Score: 1, Account: fmt.Sprint("quiet", i%3), Signal: talk[i]},
			journal.Line{Model: "alone-1", Score: float64(i % 2), Own: i%2 == 0, Account: "loud", Signal: talk[i]},
			journal.Line{Model: "alone-1", Score: 1, Account: "loud", Signal: talk[i]})
	}
	file := filepath.Join(t.TempDir(), "taught.model")
	v := runJSON[taughtView](t, "route", "train", "--outcomes", journalOf(t, lines...), "--out", file)
	require.Equal(t, 30, v.Alone, "GAP-130: nobody else has lines of that model")
	for _, m := range v.Models {
		switch m.Model {
		case "m-1":
			require.InDelta(t, 0.75, m.Mean, 0.01, "GAP-130: a quarter is the most")
		case "alone-1":
			require.InDelta(t, 1, m.Mean, 0.01)
		}
	}
	require.Len(t, v.Models, 2)
}

// TestTrainOutcomesSaysWhatIsLeftOut: lines that another model has read, and lines that are none.
func TestTrainOutcomesSaysWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	_, talk := works(t, 40)
	file := filepath.Join(t.TempDir(), "taught.model")
	foreign := append([]byte{1, 2, 3, 4}, talk[0][4:]...)
	var lines, others []journal.Line
	for i := range talk {
		lines = append(lines, journal.Line{Model: "m-1", Score: 1, Account: "a", Signal: talk[i]})
		others = append(others, journal.Line{Model: "m-1", Score: 1, Account: "a", Signal: foreign})
	}
	_, err := run(t, "route", "train", "--outcomes", journalOf(t, others...), "--out", file)
	require.ErrorContains(t, err, "read by another model")
	lines = append(lines, others[0], journal.Line{Version: 9, Model: "m-1", Signal: talk[0]},
		journal.Line{ID: "req_told", From: journal.Told, Model: "m-1", Score: 1, Account: "a", Signal: talk[0]},
		journal.Line{ID: "req_told", From: journal.Told, Model: "m-1", Score: 0, Account: "a", Signal: talk[0]})
	out, err := run(t, "route", "train", "--outcomes", journalOf(t, lines...), "--out", file)
	require.NoError(t, err)
	require.Contains(t, out, "m-1: 41 lines, 0.976 in the mean.", "the last word about a request counts")
	require.Contains(t, out, "1 left out from line 42 of ")
	require.Contains(t, out, "it is of version 9, and this fareway reads 1.")
	require.Contains(t, out, "Left out: 1 line whose requests another model has read.")
	_, err = run(t, "route", "train", "--outcomes", journalOf(t, lines[:20]...), "--out", file)
	require.ErrorContains(t, err, "no model has 30 lines that can be used")
	_, err = run(t, "route", "train", "--outcomes", t.TempDir(), "--out", file)
	require.ErrorContains(t, err, "holds no outcomes")
	_, err = run(t, "route", "train", "--outcomes", "x", "--recorded", "y", "--out", file)
	require.ErrorContains(t, err, "none of the others can be")
	_, err = run(t, "route", "train", "--recorded", "y", "--model", "x", "--out", file)
	require.ErrorContains(t, err, "are for --outcomes")
	_, err = run(t, "route", "train", "--out", file)
	require.ErrorContains(t, err, "recorded outcomes")
}
