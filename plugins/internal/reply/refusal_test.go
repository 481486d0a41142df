package reply_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

func TestRefusalsOfChat(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		body   string
		want   llm.ErrorKind
	}{
		{400, `{"error":{"code":"context_length_exceeded","message":"m"}}`, llm.ErrContext},
		{400, `{"object":"error","message":"This model's maximum context length is 8192 tokens.","code":400}`,
			llm.ErrContext},
		{400, `{"error":{"code":400,"type":"exceed_context_size_error","message":"m"}}`, llm.ErrContext},
		{400, `{"error":{"code":"content_policy_violation"}}`, llm.ErrPolicy},
		{400, `{"error":{"code":"content_filter"}}`, llm.ErrPolicy},
		{400, `{"error":{"code":"invalid_prompt"}}`, llm.ErrPolicy},
		{403, `{"error":{"type":"moderation_error"}}`, llm.ErrPolicy},
		{400, `{"error":{"type":"invalid_request_error"}}`, llm.ErrRejected},
		{404, `{"error":{"message":"model not found"}}`, llm.ErrRejected},
		{422, `no JSON`, llm.ErrRejected},
		{401, ``, llm.ErrCredentials},
		{402, ``, llm.ErrQuota},
		{429, `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`, llm.ErrQuota},
		{429, `{"error":{"type":"exceeded_current_quota_error"}}`, llm.ErrQuota},
		{429, `{"error":{"code":"rate_limit_exceeded","message":"Check your plan and billing details."}}`, llm.ErrCapacity},
		{400, `{"error":{"code":"billing_hard_limit_reached"}}`, llm.ErrQuota},
		{403, `{"error":{"message":"Key limit exceeded (total limit)","code":403}}`, llm.ErrQuota},
		{403, `{"error":"Your newly created team doesn't have any credits yet."}`, llm.ErrQuota},
		{400, `{"error":{"message":"'key limit exceeded, your credit balance is too low' is no role"}}`, llm.ErrRejected},
		{500, `{"error":{"code":"insufficient_quota"}}`, llm.ErrUpstream},
		{200, `{"error":{"code":"insufficient_quota"}}`, llm.ErrQuota},
		{403, `{}`, llm.ErrCredentials},
		{429, `{"error":{"code":"context_length_exceeded"}}`, llm.ErrContext},
		{408, ``, llm.ErrUpstream},
		{500, `{"error":{"message":"context length"}}`, llm.ErrUpstream},
		{503, `[1`, llm.ErrUpstream},
		{302, ``, llm.ErrUpstream},
		{200, `{"error":{"type":"rate_limit_error"}}`, llm.ErrCapacity},
		{200, `{"error":{"code":"invalid_api_key"}}`, llm.ErrCredentials},
		{200, `{"error":{"type":"invalid_request_error"}}`, llm.ErrRejected},
	} {
		e := reply.Refusal(test.status, "", []byte(test.body))
		require.Equal(t, test.want, e.Kind, "%d %s", test.status, test.body)
		require.Equal(t, test.status, e.Status)
	}
}

func TestRefusalKeepsSecretsOutOfTheLog(t *testing.T) {
	t.Parallel()
	key := "sk-proj-0123456789abcdef0123456789"
	e := reply.Refusal(400, "", []byte(`{"error":{"type":"invalid_request_error","code":"`+key+
		`","param":"messages[0].content",`+
		`"message":"bad key `+key+` in: a prompt"}}`))
	require.Equal(t, "rejected: the upstream answered with an error (invalid_request_error, messages[0].content) "+
		"(status 400)", e.Error())
	e = reply.Refusal(401, "", []byte(`{"error":{"code":"invalid_api_key","message":"Incorrect API key: sk-12"}}`))
	require.Equal(t, "credentials: the upstream answered with an error (invalid_api_key) (status 401)", e.Error())
}

func TestRefusalRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a clock that stands still
		for value, want := range map[string]time.Duration{
			"": 0, "7": 7 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "soon": 0, "NaN": 0, "1e30": 24 * time.Hour,
			"0": llm.AtOnce, "0.0001": llm.AtOnce, // GAP-139: now is not the same as nothing
			time.Now().Add(90 * time.Second).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"): 90 * time.Second,
			"Sun, 06 Nov 1994 08:49:37 GMT": llm.AtOnce,
		} {
			require.Equal(t, want, reply.Refusal(429, value, nil).RetryAfter, value)
		}
		require.Zero(t, reply.Refusal(503, "7", nil).RetryAfter)
	})
}

