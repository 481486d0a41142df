package endpoint

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

// requestIDs are the headers in which services name a request, the one that their support asks for first: OpenAI,
// Groq, OpenRouter, Fireworks, Azure (x-request-id, apim-request-id), Anthropic (request-id), Mistral
// (mistral-correlation-id), AWS (x-amzn-requestid), and of what stands behind Cloudflare cf-ray.
var requestIDs = []string{"X-Request-Id", "Request-Id", "Apim-Request-Id", "Mistral-Correlation-Id", "X-Amzn-Requestid",
	"Cf-Ray"}

// requestID is what the upstream calls a request, "" if it has no name for it. What holds one of the endpoint's
// credentials is none: names are logged.
func (e *Endpoint) requestID(h http.Header) string {
	for _, name := range requestIDs {
		if id := e.name(h.Get(name)); id != "" {
			return id
		}
	}
	return ""
}

// name is an id as it may be kept and logged, "" for what is none.
func (e *Endpoint) name(id string) string {
	if !llm.IsReference(id) || e.holdsSecret(id) {
		return ""
	}
	return id
}

// holdsSecret reports whether a text holds what may be a credential: a word of a header's value, such as that after
// Bearer.
func (e *Endpoint) holdsSecret(text string) bool {
	const shortest = 8 // as version numbers, which are no secrets, are not
	for _, h := range e.Headers {
		for word := range strings.FieldsSeq(h.Value) {
			if len(word) >= shortest && strings.Contains(text, word) {
				return true
			}
		}
	}
	return false
}

// longestWait is the longest wait that says anything.
const longestWait = 24 * time.Hour

// retryAfter is how long the upstream asks to wait, 0 if it does not say: its header retry-after-ms (OpenAI, Azure),
// which is exact, or Retry-After (RFC 9110 section 10.2.3). Of a rate limit that says neither, the resets of what is
// used up count, the last of them.
func retryAfter(resp *http.Response) time.Duration {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, statusOverloaded:
	default:
		return 0
	}
	now := time.Now()
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = date // by the upstream's clock, as its dates are
	}
	if ms, err := strconv.ParseFloat(resp.Header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return bounded(ms / 1000)
	}
	if stated := resp.Header.Get("Retry-After"); stated != "" {
		if date, err := http.ParseTime(stated); err == nil {
			return bounded(date.Sub(now).Seconds())
		}
		return reset(stated, now)
	}
	var wait time.Duration
	for name := range resp.Header {
		left := strings.Replace(name, "-Reset", "-Remaining", 1)
		if left != name && strings.Contains(name, "Ratelimit") && resp.Header.Get(left) == "0" {
			wait = max(wait, reset(resp.Header.Get(name), now))
		}
	}
	return wait
}

// statusOverloaded is what Anthropic answers when it is too busy.
const statusOverloaded = 529

// reset reads when a limit is reset: a time to wait ("1m2.5s" of OpenAI and Groq, seconds of others), or the moment, in
// the form of RFC 3339 (Anthropic) or in seconds or milliseconds since 1970 (OpenRouter).
func reset(value string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(value); err == nil {
		return bounded(d.Seconds())
	}
	if t, err := time.Parse(time.RFC3339, value); err == nil {
		return bounded(t.Sub(now).Seconds())
	}
	n, err := strconv.ParseFloat(value, 64)
	const (
		secondsOf2001      = 1e9
		millisecondsOf2001 = 1e12
	)
	switch {
	case err != nil:
		return 0
	case n >= millisecondsOf2001:
		return bounded(n/1000 - float64(now.Unix()))
	case n >= secondsOf2001:
		return bounded(n - float64(now.Unix()))
	}
	return bounded(n)
}

// bounded is a wait from 0 to the longest. What is not a number is none.
func bounded(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, longestWait.Seconds()) * float64(time.Second))
}
