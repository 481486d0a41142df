package admin

import (
	"net/http"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/plugins/host"
)

// plugins lists the plugins: those that run, those that are built in, and the files of plugin_dir.
func (a *API) plugins(*http.Request) (any, error) {
	states, err := a.engine.Plugins()
	if err != nil {
		return nil, err
	}
	list := make([]Plugin, len(states))
	for i, p := range states {
		list[i] = viewPlugin(p)
	}
	return list, nil
}

// plugin shows one, with its settings.
func (a *API) plugin(r *http.Request) (any, error) {
	name := r.PathValue("name")
	state, ok, err := a.engine.Plugin(r.Context(), name)
	switch {
	case ok:
	case err != nil:
		return nil, err
	default:
		return nil, a.noPlugin(name)
	}
	v := viewPlugin(state)
	v.Settings = new(ViewSchema(state.About.Schema))
	return v, nil
}

// noPlugin says which there are. A provider's name is a mistake that is easily made.
func (a *API) noPlugin(name string) error {
	states, _ := a.engine.Plugins() // what it could not list is not there to be named
	var names []string
	for _, p := range states {
		names = append(names, p.Plugin)
		for _, provider := range p.Providers {
			if provider.Provider == name {
				return problem(http.StatusNotFound, "there is no plugin %q: the provider %q runs the plugin %q", name, name,
					p.Plugin)
			}
		}
	}
	if near := config.Nearest(name, names); near != "" {
		return problem(http.StatusNotFound, "there is no plugin %q: did you mean %q?", name, near)
	}
	return problem(http.StatusNotFound, "there is no plugin %q: there are %s", name, strings.Join(names, ", "))
}

func viewPlugin(p engine.PluginState) Plugin {
	v := Plugin{Name: p.Plugin, Builtin: p.File == "", File: p.File, SHA256: p.SHA256, ReplacedBy: p.Replaced,
		Version: p.About.Version, Capabilities: p.About.Capabilities.Names(), Providers: []PluginProvider{}}
	if p.Problem != nil {
		v.Problem = p.Problem.Error()
	}
	for _, s := range p.Providers {
		v.Providers = append(v.Providers, PluginProvider{Name: s.Provider, State: string(s.State), Ready: s.Ready,
			Problem: s.Problem, Carry: string(s.Carry), PID: s.PID, Started: optionalTime(s.Started), MemoryBytes: s.Memory,
			MaxMemoryBytes: s.MaxMemory, Confined: append([]string{}, s.Confine.InForce()...), Unconfined: s.Confine.Missing(),
			Streams: s.Streams, Restarts: s.Restarts, Failures: byName(s.Failures),
			LastCrash: viewCrash(s.Crash), Violations: byName(s.Violations), LastViolation: s.Violation})
	}
	return v
}

func viewCrash(c *host.Crash) *Crash {
	if c == nil {
		return nil
	}
	return &Crash{At: c.At.UTC(), Cause: string(c.Cause), Why: c.Why}
}

// byName are counts by a name; nil when there are none.
func byName[K ~string](counts map[K]int) map[string]int {
	var named map[string]int
	for k, n := range counts {
		if named == nil {
			named = make(map[string]int)
		}
		named[string(k)] = n
	}
	return named
}