func TestRefusalsOfGemini(t *testing.T) {
	t.Parallel()
	const detail = `{"@type":"type.googleapis.com/google.rpc.`
	for name, c := range map[string]struct {
		status     int
		retryAfter string
		body       string
		kind       llm.ErrorKind
		wait       time.Duration
		message    string
	}{
		"a key": {400, "", `{"code":400,"message":"API key not valid. sk-zq11","status":"INVALID_ARGUMENT",` +
			`"details":[` + detail + `ErrorInfo","reason":"API_KEY_INVALID"}]}`, llm.ErrCredentials, 0,
			"(INVALID_ARGUMENT, API_KEY_INVALID)"},
		"a key, in words": {400, "", `{"message":"API key expired. Please renew","status":"INVALID_ARGUMENT"}`,
			llm.ErrCredentials, 0, "(INVALID_ARGUMENT)"},
		"a token":    {401, "", `{"status":"UNAUTHENTICATED"}`, llm.ErrCredentials, 0, "(UNAUTHENTICATED)"},
		"no right":   {403, "", `{"status":"PERMISSION_DENIED"}`, llm.ErrCredentials, 0, "(PERMISSION_DENIED)"},
		"no billing": {400, "", `{"status":"FAILED_PRECONDITION"}`, llm.ErrCredentials, 0, "(FAILED_PRECONDITION)"},
		"a field": {400, "", `{"status":"INVALID_ARGUMENT","details":[` + detail + `BadRequest",` +
			`"fieldViolations":[{"field":"contents[0].parts"}]}]}`, llm.ErrRejected, 0, "(INVALID_ARGUMENT, contents[0].parts)"},
		"a model": {404, "", `{"status":"NOT_FOUND"}`, llm.ErrRejected, 0, "(NOT_FOUND)"},
		"too long": {400, "", `{"status":"INVALID_ARGUMENT","message":"The input token count (9) exceeds the ` +
			`maximum number of tokens allowed (8)."}`, llm.ErrContext, 0, "(INVALID_ARGUMENT)"},
		"too large": {400, "", `{"status":"INVALID_ARGUMENT",` +
			`"message":"Request payload size exceeds the limit: 20971520 bytes."}`,
			llm.ErrContext, 0, "(INVALID_ARGUMENT)"},
		"larger yet": {413, "", `{}`, llm.ErrContext, 0, "error"},
		"a limit": {429, "", `{"status":"RESOURCE_EXHAUSTED","details":[` + detail + `QuotaFailure","violations":[` +
			`{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},` + detail + `RetryInfo","retryDelay":"36.5s"}]}`,
			llm.ErrCapacity, 36500 * time.Millisecond, "(RESOURCE_EXHAUSTED)"},
		"a limit for ever": {429, "", `{"status":"RESOURCE_EXHAUSTED","details":[` + detail +
			`RetryInfo","retryDelay":"99999999s"}]}`, llm.ErrCapacity, 24 * time.Hour, "(RESOURCE_EXHAUSTED)"},
		"a limit in the past": {429, "", `{"status":"RESOURCE_EXHAUSTED","details":[` + detail +
			`RetryInfo","retryDelay":"-3s"}]}`, llm.ErrCapacity, 0, "(RESOURCE_EXHAUSTED)"},
		"GAP-139 a limit that is over": {429, "", `{"status":"RESOURCE_EXHAUSTED","details":[` + detail +
			`RetryInfo","retryDelay":"0s"}]}`, llm.ErrCapacity, llm.AtOnce, "(RESOURCE_EXHAUSTED)"},
		"the day's quota": {429, "", `{"status":"RESOURCE_EXHAUSTED","details":[` + detail + `QuotaFailure","violations":[` +
			`{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"},{"quotaId":"x"}]},` + detail +
			`RetryInfo","retryDelay":"36s"}]}`, llm.ErrQuota, 0, "(RESOURCE_EXHAUSTED)"},
		"the day's quota, otherwise": {429, "", `{"status":"RESOURCE_EXHAUSTED","details":[` + detail +
			`ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"RequestsPerDay"}}]}`, llm.ErrQuota, 0,
			"(RESOURCE_EXHAUSTED, RATE_LIMIT_EXCEEDED)"},
		"overloaded": {503, "", `{"status":"UNAVAILABLE"}`, llm.ErrUpstream, 0, "(UNAVAILABLE)"},
		"a limit, made something else on the way": {403, "", `{"code":429,"status":"RESOURCE_EXHAUSTED"}`, llm.ErrCapacity,
			0, "(RESOURCE_EXHAUSTED)"},
		"too slow":          {504, "", `{"status":"DEADLINE_EXCEEDED"}`, llm.ErrUpstream, 0, "(DEADLINE_EXCEEDED)"},
		"no word":           {400, "", `{}`, llm.ErrRejected, 0, "error"},
		"no word, a limit":  {429, "", `{}`, llm.ErrCapacity, 0, "error"},
		"no word, no right": {403, "", `{}`, llm.ErrCredentials, 0, "error"},
		"no word, its own":  {500, "", `{}`, llm.ErrUpstream, 0, "error"},
		"a proxy's":         {429, "7", `"sk-zq11"`, llm.ErrCapacity, 7 * time.Second, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, body := range []string{`{"error":` + c.body + `}`, `[{"error":` + c.body + `}]`} {
				e := reply.Refusal(c.status, c.retryAfter, []byte(body))
				require.Equal(t, c.kind, e.Kind)
				require.Equal(t, c.status, e.Status)
				require.Equal(t, c.wait, e.RetryAfter)
				require.Contains(t, e.Message, c.message)
				require.NotContains(t, e.Message, "zq11")
			}
		})
	}
	require.Equal(t, llm.ErrUpstream, reply.Refusal(502, "", []byte("<html>")).Kind)
}

