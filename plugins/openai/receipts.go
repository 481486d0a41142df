package openai

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// generationHeader is where OpenRouter says the id of a reply before its body.
const generationHeader = "X-Generation-Id"

// recorded is how OpenRouter counts in its records of generations: what was read from a cache is a part of the prompt,
// and what was thought one of the completion.
var recorded = reply.Counting{Input: "native_tokens_prompt", Output: "native_tokens_completion"}

// GivesReceipts implements provider.SometimesReceipter: of the services that have a preset, OpenRouter keeps records.
func (o *OpenAI) GivesReceipts() bool { return presets[o.settings.Preset].generations }

// Receipts implements provider.Receipter, by OpenRouter's records of generations
// (openrouter.ai/docs/api/api-reference/generations/get-generation, November 2026): a moment after a reply's end they
// say what it used, in the tokens of its model, also where its stream broke. They are found by the ids of replies.
func (o *OpenAI) Receipts(ctx context.Context, attempts []provider.Attempt) ([]provider.Receipt, error) {
	var receipts []provider.Receipt
	var problems []error
	for _, a := range attempts {
		if a.Reference == "" || !o.GivesReceipts() {
			continue
		}
		address := strings.TrimSuffix(o.endpoint.URL, "/chat/completions") + "/generation?id=" + url.QueryEscape(a.Reference)
		body, err := o.Fetch(ctx, &o.endpoint, address)
		var failed *llm.Error
		switch {
		case errors.As(err, &failed) && failed.Status == http.StatusNotFound: // not yet
		case err != nil:
			problems = append(problems, err)
		default:
			if usage := parseGeneration(body); usage != nil {
				receipts = append(receipts, provider.Receipt{Attempt: a.ID, Usage: *usage})
			}
		}
	}
	return receipts, errors.Join(problems...)
}

// parseGeneration reads a record of a generation, nil for one that does not say what was used.
func parseGeneration(body []byte) *llm.Usage {
	record, err := reply.Parse(body)
	if err != nil {
		return nil
	}
	if usage := recorded.Read(record.Get("data")); usage.Complete() {
		return usage
	}
	return nil
}

var _ provider.SometimesReceipter = (*OpenAI)(nil)
