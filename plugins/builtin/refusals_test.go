package builtin_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/gemini"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// dialect is how requests of a dialect are written, and what all of its upstreams refuse.
type dialect struct {
	refuses func(model string) []string
	encode  func(req *llm.Request, e *endpoint.Endpoint) ([]byte, error)
}

var dialects = map[endpoint.Dialect]dialect{
	endpoint.Chat: {func(string) []string { return chat.Refuses() },
		func(req *llm.Request, e *endpoint.Endpoint) ([]byte, error) {
			return chat.EncodeFor(nil, req, chat.Service{ReturnReasoning: e.ReturnReasoning, LostCall: e.LostCall})
		}},
	endpoint.Responses: {func(string) []string { return responses.Refuses() },
		func(req *llm.Request, _ *endpoint.Endpoint) ([]byte, error) { return responses.EncodeRequest(nil, req) }},
	endpoint.Messages: {func(string) []string { return messages.Refuses() },
		func(req *llm.Request, _ *endpoint.Endpoint) ([]byte, error) {
			return messages.EncodeWith(nil, req, messages.Options{})
		}},
	endpoint.Gemini: {gemini.Refuses, func(req *llm.Request, _ *endpoint.Endpoint) ([]byte, error) {
		return gemini.EncodeRequest(nil, req, gemini.Options{})
	}},
}

// silent are the restrictions of what upstreams drop without a word, or that nothing is written of, and taken what
// some presets put otherwise although the service takes both (plugins/openai/presets.go says why).
var (
	silent = []string{"named_tool_choice", "result_errors", "strict"}
	// ofModels are those that only some models of a service refuse.
	ofModels = []string{"json_with_tools", "forced_tool_choice", "schema_root_keywords"}
	taken    = []string{"groq max_tokens", "xai max_tokens", "openrouter stream_options", "ollama forced_tool_choice",
		"/messages call_ids_over_64", "/gemini tool_names_over_64", "/gemini tool_name_symbols"}
)

// thinking are models that differ, of the services that have such.
var thinking = map[string]string{"deepseek": "deepseek-reasoner", "moonshot": "kimi-k2-thinking"}

// TestRestrictionsAreProven proves GAP-127 for each restriction of each preset and dialect: without it the service
// refuses a request, and with it takes it, or the request is known not to fit; and what a service is known to refuse
// is a restriction of its preset.
func TestRestrictionsAreProven(t *testing.T) {
	t.Parallel()
	all := services()
	for preset, model := range thinking {
		i := slices.IndexFunc(all, func(s service) bool { return s.name == preset })
		other := all[i]
		other.name, other.model = preset+" thinking", model
		all = append(all, other)
	}
	cases := providertest.Offending()
	for _, to := range all {
		if to.plugin == "bedrock" || to.plugin == "ollama" { // which write their own requests, and prove this by themselves
			continue
		}
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			_, p := to.start(t)
			to.model = cmp.Or(to.model, "m")
			name, _, _ := strings.Cut(to.name, " ")
			e, err := p.(provider.Endpointer).Endpoint(t.Context(), provider.Target{Model: to.model})
			require.NoError(t, err)
			d := dialects[e.Dialect]
			refuses := slices.Concat(d.refuses(to.model), e.Refuses)
			for _, r := range llm.Restrictions() {
				_, known := upstream.Refuses(name, r.Name)
				switch mapped := slices.Contains(refuses, r.Name); {
				case slices.Contains(silent, r.Name), !mapped && slices.Contains(ofModels, r.Name):
				case mapped:
					own := name[0] == '/' || slices.Contains(e.Refuses, r.Name)
					known = known || own && !slices.Contains(taken, name+" "+r.Name)
					prove(t, d, e, refuses, r.Name, to.model, cases[r.Name], known)
				default:
					require.False(t, known, "%s is refused by the service", r.Name)
				}
			}
		})
	}
}

// prove sends requests that run into a restriction, with and without it. known: the service refuses it.
func prove(t *testing.T, d dialect, e *endpoint.Endpoint, refuses []string, restriction, model string,
	offending []llm.Request, known bool) {
	t.Helper()
	require.NotEmpty(t, offending, restriction)
	without := slices.DeleteFunc(slices.Clone(refuses), func(name string) bool { return name == restriction })
	for _, req := range offending {
		req.Model, req.MaxTokens = model, 100
		sent := written(t, &req, d, e, refuses)
		if sent == nil {
			require.True(t, unfit(&req, refuses), restriction)
		} else {
			require.Equal(t, http.StatusOK, post(t, e, sent), "%s: %s", restriction, sent)
		}
		bare := written(t, &req, d, e, without)
		if bare == nil || bytes.Equal(sent, bare) || !known { // another restriction says it as well
			continue
		}
		require.Equal(t, http.StatusBadRequest, post(t, e, bare), "%s: %s", restriction, bare)
	}
}

// written is a request as it goes to an upstream that refuses that, nil for one that cannot be written.
func written(t *testing.T, req *llm.Request, d dialect, e *endpoint.Endpoint, refuses []string) []byte {
	asked := *req
	asked.Unsupported = refuses
	fit, _, err := conform.Request(&asked, nil)
	if llm.KindOf(err) == llm.ErrUnfit {
		return nil
	}
	require.NoError(t, err)
	b, err := d.encode(fit, e)
	if err != nil {
		return nil
	}
	return b
}

// unfit reports whether an upstream that refuses that cannot carry a request.
func unfit(req *llm.Request, refuses []string) bool {
	return req.ForcesCall() && slices.Contains(refuses, llm.RefusesForcedChoice) ||
		req.FormatsWithTools() && slices.Contains(refuses, llm.RefusesJSONWithTools)
}

func post(t *testing.T, e *endpoint.Endpoint, body []byte) int {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, e.URL, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for _, h := range e.Headers {
		req.Header.Set(h.Name, h.Value)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}
