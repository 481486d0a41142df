package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// night is a trainer with a clock that a test turns, and a process that it makes up.
type night struct {
	*trainer
	at   time.Time
	cfg  config.Config
	runs [][]string
	says string // what the process prints
	file string // what it writes, "" for nothing
	err  error
	text bytes.Buffer
}

func newNight(t *testing.T, dir string) *night {
	t.Helper()
	n := &night{at: time.Date(2026, 11, 20, 2, 59, 0, 0, time.UTC), file: modelFile(t, 1_780_000_000),
		says: `{"file":"x","lines":9,"held_out":{"requests":5,"gained":0.1,"low":0.05,"high":0.2}}`}
	n.cfg.Outcomes = config.Outcomes{On: true, Train: new(3 * time.Hour)}
	n.trainer = &trainer{dir: dir, metrics: newMetrics(""), log: slog.New(slog.NewTextHandler(&n.text, nil)),
		acquire: func() (*Generation, func()) { return &Generation{Config: &n.cfg}, func() {} },
		flush:   func(context.Context) error { return nil },
		now:     func() time.Time { return n.at },
		run: func(_ context.Context, args []string) ([]byte, error) {
			n.runs = append(n.runs, args)
			out := args[slices.Index(args, "--out")+1]
			if n.file != "" {
				require.NoError(t, os.WriteFile(out, []byte(n.file), 0o600))
			}
			return []byte(n.says), n.err
		}}
	return n
}

// pass lets minutes pass.
func (n *night) pass(t *testing.T, minutes int) {
	t.Helper()
	for range minutes {
		n.at = n.at.Add(time.Minute)
		require.NoError(t, n.look(t.Context()))
	}
}

func (n *night) predicts() routing.About {
	_, about := n.of(&n.cfg)
	return about
}

// TestNightlyTraining: once a day at its time, and what is better predicts from then on, also after a restart.
func TestNightlyTraining(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := newNight(t, dir)
	require.NoError(t, n.look(t.Context()))
	require.Empty(t, n.runs)
	require.False(t, n.predicts().Taught)
	n.pass(t, 1)
	require.Len(t, n.runs, 1, "it is three")
	require.Equal(t, []string{"gateway", "route", "train", "--outcomes", dir, "--out",
		n.path(routing.ModelOf(&n.cfg)) + ".new", "--if-better", "--json"}, n.runs[0])
	require.True(t, n.predicts().Taught)
	require.Contains(t, n.predicts().String(), "the model that is built in, with what outcomes have taught it (")
	require.Equal(t, &Training{At: n.at, Result: TrainingTaken,
		Text: "9 lines; of 5 held-out requests the log loss fell by 0.1000 (0.0500 to 0.2000)"}, n.last)
	require.InDelta(t, 1, n.metrics.values(t)[`fareway_trainings_total{result="taken"}`], 0)
	n.pass(t, 24*60-1)
	require.Len(t, n.runs, 1)
	n.pass(t, 1)
	require.Len(t, n.runs, 2)
	require.Equal(t, []string{"--model", n.path(routing.ModelOf(&n.cfg))}, n.runs[1][9:],
		"judged against what predicts now")
	n.at = n.at.Add(100 * time.Hour) // it slept
	n.pass(t, 60)
	require.Len(t, n.runs, 3, "once, and no more for each day")
	n.at = n.at.Add(-100 * time.Hour)
	n.pass(t, 60)
	require.Len(t, n.runs, 3, "the clock is turned back")

	again := newNight(t, dir)
	again.restore(&again.cfg)
	require.True(t, again.predicts().Taught, "it outlives a restart")
	again.cfg.Outcomes.Train = nil
	require.False(t, again.predicts().Taught, "not where nobody asks for it any more")
	require.NoError(t, again.look(t.Context()))
	again.cfg.Outcomes.Train = new(3 * time.Hour)
	model, err := routing.ReadModel([]byte(modelFile(t, 1_790_000_000)))
	require.NoError(t, err)
	again.cfg.Predictor = config.Predictor{File: "/etc/routes.model", Model: model}
	require.False(t, again.predicts().Taught, "another model is another base")
	require.NoError(t, again.look(t.Context()))
	again.at = again.due
	require.NoError(t, again.look(t.Context()))
	require.Equal(t, []string{"--model", "/etc/routes.model"}, again.runs[0][9:])
	require.Equal(t, "/etc/routes.model", again.predicts().File)
}

// TestNightlyTrainingThatIsNotTaken: what is not better, fails, or writes what cannot be used changes nothing, and
// says so.
func TestNightlyTrainingThatIsNotTaken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*night)
		result string
		says   string
	}{
		"not better": {func(n *night) { n.file, n.says = "", `{"lines":9,"held_out":{"requests":5}}` }, TrainingNotBetter,
			"9 lines"},
		"failed": {func(n *night) { n.err = errors.New("it was killed") }, TrainingFailed, "it was killed"},
		"says nothing": {func(n *night) { n.says = "" }, TrainingFailed,
			"reading what the training says"},
		"writes nothing": {func(n *night) { n.file = "" }, TrainingFailed, "no such file"},
		"writes garbage": {func(n *night) { n.file = "garbage" }, TrainingFailed, "it is no model"},
		"cannot be flushed": {func(n *night) {
			n.flush = func(context.Context) error { return errors.New("the disk is full") }
		}, TrainingFailed, "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t, t.TempDir())
			tc.change(n)
			n.pass(t, 2)
			require.Equal(t, tc.result, n.last.Result)
			require.Contains(t, n.last.Text, tc.says)
			require.False(t, n.predicts().Taught)
			require.Contains(t, n.text.String(), "result="+tc.result)
			require.InDelta(t, 1, n.metrics.values(t)[fmt.Sprintf(`fareway_trainings_total{result=%q}`, tc.result)], 0)
		})
	}
	t.Run("what was taught cannot be read any more", func(t *testing.T) {
		t.Parallel()
		n := newNight(t, t.TempDir())
		require.NoError(t, os.WriteFile(n.path(routing.ModelOf(&n.cfg)), []byte("garbage"), 0o600))
		n.restore(&n.cfg)
		require.False(t, n.predicts().Taught)
		require.Contains(t, n.text.String(), "is left out")
	})
}
