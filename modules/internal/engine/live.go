package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm/settings"
)

const (
	// lookEvery is how often the files of a configuration are hashed.
	lookEvery = time.Second
	// settleFor is how long changed files have to stay as they are before they are loaded: a file that is being saved
	// may be looked at when half of it is there, and half a configuration can be a valid one.
	settleFor = 250 * time.Millisecond
	// settleLooks bounds how often that is waited for, when somebody writes without an end.
	settleLooks = 3
	// retryLooks is after how many looks a refused configuration is tried again: what hindered it may be gone though the
	// files are as they were (accounts that left a plan, a program that can be started now).
	retryLooks = 15
)

// ErrReplaced is why a Live loads nothing any more: another one serves.
var ErrReplaced = errors.New("another configuration of the gateway is being loaded: try again in a moment")

// Live is a configuration file that serves as it is saved: it and all that it names are looked at each second, and a
// change is loaded whole or not at all. Content alone decides, so that clocks, links and inodes mean nothing.
type Live struct {
	engine *Engine
	path   string
	end    context.CancelFunc // of the watch
	watch  sync.WaitGroup

	alive  context.Context    // ends with the watch; nil before Start
	asked  context.CancelFunc // ends the asking of the upstreams of gen
	asking sync.WaitGroup     // is added to with mu held and gen there, or by Start

	programs programs // of the watch
	ran      string   // digest of the plugins' files at the last look

	mu      sync.Mutex    // of whoever loads
	gen     *Generation   // that serves, nil when this has retired
	sources []host.Source // of the plugins that were named last
	seen    string        // digest of the files that were loaded last, or refused
	refused bool          // they were
	looks   int           // since then
}

// Live prepares the configuration cfg, loaded from its file, to serve and to be kept up with. It serves nobody until
// Start; either way it is given back with Retire.
func (e *Engine) Live(ctx context.Context, cfg *config.Config) (*Live, error) {
	l := &Live{engine: e, path: cfg.Path, seen: cfg.Hash, end: func() {}}
	l.ran = l.programs.digest(e.programPaths(sourcesOf(cfg)))
	g, err := e.Prepare(ctx, cfg)
	if err != nil {
		return nil, e.explain(ctx, cfg.Path, nil, err)
	}
	l.gen = g
	g.live = l
	return l, nil
}

// Start makes this the configuration that serves, and begins to look for changes.
func (l *Live) Start() {
	l.engine.Activate(l.gen)
	ctx, end := context.WithCancel(l.engine.life.ctx)
	l.alive, l.end = ctx, end
	l.askUpstreams()
	l.watch.Go(func() { l.look(ctx) })
}

// askUpstreams asks the upstreams of the configuration that serves, and no longer those of the one before.
func (l *Live) askUpstreams() {
	if l.alive == nil {
		return
	}
	if l.asked != nil {
		l.asked()
	}
	ctx, end := context.WithCancel(l.alive)
	g := l.gen
	l.asked = end
	l.asking.Go(func() { l.engine.askUpstreams(ctx, g) })
}

// Retire ends the watch and gives the configuration back.
func (l *Live) Retire() {
	l.end()
	l.watch.Wait()
	l.mu.Lock()
	g := l.gen
	l.gen = nil
	l.mu.Unlock()
	l.asking.Wait()
	l.engine.Retire(g)
}

// look looks each second, until ctx ends.
func (l *Live) look(ctx context.Context) {
	wait := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-l.engine.timer(d):
			return true
		}
	}
	for wait(lookEvery) {
		digest, ran := config.Digest(l.path), l.programs.digest(l.paths())
		if !l.isNews(digest) && ran == l.ran {
			continue
		}
		for range settleLooks {
			if !wait(settleFor) {
				return
			}
			before, running := digest, ran
			digest, ran = config.Digest(l.path), l.programs.digest(l.paths())
			if digest == before && ran == running {
				break
			}
		}
		// What comes of it is in the log and in the engine's FailedLoad.
		if _, err := l.reload(WithCause(ctx, bySaved), digest); !errors.Is(err, errUnsettled) {
			l.ran = ran
		}
	}
}

// errUnsettled is a file that is being saved: what was read of it may be a part.
var errUnsettled = errors.New("it is being saved")

// paths are where the plugins' files are: of what serves, and of what was to take its place.
func (l *Live) paths() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gen == nil {
		return nil
	}
	return l.engine.programPaths(slices.Concat(l.sources, sourcesOf(l.gen.Config)))
}

// isNews reports whether files with this digest are to be loaded.
func (l *Live) isNews(digest string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.gen == nil:
		return false
	case digest != l.seen:
		return true
	case !l.refused:
		failed := l.engine.FailedLoad()
		return failed != nil && failed.InFile // what a reload of Caddy's has refused is gone
	}
	l.looks++
	return l.looks%retryLooks == 0
}

// Reload loads the file now: checked whole first, then swapped at once. A file that cannot be taken is a
// *RefusedError, and what served before goes on. changed is false when it serves already.
func (l *Live) Reload(ctx context.Context) (changed bool, err error) {
	return l.reload(ctx, "")
}

