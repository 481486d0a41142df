// Package journal keeps, where an operator asks for it (the block outcomes), what came of requests as lines to train
// by: what the predictor's model made of the request (numbers, and no word of its text), and how a route did. Texts
// are kept only where the operator asks for that, too, in files of their own with their own age.
//
// It is for the engine, which writes, and for who trains, who reads (Read). Lines are written behind the requests;
// what cannot be written is dropped, and no request ever waits for it.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
)

// Version is that of the lines that are written and read.
const Version = 1

// Line is how a route did at one request.
type Line struct {
	Version int       `json:"v"`
	At      time.Time `json:"t"`
	ID      string    `json:"id"`      // the request's
	Account string    `json:"account"` // its id
	Route   string    `json:"route"`
	Model   string    `json:"model"` // as the upstream calls it
	// Score is from 0 to 1, and From who gave it.
	Score float64 `json:"score"`
	From  Source  `json:"from"`
	// Own: a client can bring this about by itself, so that it counts only beside other accounts' (GAP-130).
	Own bool `json:"own,omitempty"`
	// Signal is what the model made of the request, packed, with the model's fingerprint (routing.Traits).
	Signal []byte `json:"signal"`
}

// Source is who gave a score.
type Source string

// The sources.
const (
	Agreed    Source = "agreed"    // more than half of several replies said the same, or this one did not
	Shadow    Source = "shadow"    // a call for comparison
	Validator Source = "validator" // of a strategy
	Judged    Source = "judged"    // a route that was asked whether the reply is good
	Call      Source = "call"      // a call of a tool that fits its schema, or does not
	Told      Source = "told"      // somebody said so
)

// Text is what was asked, where the operator wants that.
type Text struct {
	Version int       `json:"v"`
	At      time.Time `json:"t"`
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Prompt  string    `json:"prompt"`
}

const (
	// waiting is how many lines may wait for the writer; more are lost.
	waiting    = 4096
	flushEvery = 5 * time.Second
	// atOnce is how many bytes are written in one call.
	atOnce = 256 << 10
	// MaxPrompt is how much of a text is kept, in bytes.
	MaxPrompt = 32 << 10
)

// Options say where the journal is and how much of it is kept.
type Options struct {
	// Dir is the folder of its files. It is made when there is something to write.
	Dir string
	// Settings may change while the journal is open.
	Settings func() config.Outcomes
	// Now is the clock. nil: time.Now.
	Now func() time.Time
	// After tells when a time is over. nil: time.After.
	After func(time.Duration) <-chan time.Time
	// Logger is told when files cannot be written. nil: slog.Default.
	Logger *slog.Logger
	// Lost is told of lines that could not be written, because of the disk or of too many at once. nil: nobody.
	Lost func(lines int)
}

// Journal writes lines in a goroutine of its own, from Open to Close. A nil Journal keeps nothing.
type Journal struct {
	opts    Options
	lines   chan any // *Line or *Text
	flushes chan chan error
	stop    chan struct{}
	done    chan struct{}

	// The rest is the writer's.
	files   [2]series // of lines and of texts
	failing [4]bool   // to write each series, and to prune each
}

// The series of files.
const (
	ofLines = iota
	ofTexts
	pruning // and one of them
)

// Open continues the journal in a folder, whether there is one or not. One process writes it at a time, which is the
// caller's to see to.
func Open(o Options) *Journal {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Lost == nil {
		o.Lost = func(int) {}
	}
	j := &Journal{opts: o, lines: make(chan any, waiting), flushes: make(chan chan error), stop: make(chan struct{}),
		done: make(chan struct{})}
	j.files[ofLines], j.files[ofTexts] = series{dir: o.Dir, name: "lines"}, series{dir: o.Dir, name: "texts"}
	go j.run()
	return j
}

// Add gives the journal a line. It never waits.
func (j *Journal) Add(l Line) {
	l.Version, l.At = Version, j.now()
	j.add(&l)
}

