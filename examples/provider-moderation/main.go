// Command fareway-provider-moderation is a provider plugin that only screens: it asks an endpoint for moderation, as
// OpenAI and others have it (https://platform.openai.com/docs/api-reference/moderations). plugins/README.md takes you
// through it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// Config is the `config` block of the operator's file.
type Config struct {
	URL    string `hcl:"url" doc:"The whole address of the endpoint, such as \"https://api.openai.com/v1/moderations\"."`
	APIKey string `hcl:"api_key,optional" secret:"true" doc:"The key of the service."`
	Model  string `hcl:"model,optional" doc:"The model that judges. Default: omni-moderation-latest."`
}

// Moderation asks the endpoint.
type Moderation struct {
	provider.ScreenerOnly
	config Config
}

// New makes a provider; the gateway fills in the operator's settings.
func New() provider.Provider { return &Moderation{config: Config{Model: "omni-moderation-latest"}} }

func (m *Moderation) Settings() any { return &m.config }

// maxReply is more than any verdict takes, in bytes.
const maxReply = 4 << 20

func (m *Moderation) Screen(ctx context.Context, texts []llm.ScreenText) (llm.Verdict, error) {
	input := make([]string, len(texts))
	for i, t := range texts {
		input[i] = t.Text
	}
	body, err := json.Marshal(map[string]any{"model": m.config.Model, "input": input})
	if err != nil {
		return llm.Verdict{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.config.URL, bytes.NewReader(body))
	if err != nil {
		return llm.Verdict{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if m.config.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+m.config.APIKey)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return llm.Verdict{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return llm.Verdict{}, &llm.Error{Kind: llm.ErrUpstream, Status: resp.StatusCode,
			Message: "the endpoint for moderation answered " + resp.Status + "; check url, api_key and model"}
	}
	return readVerdict(io.LimitReader(resp.Body, maxReply), len(texts))
}

// readVerdict reads one result for each of n texts. What is flagged in one of them blocks the request.
func readVerdict(r io.Reader, n int) (llm.Verdict, error) {
	var reply struct {
		Results []struct {
			Flagged    bool            `json:"flagged"`
			Categories map[string]bool `json:"categories"`
		} `json:"results"`
	}
	if err := json.NewDecoder(r).Decode(&reply); err != nil {
		return llm.Verdict{}, err
	}
	if len(reply.Results) != n {
		return llm.Verdict{}, errors.New("the endpoint for moderation did not judge each text")
	}
	verdict, about := llm.Verdict{Action: llm.VerdictAllow}, make(map[string]bool)
	for _, result := range reply.Results {
		if !result.Flagged {
			continue
		}
		verdict.Action = llm.VerdictBlock
		for category, yes := range result.Categories {
			if yes {
				about[category] = true
			}
		}
	}
	categories := slices.Sorted(maps.Keys(about))
	verdict.Categories = categories[:min(len(categories), 8)] // as many as a verdict may have
	return verdict, nil
}

func main() { provider.Serve(New()) }
