package gemini

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

const (
	// maxModels bounds a page of the list, in bytes: a model is about 1 KB.
	maxModels = 8 << 20
	// maxPages bounds how many are read, should a service never come to an end.
	maxPages = 100
)

// Models implements provider.ModelLister by the Gemini API (ai.google.dev/api/models, November 2026). The window is
// what a prompt may have, for the reply has a limit of its own.
func (g *Gemini) Models(ctx context.Context) ([]llm.Model, error) {
	if g.tokens != nil {
		return nil, llm.Errorf(llm.ErrRejected, "Vertex AI has no list of models with their limits; write the routes by "+
			"hand, with what cloud.google.com/vertex-ai/generative-ai/docs/models says")
	}
	models := []llm.Model{}
	query := url.Values{"pageSize": {"1000"}}
	for range maxPages {
		u := g.base.JoinPath("models")
		u.RawQuery = query.Encode()
		body, err := g.FetchUpTo(ctx, &g.endpoint, u.String(), maxModels)
		if err != nil {
			return nil, err
		}
		var page struct {
			Models *[]struct {
				Name    string   `json:"name"`
				Input   int64    `json:"inputTokenLimit"`
				Output  int64    `json:"outputTokenLimit"`
				Methods []string `json:"supportedGenerationMethods"`
			} `json:"models"`
			Next string `json:"nextPageToken"`
		}
		if json.Unmarshal(body, &page) != nil || page.Models == nil && page.Next == "" {
			return nil, &llm.Error{Kind: llm.ErrUpstream, Status: http.StatusOK,
				Message: "the upstream's list of models could not be read"}
		}
		if page.Models != nil {
			for _, m := range *page.Models {
				id := strings.TrimPrefix(m.Name, g.models)
				if id != "" && slices.Contains(m.Methods, "generateContent") {
					models = append(models, llm.Model{ID: id, ContextWindow: max(0, m.Input), MaxOutput: max(0, m.Output)})
				}
			}
		}
		if page.Next == "" {
			break
		}
		query.Set("pageToken", page.Next)
	}
	return models, nil
}

var _ provider.ModelLister = (*Gemini)(nil)
