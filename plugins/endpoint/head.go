package endpoint

import (
	"net/http"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/internal/reply"
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
	for _, stated := range []string{resp.Header.Get("Retry-After-Ms") + "ms", resp.Header.Get("Retry-After")} {
		if wait, ok := reply.Wait(stated, now); ok {
			return max(wait, llm.AtOnce)
		}
	}
	var wait time.Duration
	for name := range resp.Header {
		left := strings.Replace(name, "-Reset", "-Remaining", 1)
		if left != name && strings.Contains(name, "Ratelimit") && resp.Header.Get(left) == "0" {
			if until, ok := reply.Wait(resp.Header.Get(name), now); ok {
				wait = max(wait, until)
			}
		}
	}
	return wait
}

// statusOverloaded is what Anthropic answers when it is too busy.
const statusOverloaded = 529
