package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// objection is why a gateway that runs does not take a configuration that is right in itself.
type objection config.Objection

func (o objection) Error() string {
	lower := func(text string) string { return strings.ToLower(text[:1]) + text[1:] }
	return lower(o.Summary) + ": " + lower(strings.TrimSuffix(o.Detail, "."))
}

// startError is why a provider's process, or that of one of its keys, does not run.
type startError struct {
	provider, plugin string
	settings         settings.Values // that it was to have
	err              error
}

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// explain says where in its file the reasons stand for which a configuration could not be prepared: in diagnostics, as
// those of a file with mistakes. Where they do not stand in it, the error is as it was.
func (c *configuration) explain(ctx context.Context, path string, installed config.Overlay, err error) error {
	objections, starts := stated(err)
	if len(objections)+len(starts) == 0 {
		return err
	}
	o := optionsOf(c.host)
	o.Overlay, o.Objections = installed, objections
	o.Try = func(_ context.Context, _ config.PluginRef, p config.Provider) error {
		for _, s := range starts {
			if s.provider == p.Name && bytes.Equal(s.settings, p.Settings) {
				return objectionTo(s.err, s.plugin)
			}
		}
		return nil
	}
	if _, diags := config.Load(ctx, path, o); diags.HasErrors() {
		return diags
	}
	return err
}

// refusedBy are the reasons, a line for each.
func refusedBy(err error) []string {
	diags, ok := errors.AsType[*config.Diagnostics](err)
	if !ok {
		return strings.Split(err.Error(), "\n")
	}
	var list []string
	for _, d := range diags.All() {
		if d.Severity == config.SeverityError {
			list = append(list, fmt.Sprintf("%s: %s: %s", d.Position(), d.Summary, d.Detail))
		}
	}
	return list
}

// stated are the reasons that are about something in the file.
func stated(err error) (objections []config.Objection, starts []*startError) {
	type several interface {
		error
		Unwrap() []error
	}
	if all, ok := errors.AsType[several](err); ok {
		for _, one := range all.Unwrap() {
			o, s := stated(one)
			objections, starts = append(objections, o...), append(starts, s...)
		}
		return objections, starts
	}
	if o, ok := errors.AsType[objection](err); ok {
		objections = append(objections, config.Objection(o))
	}
	if s, ok := errors.AsType[*startError](err); ok {
		starts = append(starts, s)
	}
	return objections, starts
}

// objectionTo is what a plugin says of its settings, where that is why it does not start.
func objectionTo(err error, plugin string) error {
	if _, problem, ok := strings.Cut(err.Error(), fmt.Sprintf("configuring plugin %q: ", plugin)); ok {
		return errors.New(problem)
	}
	return err
}
