package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math/big"
	"net/http"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
)

type (
	// ModelLister is a provider whose upstream says which models it offers.
	ModelLister interface {
		// Models lists them, in any order. An operator asks, never a client. Errors are like those of Generate.
		Models(ctx context.Context) ([]llm.Model, error)
	}

	// ModelKnower is a provider that knows some models without asking anybody, such as the usual prices of a service.
	ModelKnower interface {
		// KnownModels are the same each time, whatever the settings; Where of each says for which settings it holds.
		KnownModels() []llm.Model
	}
)

// maxModelList bounds a list of models, in bytes. OpenRouter's, the longest that is known, has 400 models in 600 KB.
const maxModelList = 16 << 20

// ListModels asks the models endpoint beside that of an endpoint's calls, as services have it that follow OpenAI or
// Anthropic: GET .../models. query is added to the address.
func (c *Carried) ListModels(ctx context.Context, e *endpoint.Endpoint, query string) ([]llm.Model, error) {
	address, _, _ := strings.Cut(e.URL, "?")
	for _, path := range []string{"/chat/completions", "/responses", "/messages"} {
		address = strings.TrimSuffix(address, path)
	}
	body, err := c.client.FetchUpTo(ctx, e, address+"/models"+query, maxModelList)
	if err != nil {
		return nil, err
	}
	models := readModels(body)
	if models == nil {
		return nil, &llm.Error{Kind: llm.ErrUpstream, Status: http.StatusOK,
			Message: "the upstream's list of models could not be read"}
	}
	return models, nil
}

// listed is a model as services list it. What no service of a field's name says is left out.
type listed struct {
	ID string `json:"id"`

	ContextLength  int64 `json:"context_length"`     // OpenRouter, Together, Fireworks
	ContextWindow  int64 `json:"context_window"`     // Groq
	MaxContext     int64 `json:"max_context_length"` // Mistral, LM Studio
	MaxModelLen    int64 `json:"max_model_len"`      // vLLM
	MaxInput       int64 `json:"max_input_tokens"`   // Anthropic
	MaxTokens      int64 `json:"max_tokens"`         // Anthropic: of a reply
	MaxCompletions int64 `json:"max_completion_tokens"`
	Meta           struct {
		Context  int64 `json:"n_ctx"`       // llama.cpp: what it was started with
		Training int64 `json:"n_ctx_train"` // and what the model was made for
	} `json:"meta"`
	Top struct { // OpenRouter
		ContextLength  int64 `json:"context_length"`
		MaxCompletions int64 `json:"max_completion_tokens"`
	} `json:"top_provider"`
	Parameters   []string `json:"supported_parameters"` // OpenRouter
	Capabilities struct {
		Functions bool `json:"function_calling"` // Mistral
	} `json:"capabilities"`
	Pricing json.RawMessage `json:"pricing"`
}

// readModels reads a list, alone or as data; nil when it is none. A member that is no model is left out.
func readModels(body []byte) []llm.Model {
	var list []json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) { // Together
		if json.Unmarshal(body, &list) != nil {
			return nil
		}
	} else {
		var whole struct {
			Data *[]json.RawMessage `json:"data"`
		}
		if json.Unmarshal(body, &whole) != nil || whole.Data == nil {
			return nil
		}
		list = *whole.Data
	}
	models := []llm.Model{}
	seen := make(map[string]bool)
	for _, raw := range list {
		var l listed
		// A field of another type than expected leaves the others as they are.
		_ = json.Unmarshal(raw, &l)
		if l.ID == "" || seen[l.ID] {
			continue
		}
		seen[l.ID] = true
		models = append(models, l.model())
	}
	slices.SortFunc(models, func(a, b llm.Model) int { return strings.Compare(a.ID, b.ID) })
	return models
}

func (l *listed) model() llm.Model {
	m := llm.Model{ID: l.ID, Price: readPrice(l.Pricing)}
	m.ContextWindow = max(0, cmp.Or(l.Top.ContextLength, l.ContextLength, l.ContextWindow, l.MaxContext, l.MaxModelLen,
		l.MaxInput, l.Meta.Context, l.Meta.Training))
	m.MaxOutput = max(0, cmp.Or(l.Top.MaxCompletions, l.MaxCompletions, l.MaxTokens))
	if l.Capabilities.Functions {
		m.Offers = append(m.Offers, "tools")
	}
	for _, one := range [...]struct{ parameter, offer string }{
		{"tools", "tools"}, {"response_format", "json_object"}, {"structured_outputs", "json_schema"},
	} {
		if slices.Contains(l.Parameters, one.parameter) {
			m.Offers = append(m.Offers, one.offer)
		}
	}
	return m
}

// readPrice reads the price of a model: OpenRouter's is of a token, Together's of a million of them. nil: none.
func readPrice(raw json.RawMessage) *llm.ModelPrice {
	var p struct {
		Prompt     json.RawMessage `json:"prompt"`
		Completion json.RawMessage `json:"completion"`
		CacheRead  json.RawMessage `json:"input_cache_read"`
		CacheWrite json.RawMessage `json:"input_cache_write"`
		Input      json.RawMessage `json:"input"`
		Output     json.RawMessage `json:"output"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &p) != nil {
		return nil
	}
	const million = 1_000_000
	of := llm.ModelPrice{Input: perMillion(p.Prompt, million), Output: perMillion(p.Completion, million),
		CacheRead: perMillion(p.CacheRead, million), CacheWrite: perMillion(p.CacheWrite, million)}
	if of.Input == "" || of.Output == "" {
		of = llm.ModelPrice{Input: perMillion(p.Input, 1), Output: perMillion(p.Output, 1)}
	}
	if of.Input == "" || of.Output == "" {
		return nil
	}
	return &of
}

// perMillion is a price times factor as a decimal number, "" for none: OpenRouter's routers have a price of -1, which
// says that it depends.
func perMillion(raw json.RawMessage, factor int64) string {
	n, ok := new(big.Rat).SetString(strings.Trim(string(raw), `"`))
	if len(raw) == 0 || len(raw) > 32 || !ok || n.Sign() < 0 || strings.ContainsAny(string(raw), "/xX") {
		return ""
	}
	text := n.Mul(n, new(big.Rat).SetInt64(factor)).FloatString(6)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