func TestRefusalsOfMessages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status     int
		kind, text string
		want       llm.ErrorKind
	}{
		{400, "invalid_request_error", "messages: field required", llm.ErrRejected},
		{400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", llm.ErrContext},
		{400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000",
			llm.ErrContext},
		{400, "invalid_request_error", "Output blocked by content filtering policy", llm.ErrPolicy},
		{400, "invalid_request_error", "Your credit balance is too low to access the API.", llm.ErrQuota},
		{402, "billing_error", "a text", llm.ErrQuota},
		{401, "authentication_error", "invalid x-api-key", llm.ErrCredentials},
		{403, "permission_error", "a text", llm.ErrCredentials},
		{404, "not_found_error", "model: m", llm.ErrRejected},
		{413, "request_too_large", "a text", llm.ErrContext},
		{429, "rate_limit_error", "a text", llm.ErrCapacity},
		{500, "api_error", "a text", llm.ErrUpstream},
		{529, "overloaded_error", "Overloaded", llm.ErrCapacity},
	} {
		e := reply.Refusal(tt.status, "7", []byte(`{"type":"error","error":{"type":"`+tt.kind+`","message":"`+tt.text+
			`"}}`))
		require.Equal(t, tt.want, e.Kind, tt.text)
		require.Equal(t, tt.status, e.Status)
		require.Contains(t, e.Message, tt.kind)
		require.NotContains(t, e.Message, tt.text)
		require.Equal(t, tt.want == llm.ErrCapacity || tt.want == llm.ErrQuota, e.RetryAfter > 0)
	}
}

// TestRefusedSettings: the operator reads which setting of the route mends a refusal.
func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`: "stream_options",
		`{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use ` +
			`'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}`: "max_tokens",
		`{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model.",` +
			`"param":"temperature"}}`: "temperature",
		`{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`: "",
		`{"error":{"message":"max_tokens must be at least 1"}}`:                                                          "",
		`{"error":{"message":"unknown model stream_optionsx"}}`:                                                          "",
	} {
		e := reply.Refusal(400, "", []byte(body))
		if want == "" {
			require.NotContains(t, e.Message, "unsupported = ", body)
			continue
		}
		require.Equal(t, llm.ErrRejected, e.Kind, body)
		require.Contains(t, e.Message, `unsupported = ["`+want+`"]`, body)
	}
}
