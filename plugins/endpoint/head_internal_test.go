package endpoint

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// headers makes an http.Header of names and values as they travel.
func headers(pairs map[string]string) http.Header {
	h := make(http.Header)
	for name, value := range pairs {
		h.Set(name, value)
	}
	return h
}

func TestWaits(t *testing.T) {
	t.Parallel()
	const date = "Sun, 22 Nov 2026 17:00:00 GMT"
	now, err := http.ParseTime(date)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"nothing":                {nil, 0},
		"RFC 9110 seconds":       {map[string]string{"Retry-After": "7"}, 7 * time.Second},
		"RFC 9110 a date":        {map[string]string{"Retry-After": "Sun, 22 Nov 2026 17:00:09 GMT"}, 9 * time.Second},
		"RFC 9110, in parts":     {map[string]string{"Retry-After": "1.5"}, 1500 * time.Millisecond},
		"GAP-139 now":            {map[string]string{"Retry-After": "0"}, llm.AtOnce},
		"GAP-139 now, exact":     {map[string]string{"retry-after-ms": "0", "Retry-After": "1"}, llm.AtOnce},
		"GAP-139 nearly now":     {map[string]string{"Retry-After": "0.0001"}, llm.AtOnce},
		"GAP-139 a date gone":    {map[string]string{"Retry-After": "Sun, 22 Nov 2026 16:59:00 GMT"}, llm.AtOnce},
		"GAP-139 half a ms":      {map[string]string{"retry-after-ms": "1500.5"}, 1500500 * time.Microsecond},
		"exact but for no sense": {map[string]string{"retry-after-ms": "soon", "Retry-After": "2"}, 2 * time.Second},
		"OpenAI and Azure, exact": {map[string]string{"retry-after-ms": "850", "Retry-After": "1"},
			850 * time.Millisecond},
		"OpenAI and Groq": {map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2.5s",
			"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "9ms"}, 62500 * time.Millisecond},
		"OpenAI, one is not used up": {map[string]string{"x-ratelimit-remaining-requests": "4",
			"x-ratelimit-reset-requests": "1m", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "9ms"},
			9 * time.Millisecond},
		"Azure": {map[string]string{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "12"},
			12 * time.Second},
		"Anthropic": {map[string]string{"anthropic-ratelimit-input-tokens-remaining": "0",
			"anthropic-ratelimit-input-tokens-reset": "2026-11-22T17:00:30Z"}, 30 * time.Second},
		"OpenRouter": {map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1795366815000"},
			time.UnixMilli(1795366815000).Sub(now)},
		"in seconds since 1970": {map[string]string{"ratelimit-remaining": "0", "ratelimit-reset": "1795366815"},
			time.Unix(1795366815, 0).Sub(now)},
		"in the past":  {map[string]string{"ratelimit-remaining": "0", "ratelimit-reset": "2001-01-01T00:00:00Z"}, 0},
		"too far":      {map[string]string{"Retry-After": "1e300"}, 24 * time.Hour},
		"for ever":     {map[string]string{"Retry-After": "Infinity"}, 0},
		"no number":    {map[string]string{"retry-after-ms": "NaN", "Retry-After": "soon"}, 0},
		"less than no": {map[string]string{"retry-after-ms": "-5", "Retry-After": "-5"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: headers(c.header)}
			resp.Header.Set("Date", date)
			require.Equal(t, max(c.want, 0), retryAfter(resp))
			resp.StatusCode = http.StatusBadRequest
			require.Zero(t, retryAfter(resp), "only a limit asks to wait")
		})
	}
	for _, status := range []int{http.StatusServiceUnavailable, statusOverloaded} {
		resp := &http.Response{StatusCode: status, Header: headers(map[string]string{"Retry-After": "3"})}
		require.Equal(t, 3*time.Second, retryAfter(resp))
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	e := &Endpoint{Headers: []Header{{Name: "Authorization", Value: "Bearer sk-zq11-zq11"},
		{Name: "X-Beta", Value: "2024"}}}
	for _, name := range requestIDs {
		require.Equal(t, "req_1", e.requestID(headers(map[string]string{name: "req_1"})))
		require.Empty(t, e.requestID(headers(map[string]string{name: "a prompt, perhaps"})))
		require.Empty(t, e.requestID(headers(map[string]string{name: string(make([]byte, llm.MaxReference+1))})))
	}
	require.Equal(t, "a", e.requestID(headers(map[string]string{"cf-ray": "b", "x-request-id": "a"})))
	require.Empty(t, e.requestID(http.Header{}))
	for id, want := range map[string]string{
		"sk-zq11-zq11": "", "req/sk-zq11-zq11/1": "", "sk-zq11-zq1": "sk-zq11-zq1", "Bearer": "Bearer",
		"req-2024": "req-2024",
	} {
		got := e.requestID(headers(map[string]string{"x-request-id": id}))
		require.Equal(t, want, got, "no credential in a log")
	}
	require.Equal(t, "b", e.requestID(headers(map[string]string{"cf-ray": "b", "x-request-id": "sk-zq11-zq11"})))
}
