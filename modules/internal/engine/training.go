package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

const (
	// trainingEvery is how often it is looked whether it is time.
	trainingEvery = time.Minute
	// trainingTakes is how long a training may take: far longer than one does.
	trainingTakes = time.Hour
	// trainingMemory bounds what its process may have, in bytes.
	trainingMemory = 1 << 30
	maxTrainingSay = 4096 // bytes of what it says in the log
)

// Training is what came of the last nightly training.
type Training struct {
	At     time.Time `json:"at"`
	Result string    `json:"result"` // "taken", "not_better" or "failed"
	Text   string    `json:"text"`   // in words
}

// What comes of a training.
const (
	TrainingTaken     = "taken"
	TrainingNotBetter = "not_better"
	TrainingFailed    = "failed"
)

// trainer teaches the model of the configuration by the outcomes that are kept, once a day where that is asked for: in
// a process of its own, of low priority and with bounded memory. What predicts held-out requests better than what
// predicted before takes its place, and stays in the journal's folder.
type trainer struct {
	dir     string // the journal's
	acquire func() (*Generation, func())
	flush   func(context.Context) error // of the journal
	// run runs this program with arguments, and returns what it printed.
	run     func(ctx context.Context, args []string) ([]byte, error)
	now     func() time.Time
	log     *slog.Logger
	metrics *Metrics

	taught atomic.Pointer[taught]

	due  time.Time // of the time of day at
	at   time.Duration
	mu   sync.Mutex
	last *Training
}

// taught is a model that outcomes have taught something, and the beginning of the digest of what it was before.
type taught struct {
	base      string
	predictor *routing.Predictor
	about     routing.About
}

// path is where what outcomes have taught a base model is kept.
func (t *trainer) path(base routing.About) string {
	return filepath.Join(t.dir, "taught-"+base.SHA256[:config.FingerprintDigits]+".model")
}

// of is what predicts for a configuration.
func (t *trainer) of(cfg *config.Config) (*routing.Predictor, routing.About) {
	base := routing.ModelOf(cfg)
	if known := t.taught.Load(); known != nil && cfg.Outcomes.Train != nil && known.base == base.SHA256 {
		return known.predictor, known.about
	}
	return routing.PredictorOf(cfg), base
}

// restore takes up what was taught before a restart, or to a model that the configuration has gone back to.
func (t *trainer) restore(cfg *config.Config) {
	if cfg.Outcomes.Train == nil {
		return
	}
	base := routing.ModelOf(cfg)
	if known := t.taught.Load(); known != nil && known.base == base.SHA256 {
		return
	}
	err := t.take(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.log.Warn("what outcomes have taught the model cannot be used, and is left out", "file", t.path(base), "error", err)
	}
}

// take makes a model that was taught the one that predicts.
func (t *trainer) take(base routing.About) error {
	content, err := os.ReadFile(t.path(base))
	if err != nil {
		return err
	}
	predictor, about, err := routing.ReadTaught(content, base)
	if err != nil {
		return err
	}
	t.taught.Store(&taught{base.SHA256, predictor, about})
	return nil
}

// look trains when it is time. Only the loop that it is a chore of calls it.
func (t *trainer) look(ctx context.Context) error {
	g, release := t.acquire()
	defer release()
	if g == nil || g.Config.Outcomes.Train == nil {
		t.due = time.Time{}
		return nil
	}
	t.restore(g.Config)
	now, at := t.now().UTC(), *g.Config.Outcomes.Train
	if t.due.IsZero() || t.at != at || t.due.Sub(now) > 24*time.Hour { // it is new, or the clock has been turned back
		t.at, t.due = at, now.Truncate(24*time.Hour).Add(at)
		if t.due.Before(now) {
			t.due = t.due.Add(24 * time.Hour)
		}
	}
	if now.Before(t.due) {
		return nil
	}
	t.due = t.due.Add(24 * time.Hour)
	if t.due.Before(now) { // it slept for days
		t.due = time.Time{}
	}
	t.train(ctx, g.Config)
	return nil
}

// train trains, and notes what came of it.
func (t *trainer) train(ctx context.Context, cfg *config.Config) {
	result, text := t.try(ctx, cfg)
	if ctx.Err() != nil {
		return // the gateway ends
	}
	level := slog.LevelInfo
	if result == TrainingFailed {
		level = slog.LevelError
	}
	t.log.Log(ctx, level, "the nightly training has ended", "result", result, "text", text)
	t.metrics.trained(result)
	t.mu.Lock()
	t.last = &Training{At: t.now().UTC(), Result: result, Text: text}
	t.mu.Unlock()
}

func (t *trainer) try(ctx context.Context, cfg *config.Config) (result, text string) {
	base := routing.ModelOf(cfg)
	if err := t.flush(ctx); err != nil {
		return TrainingFailed, err.Error()
	}
	out := t.path(base) + ".new"
	args := []string{"gateway", "route", "train", "--outcomes", t.dir, "--out", out, "--if-better", "--json"}
	switch known := t.taught.Load(); {
	case known != nil && known.base == base.SHA256:
		args = append(args, "--model", t.path(base))
	case base.File != "":
		args = append(args, "--model", base.File)
	}
	defer os.Remove(out) // it is gone where it was taken
	ctx, cancel := context.WithTimeout(ctx, trainingTakes)
	defer cancel()
	printed, err := t.run(ctx, args)
	if err != nil {
		return TrainingFailed, err.Error()
	}
	var v struct {
		File   string `json:"file"`
		Lines  int    `json:"lines"`
		Judged struct {
			Requests          int     `json:"requests"`
			Gained, Low, High float64 // of log loss
		} `json:"held_out"`
	}
	if err := json.Unmarshal(printed, &v); err != nil {
		return TrainingFailed, fmt.Sprintf("reading what the training says: %v", err)
	}
	j := &v.Judged
	text = fmt.Sprintf("%d lines; of %d held-out requests the log loss fell by %.4f (%.4f to %.4f)", v.Lines, j.Requests,
		j.Gained, j.Low, j.High)
	if v.File == "" {
		return TrainingNotBetter, text
	}
	if err := os.Rename(out, t.path(base)); err != nil {
		return TrainingFailed, err.Error()
	}
	if err := t.take(base); err != nil {
		return TrainingFailed, err.Error()
	}
	return TrainingTaken, text
}

// Training is what came of the last nightly training of this process, nil for none.
func (l *learning) Training() *Training {
	l.trainer.mu.Lock()
	defer l.trainer.mu.Unlock()
	return l.trainer.last
}

// PredictorOf is what predicts for a configuration, and which model that is: the configuration's, with what nightly
// trainings have taught it.
func (l *learning) PredictorOf(cfg *config.Config) (*routing.Predictor, routing.About) {
	return l.trainer.of(cfg)
}

// runSelf runs this program with arguments, in a process of low priority with bounded memory.
func runSelf(ctx context.Context, args []string) ([]byte, error) {
	exe, err := selfPath()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", fmt.Sprintf("GOMEMLIMIT=%d", trainingMemory*3/4))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the training: %w", err)
	}
	if err := calm(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill() // it ends then, and Wait says so
		_ = cmd.Wait()
		return nil, fmt.Errorf("bounding the training's process: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		text := bytes.TrimSpace(said.Bytes())
		return nil, fmt.Errorf("training by outcomes: %w: %s", err, text[:min(len(text), maxTrainingSay)])
	}
	return out.Bytes(), nil
}
