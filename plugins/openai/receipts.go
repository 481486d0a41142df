package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// maxAttempts bounds the attempts whose receipts can be asked for.
const maxAttempts = 10_000

// attempts are what the service calls the replies of attempts, the latest of them.
type attempts struct {
	mu    sync.Mutex
	names map[string]string // by attempt
	order []string
}

func (a *attempts) note(attempt, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.names == nil {
		a.names = make(map[string]string)
	}
	if _, known := a.names[attempt]; !known {
		a.order = append(a.order, attempt)
	}
	a.names[attempt] = name
	if len(a.order) > maxAttempts {
		delete(a.names, a.order[0])
		a.order = a.order[1:]
	}
}

func (a *attempts) name(attempt string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names[attempt]
}

// GivesReceipts implements provider.SometimesReceipter: of the services that have a preset, OpenRouter keeps records.
func (o *OpenAI) GivesReceipts() bool { return presets[o.settings.Preset].generations }

// Attempted implements provider.AttemptObserver.
func (o *OpenAI) Attempted(_ context.Context, made []provider.Attempt) {
	for _, a := range made {
		if a.ReplyID != "" {
			o.made.note(a.ID, a.ReplyID)
		}
	}
}

// Receipts implements provider.Receipter, by OpenRouter's records of generations
// (openrouter.ai/docs/api/api-reference/generations/get-generation, November 2026): a moment after a reply's end they
// say what it used, in the tokens of its model, also where its stream broke.
func (o *OpenAI) Receipts(ctx context.Context, ids []string) ([]provider.Receipt, error) {
	var receipts []provider.Receipt
	var problems []error
	for _, attempt := range ids {
		name := o.made.name(attempt)
		if name == "" || !o.GivesReceipts() {
			continue
		}
		address := strings.TrimSuffix(o.endpoint.URL, "/chat/completions") + "/generation?id=" + url.QueryEscape(name)
		body, err := o.Fetch(ctx, &o.endpoint, address)
		var failed *llm.Error
		switch {
		case errors.As(err, &failed) && failed.Status == http.StatusNotFound: // not yet
		case err != nil:
			problems = append(problems, err)
		default:
			if usage := used(body); usage != nil {
				receipts = append(receipts, provider.Receipt{Attempt: attempt, Usage: *usage})
			}
		}
	}
	return receipts, errors.Join(problems...)
}

// used reads a record of a generation, nil for one that does not say what was used. What was read from a cache is a
// part of the prompt there, and what was thought a part of the completion.
func used(body []byte) *llm.Usage {
	var record struct {
		Data struct {
			Prompt     *int64 `json:"native_tokens_prompt"`
			Completion *int64 `json:"native_tokens_completion"`
			Reasoning  *int64 `json:"native_tokens_reasoning"`
			Cached     *int64 `json:"native_tokens_cached"`
		} `json:"data"`
	}
	d := &record.Data
	if json.Unmarshal(body, &record) != nil || d.Prompt == nil || d.Completion == nil {
		return nil
	}
	for _, n := range []*int64{d.Prompt, d.Completion, d.Reasoning, d.Cached} {
		if llm.Tokens(n) < 0 || llm.Tokens(n) > llm.MaxCount {
			return nil
		}
	}
	usage := &llm.Usage{Input: d.Prompt, Output: d.Completion, Reasoning: d.Reasoning}
	if d.Cached != nil {
		cached := min(*d.Cached, *d.Prompt)
		usage.Input, usage.CacheRead = llm.Count(*d.Prompt-cached), &cached
	}
	return usage
}

var (
	_ provider.SometimesReceipter = (*OpenAI)(nil)
	_ provider.AttemptObserver    = (*OpenAI)(nil)
)
