package engine

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// Draft is a configuration file that may not be written yet.
type Draft struct {
	Path string
	// Text stands in for that of the file; "" for what is in it.
	Text string
	// Env stands in for the environment. nil: os.LookupEnv.
	Env func(string) (string, bool)
}

// draftStartTimeout is how long a plugin of a draft has to start: a person waits, and no request.
const draftStartTimeout = time.Minute

func (d *Draft) options(h *host.Host) (config.Options, error) {
	o := optionsOf(h)
	o.Env = d.Env
	if d.Text == "" {
		return o, nil
	}
	abs, err := filepath.Abs(d.Path)
	if err != nil {
		return o, fmt.Errorf("finding the folder of %s: %w", d.Path, err)
	}
	o.Overlay = config.Overlay{abs: &d.Text}
	schema := o.Schema
	o.Schema = func(ctx context.Context, ref config.PluginRef) (settings.Schema, error) {
		ref.StartTimeout = max(ref.StartTimeout, draftStartTimeout)
		return schema(ctx, ref)
	}
	return o, nil
}

// Try is TryConfig of a draft.
func (d *Draft) Try(ctx context.Context, logger *slog.Logger) (*config.Config, *config.Diagnostics, error) {
	h := host.New(host.Options{Builtin: selfCommand, Logger: logger})
	defer h.Close()
	o, err := d.options(h)
	if err != nil {
		return nil, nil, err
	}
	try := tryOn(h)
	o.Try = func(ctx context.Context, ref config.PluginRef, p config.Provider) error {
		p.StartTimeout = max(p.StartTimeout, draftStartTimeout)
		return try(ctx, ref, p)
	}
	cfg, diags := config.Load(ctx, d.Path, o)
	return cfg, diags, nil
}

// Models asks the upstream of a provider of a file what it offers. It starts the provider for a moment; of a provider
// with keys, with the first of them. The rest of the file may be wrong or missing: then routes are what is yet to be
// written. known are the models that the provider's plugin knows without asking, with these settings, also beside an
// error of the upstream. An error that wraps *config.Diagnostics is of the file.
func (d *Draft) Models(ctx context.Context, name string, logger *slog.Logger) (models, known []llm.Model, err error) {
	h := host.New(host.Options{Builtin: selfCommand, Logger: logger})
	defer h.Close()
	var spec *host.Spec
	var plugin string
	o, err := d.options(h)
	if err != nil {
		return nil, nil, err
	}
	o.Try = func(ctx context.Context, r config.PluginRef, p config.Provider) error {
		if p.Name == name && spec == nil {
			plugin, spec = r.Plugin, new(specOf(r, p))
			known = config.ModelsFor(p.Settings, o.Known(ctx, r))
		}
		return nil
	}
	cfg, diags := config.Load(ctx, d.Path, o)
	switch {
	case spec == nil && cfg == nil:
		return nil, nil, fmt.Errorf("finding provider %q: %w", name, diags)
	case spec == nil:
		return nil, nil, fmt.Errorf("%s has no provider %q", d.Path, name)
	}
	if d.Text != "" {
		spec.StartTimeout = max(spec.StartTimeout, draftStartTimeout)
	}
	p, err := h.Acquire(ctx, *spec)
	if err != nil {
		return nil, known, err
	}
	defer p.Release()
	if !p.Capabilities().Models {
		return nil, known, fmt.Errorf("plugin %q cannot say what its upstream offers; write the routes of provider %q by "+
			"hand", plugin, name)
	}
	if models, err = ask(ctx, p, askFor); err != nil {
		return nil, known, fmt.Errorf("asking the upstream of provider %q for its models: %w", name, err)
	}
	return models, known, nil
}
