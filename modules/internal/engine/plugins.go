package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/builtin"
	"github.com/fareway/fareway/plugins/host"
)

// PluginState is a plugin, with what runs of it.
type PluginState struct {
	host.Origin
	About     host.About      // zero when nothing of it has run
	Providers []ProviderState // of the current configuration; none when nothing uses it
	Problem   error           // why it cannot be used; nil when it can
	// Replaced is the sha256 of the file as it is now, where another content runs; "" where the same does.
	Replaced string
}

// ProviderState is a provider of the current configuration.
type ProviderState struct {
	host.Info
	Ready bool
	Carry config.Carry // who makes its calls
}

// Plugins lists what the current configuration can use: what it does use first, then the built-in plugins and the
// files of the plugin folder that nothing uses. The error is of the folder; the list is as whole as it can be.
func (c *configuration) Plugins() ([]PluginState, error) {
	var list []PluginState
	g, release := c.life.acquire()
	defer release()
	dir := ""
	if g != nil {
		list, dir = g.pluginStates(), g.Config.Gateway.PluginDir
	}
	used := func(o host.Origin) bool {
		return slices.ContainsFunc(list, func(p PluginState) bool { return p.Plugin == o.Plugin && p.File == o.File })
	}
	for _, name := range builtin.Names() {
		if o := (host.Origin{Plugin: name}); !used(o) {
			list = append(list, PluginState{Origin: o})
		}
	}
	if dir == "" {
		return list, nil
	}
	files, err := host.Files(dir)
	for _, f := range files {
		if !used(f.Origin) {
			list = append(list, PluginState{Origin: f.Origin, Problem: f.Problem})
		}
		for i := range list {
			if list[i].File == f.File && list[i].SHA256 != f.SHA256 {
				list[i].Replaced = f.SHA256
			}
		}
	}
	return list, err
}

// pluginStates are the plugins of the configuration's providers, by name.
func (g *Generation) pluginStates() []PluginState {
	var list []PluginState
	for _, p := range g.plugins {
		info := p.Info()
		state := ProviderState{Info: info, Ready: p.backend.Ready(), Carry: config.CarryProcess}
		if _, ok := p.backend.(carried); ok {
			state.Carry = config.CarryHost
		}
		at := slices.IndexFunc(list, func(p PluginState) bool { return p.Origin == info.Origin })
		if at < 0 {
			at = len(list)
			list = append(list, PluginState{Origin: info.Origin, About: info.About})
		}
		list[at].Providers = append(list[at].Providers, state)
	}
	slices.SortStableFunc(list, func(a, b PluginState) int { return cmp.Compare(a.Plugin, b.Plugin) })
	return list
}

// Plugin is what there is of a name: what runs before what does not. A plugin of which nothing runs is started for a
// moment, to ask it what it is. ok is false when there is none; the error is of the folder.
func (c *configuration) Plugin(ctx context.Context, name string) (state PluginState, ok bool, err error) {
	list, err := c.Plugins()
	i := slices.IndexFunc(list, func(p PluginState) bool { return p.Plugin == name })
	if i < 0 {
		return PluginState{}, false, err
	}
	state = list[i]
	if len(state.Providers) > 0 || state.Problem != nil {
		return state, true, nil
	}
	source := host.Source{Plugin: name, SHA256: state.SHA256}
	if g := c.Current(); g != nil {
		source.Dir = g.Config.Gateway.PluginDir
	}
	_, state.About, state.Problem = c.host.About(ctx, source)
	return state, true, nil
}

// AboutPlugin asks a plugin what it is, without an engine: a built-in one by its name, or a file by its path.
func AboutPlugin(ctx context.Context, o host.Options, plugin, file string) (host.Origin, host.About, error) {
	if o.Builtin == nil {
		o.Builtin = selfCommand
	}
	h := host.New(o)
	defer h.Close()
	if file != "" {
		return h.AboutFile(ctx, file, 0)
	}
	return h.About(ctx, host.Source{Plugin: plugin})
}