// AddText gives it what was asked. It never waits.
func (j *Journal) AddText(t Text) {
	t.Version, t.At = Version, j.now()
	if len(t.Prompt) > MaxPrompt {
		t.Prompt = t.Prompt[:MaxPrompt] // JSON makes a letter of what is cut
	}
	j.add(&t)
}

func (j *Journal) now() time.Time {
	if j == nil {
		return time.Time{}
	}
	return j.opts.Now().UTC().Truncate(time.Second)
}

func (j *Journal) add(item any) {
	if j == nil {
		return
	}
	select {
	case j.lines <- item:
	default:
		j.opts.Lost(1)
	}
}

// Flush writes what was added before, and removes what is older than it may be, or too much.
func (j *Journal) Flush(ctx context.Context) error {
	if j == nil {
		return nil
	}
	flushed := make(chan error, 1)
	select {
	case j.flushes <- flushed:
		return <-flushed
	case <-j.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the journal of outcomes: %w", context.Cause(ctx))
	}
}

// Close writes what waits. Nothing may be added after it.
func (j *Journal) Close() {
	if j == nil {
		return
	}
	close(j.stop)
	<-j.done
}

func (j *Journal) run() {
	defer close(j.done)
	tick := j.opts.After(flushEvery)
	for {
		select {
		case item := <-j.lines:
			j.take(item)
		case flushed := <-j.flushes:
			flushed <- j.drain()
		case <-tick:
			_ = j.drain() // it has been logged
			tick = j.opts.After(flushEvery)
		case <-j.stop:
			_ = j.drain()
			for i := range j.files {
				j.files[i].close()
			}
			return
		}
	}
}

func (j *Journal) take(item any) {
	which := ofLines
	if _, text := item.(*Text); text {
		which = ofTexts
	}
	line, err := json.Marshal(item)
	if err != nil { // a number that is none
		j.opts.Lost(1)
		return
	}
	s := &j.files[which]
	s.waits = append(append(s.waits, line...), '\n')
	s.count++
	if len(s.waits) >= atOnce {
		_ = j.write(which)
	}
}

// drain takes what waits, writes it, and prunes.
func (j *Journal) drain() error {
	for len(j.lines) > 0 {
		j.take(<-j.lines)
	}
	var errs []error
	for which := range j.files {
		errs = append(errs, j.write(which))
		keep, size := j.bounds(which)
		errs = append(errs, j.noted(pruning+which, 0, j.files[which].prune(j.opts.Now(), keep, size)))
	}
	return errors.Join(errs...)
}

// bounds are how long a series is kept, and how large it is at most.
func (j *Journal) bounds(which int) (time.Duration, int64) {
	s := j.opts.Settings()
	if which == ofTexts {
		return s.TextKeep, s.MaxSize
	}
	return s.Keep, s.MaxSize
}

func (j *Journal) write(which int) error {
	s := &j.files[which]
	if s.count == 0 {
		return nil
	}
	keep, size := j.bounds(which)
	n := s.count
	err := s.write(j.opts.Now(), keep, size)
	s.waits, s.count = s.waits[:0], 0
	return j.noted(which, n, err)
}

// noted logs the first error of a streak, and its end: when all that failed has been done. lines are those that were
// lost with the error.
func (j *Journal) noted(what, lines int, err error) error {
	failed := slices.Contains(j.failing[:], true)
	j.failing[what] = err != nil
	switch {
	case err != nil:
		j.opts.Lost(lines)
		if !failed {
			j.opts.Logger.Error("outcomes cannot be kept for training; requests do not mind", "folder", j.opts.Dir, "error", err)
		}
	case failed && !slices.Contains(j.failing[:], true):
		j.opts.Logger.Info("outcomes can be kept for training again")
	}
	return err
}

// private are the permissions of the files and their folder: who has asked what is nobody else's business.
const (
	privateFile   os.FileMode = 0o600
	privateFolder os.FileMode = 0o700
)
