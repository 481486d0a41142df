package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// Origin is where a plugin comes from.
type Origin struct {
	Plugin string // its name
	File   string // its resolved path, "" for a built-in one
	SHA256 string // of the file, in lower-case hex; "" for a built-in one
}

func (e executable) origin() Origin {
	o := Origin{Plugin: e.plugin, SHA256: e.digest}
	if e.digest != "" {
		o.File = e.argv[0]
	}
	return o
}

// About is what a plugin says of itself.
type About struct {
	Name         string // what it calls itself
	Version      string
	Schema       settings.Schema
	Models       []llm.Model // that it knows without asking
	Capabilities Capabilities
}

func aboutOf(a *proto.DescribeResponse) About {
	return About{Name: line(a.GetName()), Version: line(a.GetVersion()), Schema: wire.SchemaFromProto(a.GetSchema()),
		Capabilities: capabilitiesOf(a.GetCapabilities()), Models: wire.ModelsFromProto(a.GetKnownModels())}
}

// line is a name or a version: in one line, whatever the plugin says.
func line(s string) string { return strings.Join(strings.Fields(wire.Clip(s)), " ") }

func capabilitiesOf(c *proto.Capabilities) Capabilities {
	return Capabilities{
		CancelUsage: c.GetCancelUsage(), CountTokens: c.GetCountTokens(), Receipts: c.GetReceipts(),
		Endpoint: c.GetEndpoint(), Models: c.GetModels(), Screen: c.GetScreen(), Predict: c.GetPredict(),
	}
}

// Info is a provider as it runs.
type Info struct {
	Provider string // the operator's name for it
	Origin   Origin
	About    About
	State    State
	Problem  string    // why it cannot take requests, as it says itself; "" when it can
	PID      int       // 0 while there is no process
	Started  time.Time // of the process
	Memory   int64     // resident, of the process and what it has started, in bytes; 0 where the system does not tell
	Streams  int       // attempts in progress, those that the host makes for it among them
	Restarts int       // since the provider was acquired first
	Crash    *Crash    // the last one, nil when there was none

	MaxMemory  int64 // in bytes; 0: no limit
	Confine    Confine
	Failures   map[Cause]int     // of its processes and of starts, since the provider was acquired first
	Violations map[Violation]int // of the plugin protocol, since then
	Violation  string            // what the last one was; "" when there was none
}

// Name is the provider's, which the operator gave it. Neither it nor Origin looks at processes, as Info does.
func (p *Plugin) Name() string { return p.spec.Name }

// Origin is where what runs comes from.
func (p *Plugin) Origin() Origin {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exe.origin()
}

// Info tells how the provider runs.
func (p *Plugin) Info() Info {
	p.mu.Lock()
	i := Info{Provider: p.spec.Name, Origin: p.exe.origin(), State: p.state, Problem: p.problem,
		Streams: p.streams + int(p.carrying.Load()), Restarts: p.restarts, Started: p.since,
		MaxMemory: p.spec.MaxMemory, Confine: p.spec.Confine, Failures: maps.Clone(p.failures),
		Violations: maps.Clone(p.violations.count),
		Violation:  p.violations.last}
	about, proc := p.about, p.proc
	if p.crash != nil {
		i.Crash = new(*p.crash)
	}
	p.mu.Unlock()
	if about != nil {
		i.About = aboutOf(about)
	}
	if proc == nil {
		i.Started = time.Time{}
		return i
	}
	i.PID, _ = strconv.Atoi(proc.child.ID())
	i.Memory = memoryOf(i.PID)
	return i
}

// Find looks for a plugin as Acquire does.
func (h *Host) Find(s Source) (Origin, error) {
	exe, err := h.find(s)
	if err != nil {
		return Origin{}, err
	}
	return exe.origin(), nil
}

// Find looks for the plugin of a provider that runs: another origin means that its file was replaced.
func (p *Plugin) Find() (Origin, error) { return p.host.Find(p.spec.Source) }

// About asks a plugin what it is. It starts it for as long as that takes.
func (h *Host) About(ctx context.Context, s Source) (Origin, About, error) {
	exe, err := h.find(s)
	if err != nil {
		return Origin{}, About{}, err
	}
	about, err := h.ask(ctx, exe, cmp.Or(s.StartTimeout, DefaultStartTimeout))
	return exe.origin(), about, err
}

// AboutFile is About of a file wherever it is: it need not be as safe as one that the gateway runs.
func (h *Host) AboutFile(ctx context.Context, path string, timeout time.Duration) (Origin, About, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err == nil {
		resolved, err = filepath.Abs(resolved)
	}
	if err != nil {
		return Origin{}, About{}, fmt.Errorf("finding the plugin: %w", err)
	}
	digest, err := Digest(resolved)
	if err != nil {
		return Origin{}, About{}, fmt.Errorf("finding the plugin: %w", err)
	}
	name := strings.TrimPrefix(filepath.Base(path), filePrefix)
	exe := executable{plugin: name, argv: []string{resolved}, digest: digest}
	about, err := h.ask(ctx, exe, cmp.Or(timeout, DefaultStartTimeout))
	return exe.origin(), about, err
}

// ask starts a program and asks what it is.
func (h *Host) ask(ctx context.Context, exe executable, timeout time.Duration) (About, error) {
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.running.Add(1)
	}
	h.mu.Unlock()
	if closed {
		return About{}, errClosed
	}
	defer h.running.Done()
	bounded, cancel := withStartTimeout(h.life, timeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	proc, err := launch(bounded, exe, &h.scrub, h.log.With(slog.String("plugin", exe.plugin)))
	if err != nil {
		return About{}, err
	}
	defer proc.kill()
	return aboutOf(proc.about), nil
}

// File is a file in a plugin folder.
type File struct {
	Origin
	Problem error // why the gateway does not run it, nil when it does
}

// Files lists the plugins in a plugin folder.
func Files(dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing the plugin folder: %w", err)
	}
	var files []File
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), filePrefix)
		if !ok {
			continue
		}
		f := File{Origin: Origin{Plugin: name, File: filepath.Join(dir, entry.Name())}}
		if !pluginName.MatchString(name) {
			f.Problem = fmt.Errorf("a plugin's name is made of lower-case letters, digits, - and _: rename %s", f.File)
		} else if exe, err := findFile(Source{Plugin: name, Dir: dir}); err != nil {
			f.Problem = err
		} else {
			f.Origin = exe.origin()
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Plugin, b.Plugin) })
	return files, nil
}
