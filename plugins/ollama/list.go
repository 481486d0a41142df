package ollama

import (
	"context"
	"net/http"
	"slices"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// maxListed bounds of how many models a description is asked for.
const maxListed = 200

// Models implements provider.ModelLister: the models that are pulled (API reference, "List models"), each with what it
// was trained for and what it can do. Those that only embed are left out. A model's window is never more than num_ctx.
func (o *Ollama) Models(ctx context.Context) ([]llm.Model, error) {
	root, err := o.ask(ctx, http.MethodGet, "/api/tags", "", "")
	if err != nil {
		return nil, err
	}
	models := []llm.Model{}
	for _, entry := range root.Get("models").Elems() {
		name, _ := entry.Get("name").Str()
		if name == "" || len(models) >= maxListed {
			continue
		}
		m, _, err := o.describe(ctx, name)
		if ctx.Err() != nil {
			return models, err
		}
		if err != nil { // it is being removed, or its files are damaged: the others are there
			models = append(models, llm.Model{ID: name})
			continue
		}
		if m.told && !slices.Contains(m.can, "completion") {
			continue
		}
		one := llm.Model{ID: name, ContextWindow: m.limit}
		if o.settings.NumCtx > 0 && (m.limit == 0 || o.settings.NumCtx < m.limit) {
			one.ContextWindow = o.settings.NumCtx
		}
		if slices.Contains(m.can, "tools") {
			one.Offers = append(one.Offers, "tools")
		}
		// Ollama itself keeps replies to the form, of whatever model (API reference, "format").
		one.Offers = append(one.Offers, "json_object", "json_schema")
		models = append(models, one)
	}
	return models, nil
}

var _ provider.ModelLister = (*Ollama)(nil)
