package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// modelsTimeout bounds asking an upstream what it offers.
const modelsTimeout = time.Minute

// Models asks the upstream of a provider of the file at path what it offers. It starts the provider for a moment; of a
// provider with keys, with the first of them. The rest of the file may be wrong or missing: then routes are what is yet
// to be written. known are the models that the provider's plugin knows without asking, with these settings. An error
// that wraps *config.Diagnostics is of the file.
func Models(ctx context.Context, path, name string, logger *slog.Logger) (models, known []llm.Model, err error) {
	h := host.New(host.Options{Builtin: selfCommand, Logger: logger})
	defer h.Close()
	var spec *host.Spec
	var ref config.PluginRef
	var asked config.Provider
	o := optionsOf(h)
	o.Try = func(_ context.Context, r config.PluginRef, p config.Provider) error {
		if p.Name == name && spec == nil {
			ref, asked = r, p
			spec = new(specOf(r, p))
		}
		return nil
	}
	cfg, diags := config.Load(ctx, path, o)
	switch {
	case spec == nil && cfg == nil:
		return nil, nil, fmt.Errorf("finding provider %q: %w", name, diags)
	case spec == nil:
		return nil, nil, fmt.Errorf("%s has no provider %q", path, name)
	}
	p, err := h.Acquire(ctx, *spec)
	if err != nil {
		return nil, nil, err
	}
	defer p.Release()
	if !p.Capabilities().Models {
		return nil, nil, fmt.Errorf("plugin %q cannot say what its upstream offers; write the routes of provider %q by hand",
			ref.Plugin, name)
	}
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	models, err = p.Models(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the upstream of provider %q for its models: %w", name, err)
	}
	return models, config.ModelsFor(asked.Settings, p.Info().About.Models), nil
}
