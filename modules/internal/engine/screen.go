package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

// ErrScreeningLate says that the provider that screens took longer than the operator allows.
var ErrScreeningLate = errors.New("the provider that screens took too long; raise the timeout in the screening " +
	"block, or look at the provider")

// findScreeners finds the plugins of the provider that screens.
func (g *Generation) findScreeners() error {
	s := &g.Config.Screening
	if !s.On() || s.Provider == "" {
		return nil
	}
	for _, i := range g.plugins {
		if name, _, _ := strings.Cut(i.Name(), "/"); name != s.Provider { // of one with keys
			continue
		}
		if !i.Capabilities().Screen {
			return objection{"screening", fmt.Sprintf("Provider %q does not screen", s.Provider), "With its settings, its " +
				"plugin does not have the capability screen. Change them, name another provider, or screen by rules."}
		}
		g.screeners = append(g.screeners, i.Plugin)
	}
	return nil
}

// Screen has the provider that screens judge what a model would read, within the time that the operator allows. The
// error is ErrScreeningLate or an *llm.Error.
func (g *Generation) Screen(ctx context.Context, texts []llm.ScreenText) (llm.Verdict, error) {
	p := g.screeners[0]
	for _, other := range g.screeners[1:] {
		if !p.Ready() {
			p = other
		}
	}
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
