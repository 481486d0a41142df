package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// ErrScreeningLate says that the provider that screens took longer than the operator allows.
var ErrScreeningLate = errors.New("the provider that screens took too long; raise the timeout in the screening " +
	"block, or look at the provider")

// findScreeners finds the plugins of the provider that screens.
func (g *Generation) findScreeners() (err error) {
	s := &g.Config.Screening
	if !s.On() || s.Provider == "" {
		return nil
	}
	g.screeners, err = g.judges("screening", s.Provider, "screen", "or screen by rules")
	return err
}

// judges are the plugins of a provider, one for each of its keys, which have an optional part of the protocol. block
// is where it is named, and instead what else to do.
func (g *Generation) judges(block, provider, capability, instead string) (plugins []*host.Plugin, err error) {
	for _, i := range g.plugins {
		if name, _, _ := strings.Cut(i.Name(), "/"); name != provider { // of one with keys
			continue
		}
		if !slices.Contains(i.Capabilities().Names(), capability) {
			return nil, objection{block, fmt.Sprintf("Provider %q does not %s", provider, capability),
				fmt.Sprintf("With its settings, its plugin does not have the capability %s. Change them, name another "+
					"provider, %s.", capability, instead)}
		}
		plugins = append(plugins, i.Plugin)
	}
	return plugins, nil
}

// readyOf is the first plugin that is ready, or else the first.
func readyOf(plugins []*host.Plugin) *host.Plugin {
	for _, p := range plugins {
		if p.Ready() {
			return p
		}
	}
	return plugins[0]
}

// Screen has the provider that screens judge what a model would read, within the time that the operator allows. The
// error is ErrScreeningLate or an *llm.Error.
func (g *Generation) Screen(ctx context.Context, texts []llm.ScreenText) (llm.Verdict, error) {
	p := readyOf(g.screeners)
	// The bound is no deadline, which would be a violation of the protocol: it is the operator's.
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(g.Config.Screening.Timeout, func() { cancel(ErrScreeningLate) }).Stop()
	verdict, err := p.Screen(bounded, texts)
	if err != nil && errors.Is(context.Cause(bounded), ErrScreeningLate) {
		return verdict, ErrScreeningLate
	}
	return verdict, err
}