// reload is Reload of files that have this digest, before and after they are read; "" for any.
func (l *Live) reload(ctx context.Context, settled string) (changed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gen == nil {
		return false, ErrReplaced
	}
	if err := l.engine.life.ready(); errors.Is(err, ErrShutdown) {
		return false, err
	}
	digest := config.Digest(l.path)
	again := l.refused && digest == l.seen
	cfg, diags := l.load(ctx)
	if ctx.Err() != nil {
		return false, context.Cause(ctx) // it says nothing about the file
	}
	if settled != "" && (digest != settled || config.Digest(l.path) != settled) {
		return false, errUnsettled
	}
	l.seen = digest
	if diags.HasErrors() {
		return false, l.refuse(again, FailedLoad{Problem: diags.Error(), Diagnostics: diags})
	}
	replaced := l.gen.replaced()
	if cfg.Hash == l.gen.Config.Hash && len(replaced) == 0 {
		l.noteMended(settled == "")
		l.engine.sign(causeOf(ctx))
		return false, nil
	}
	g, err := l.engine.Prepare(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			l.seen = "" // to be loaded again
			return false, context.Cause(ctx)
		}
		err = l.engine.explain(ctx, l.path, nil, err)
		diags, _ = errors.AsType[*config.Diagnostics](err)
		return false, l.refuse(again, FailedLoad{Problem: err.Error(), Diagnostics: diags})
	}
	g.live = l
	old := l.gen
	l.gen, l.refused = g, false
	l.engine.replace(old, g, causeOf(ctx))
	l.askUpstreams()
	log := l.engine.Logger().With("file", l.path, "config_number", l.engine.InForce().Number, "config_hash",
		cfg.Hash, "by", causeOf(ctx))
	if cfg.Hash == old.Config.Hash {
		log.Info("replaced plugins serve; the old processes end with their last requests", "providers", replaced)
		return true, nil
	}
	log.Info("the saved configuration serves", "warnings", len(diags.All()))
	LogFindings(log, diags)
	return true, nil
}

// load reads the file, and notes which plugins it names.
func (l *Live) load(ctx context.Context) (*config.Config, *config.Diagnostics) {
	o := optionsOf(l.engine.host)
	var named []host.Source
	ask := o.Schema
	o.Schema = func(ctx context.Context, ref config.PluginRef) (settings.Schema, error) {
		named = append(named, sourceOf(ref))
		return ask(ctx, ref)
	}
	cfg, diags := config.Load(ctx, l.path, o)
	if len(named) > 0 { // those of a file that cannot be read are as before
		l.sources = named
	}
	return cfg, diags
}

// refuse notes that the file was not taken. What was said of the same content already is not said again.
func (l *Live) refuse(again bool, f FailedLoad) error {
	f.Path, f.InFile = l.path, true
	if last := l.engine.FailedLoad(); !again || last == nil || last.Problem != f.Problem {
		l.engine.metrics.loaded("refused")
		l.engine.NoteFailedLoad(f)
		log := l.engine.Logger().With("file", l.path, "config_number", l.engine.InForce().Number)
		log.Error("the saved configuration is refused; the one before serves on", "problem", f.Problem)
		LogFindings(log, f.Diagnostics)
	}
	l.refused, l.looks = true, 0
	return &RefusedError{*l.engine.FailedLoad()}
}

// noteMended notes that the file is again what serves. Whoever asked for the load hears so in either case.
func (l *Live) noteMended(asked bool) {
	l.refused = false
	log := l.engine.Logger().With("file", l.path, "config_number", l.engine.InForce().Number)
	if failed := l.engine.FailedLoad(); failed != nil && failed.InFile {
		l.engine.failed.Store(nil)
		l.engine.metrics.refused.Set(0)
		log.Info("the configuration file is again what serves")
	} else if asked {
		log.Info("the configuration file is what serves: nothing has changed")
	}
}

// Reload loads the file of the configuration that serves, now. See Live.Reload.
func (e *Engine) Reload(ctx context.Context) (changed bool, err error) {
	g := e.Current()
	if g == nil || g.live == nil {
		return false, ErrReplaced
	}
	return g.live.Reload(ctx)
}

// LogFindings logs what was found in a configuration, each as `gateway check` prints it. d may be nil.
func LogFindings(log *slog.Logger, d *config.Diagnostics) {
	if d == nil {
		return
	}
	for _, found := range d.All() {
		level := slog.LevelError
		if found.Severity == config.SeverityWarning {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "found in the configuration: "+found.Summary,
			"at", found.Position(), "text", found.Text())
	}
}

// Load reads the HCL file at path, with texts that stand in for those of files. Plugins are asked once for settings.
func (c *configuration) Load(ctx context.Context, path string, overlay config.Overlay) (*config.Config,
	*config.Diagnostics) {
	o := optionsOf(c.host)
	o.Overlay = overlay
	return config.Load(ctx, path, o)
}

// RefusedError is why a file was not taken.
type RefusedError struct{ FailedLoad }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s is refused, and what served before goes on: %s", e.Path, e.Problem)
}

// Unwrap gives the diagnostics, where those are the reason.
func (e *RefusedError) Unwrap() error {
	if e.Diagnostics == nil {
		return nil
	}
	return e.Diagnostics
}

// Text is what is wrong in the file, as `gateway check` prints it; "" when that is not the reason.
func (f FailedLoad) Text() string {
	if f.Diagnostics == nil {
		return ""
	}
	return textOf(f.Diagnostics)
}

func textOf(d *config.Diagnostics) string {
	var text strings.Builder
	_ = d.Write(&text, false) // a builder takes everything
	return text.String()
}
