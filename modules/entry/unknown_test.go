package entry

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/gateway"
)

// TestUnknownPaths: the 404 of GAP-02 says what is wrong. Only what shows that a base URL is wrong blames it.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	const list = "What is offered: GET /v1/account, GET /v1/models, GET /v1/models/{id}, POST /v1/chat/completions, " +
		"POST /v1/messages, POST /v1/messages/count_tokens, POST /v1/responses."
	const baseURL = "check the base URL"
	for _, tt := range []struct {
		name, text string
		requests   []string
	}{
		{"what is not offered", list, []string{
			"POST /v1/embeddings", "POST /v1/completions", "POST /v1/responses/compact", "POST /v1/responses/input_tokens",
			"GET /v1/responses/resp_1", "GET /v1/responses/resp_1/input_items", "POST /v1/responses/resp_1/cancel",
			"GET /v1/chat/completions/chatcmpl-1", "GET /v1/chat/completions/chatcmpl-1/messages", "GET /favicon.ico",
			"POST /v1/threads/thread_1/messages", "POST /v1/messages/batches", "GET /messages/batches/b/results",
			"POST /v1/complete", "GET /v1/files", "POST /v1/audio/speech", "POST /v1/images/generations", "POST /embeddings",
			"POST /completions", "POST /responses/compact", "POST /v1/moderations", "GET /v1/realtime", "GET /robots.txt",
			"POST /v1/v1/embeddings", "POST /v1/rerank", "GET /v1/responses/resp_1/messages",
			"POST /v1/chat/completion", "POST /v1/message", "POST /v1beta/models/gemini-3:generateContent", "POST /api/chat",
			"GET /metrics", "GET /v1/usage", "GET /v1/accounts", "GET /v1/organization/usage/completions",
		}},
		{"GAP-04 paths are exact", "paths are exact", []string{
			"GET /v1/models/service/auto/", "GET /v1/models/", "GET /v1/models//service/auto", "GET //v1/models",
			"POST /v1//chat/completions", "POST /v1/messages/", "POST /V1/Chat/Completions", "POST /chat/completions//",
			"POST /v1/responses%20", "POST /v1/responses%0A", "POST /v1/./responses", "POST /Messages/count_tokens/",
		}},
		{"GEN-01 a wrong base URL", baseURL, []string{
			"GET /", "GET /v1", "GET /v1/", "GET /api/v1", "POST /responses", "POST /responses/", "GET /account",
			"GET /v1/v1/models", "GET /v1/v1/models/service/auto", "POST /v1/v1/messages", "POST /openai/responses",
			"POST /v1/v1/messages/", "POST /v1/v1/messages/count_tokens", "POST /api/v1/chat/completions",
			"POST /openai/v1/responses", "POST /v1%0A/chat/completions", "POST /v1/chat/completions/chat/completions",
			"POST /v1/responses/responses", "POST /v1/messages/v1/messages", "POST /v2/chat/completions", "GET /api/models",
			"POST /openai/deployments/auto/chat/completions", "GET /v1/chat/completions/models", "POST /api/v1/messages",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, request := range tt.requests {
				message := unknown(t, request)
				method, raw, _ := strings.Cut(request, " ")
				asked, err := url.PathUnescape(raw)
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(message,
					"There is no "+method+" "+asked+" here. Trying again does not help: "), message)
				require.Contains(t, message, tt.text)
				require.Equal(t, tt.text == baseURL, strings.Contains(message, baseURL), message)
			}
		})
	}
	t.Run("GAP-04 the path that is meant", func(t *testing.T) {
		t.Parallel()
		for asked, meant := range map[string]string{
			"/v1/models/service/auto/": "/v1/models/service/auto", "//v1/models": "/v1/models",
			"/v1/models/Service//Auto": "/v1/models/Service/Auto", "/V1/Responses": "/v1/responses",
		} {
			require.Contains(t, unknown(t, "GET "+asked), "if "+meant+" is meant", asked)
		}
	})
}

// unknown is the text of the 404 for a request, "METHOD /path".
func unknown(t *testing.T, request string) string {
	t.Helper()
	table, err := newTable(all)
	require.NoError(t, err)
	method, path, _ := strings.Cut(request, " ")
	var call gateway.Call
	r := httptest.NewRequest(method, "https://gateway.test"+path, http.NoBody)
	refusal := table.find(r, &call)
	require.NotNil(t, refusal, request)
	require.Equal(t, http.StatusNotFound, refusal.Status, request)
	require.NotContains(t, refusal.Message, "model_not_found")
	return refusal.Message
}
