package reply

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	maxErrorWord  = 48             // bytes of a word that an upstream's code, type or param may be
	maxRetryAfter = 24 * time.Hour // a longer wait is no information
)

// Refusal makes a typed error of an upstream's reply that is not a 2xx: its status, its Retry-After header
// ("" if there is none; seconds or a date, RFC 9110 section 10.2.3) and its body, in whatever form.
func Refusal(status int, retryAfter string, body []byte) *llm.Error {
	root, _ := jsonview.Parse(body, maxDepth) // what is no JSON says nothing
	failure := root.Get("error")
	if !failure.Set() {
		failure = root
	}
	e := Failure(status, failure)
	if e.Kind == llm.ErrCapacity || e.Kind == llm.ErrQuota {
		e.RetryAfter = readRetryAfter(retryAfter)
	}
	return e
}

// Failure makes a typed error of an error object: its code, type, message and param, of which a family may
// have only some. status is that of the reply; 0 for an error inside a 200, which may name a status as its
// code.
func Failure(status int, failure jsonview.View) *llm.Error {
	code, _ := failure.Get("code").Str()
	kind, _ := failure.Get("type").Str()
	message, ok := failure.Get("message").Str()
	if !ok {
		message, _ = failure.Str() // some send nothing but a string
	}
	if n, ok := failure.Get("code").Int(); ok && status == 0 && 400 <= n && n < 600 {
		status = int(n)
	}
	param, _ := failure.Get("param").Str()
	return &llm.Error{Kind: classify(status, code, kind, message), Status: status,
		Message: LogText("the upstream answered with an error", code, kind, param)}
}

// says reports whether a text has one of the parts.
func says(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// outOfQuota tells an account whose quota or credit is used up from a rate limit (429) and from a wrong key (401, 403):
// by 402 (OpenRouter, DeepSeek, Together), by its code (OpenAI and who follows it, as 429; Anthropic's billing_error),
// and by the sentence of services that say it nowhere else: Anthropic's (400), xAI's and OpenRouter's for a key with a
// limit of its own (403). A 400 may repeat the request, so only how it begins counts.
func outOfQuota(status int, names, message string) bool {
	return status == http.StatusPaymentRequired ||
		says(names, "insufficient_quota", "billing", "current_quota", "insufficient_balance", "insufficient_credit") ||
		strings.HasPrefix(message, "your credit balance is too low") ||
		status == http.StatusForbidden &&
			says(message, "have any credits", "used all available credits", "key limit exceeded")
}

// classify tells the kinds apart by what the known upstreams say. Codes and types are compared by a telling
// part; messages only for what some say nowhere else: lengths, quotas, and what services of the messages family say of
// their content policy, which they call an invalid request.
func classify(status int, code, kind, message string) llm.ErrorKind {
	names := strings.ToLower(code + " " + kind)
	message = strings.ToLower(message)
	refused := status == 0 || 400 <= status && status < 500 && status != http.StatusTooManyRequests
	switch {
	case refused && (says(names, "content_filter", "content_policy", "moderation", "responsibleai", "invalid_prompt",
		"bio_policy", "policy_violation") || says(message, "content filtering policy")):
		return llm.ErrPolicy
	case refused && (says(names, "context_length", "context_size", "context_window") ||
		says(message, "context length", "context window", "context size", "context limit", "prompt is too long")):
		return llm.ErrContext
	case status < 500 && outOfQuota(status, names, message):
		return llm.ErrQuota
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return llm.ErrCredentials
	case status == http.StatusTooManyRequests:
		return llm.ErrCapacity
	case status == http.StatusRequestTimeout, status >= 500:
		return llm.ErrUpstream
	case status >= 400:
		return llm.ErrRejected
	}
	switch {
	case says(names, "rate_limit"):
		return llm.ErrCapacity
	case says(names, "authentication", "invalid_api_key", "permission"):
		return llm.ErrCredentials
	case says(names, "invalid_request", "badrequest", "bad_request", "not_found", "request_too_large"):
		return llm.ErrRejected
	}
	return llm.ErrUpstream
}

// LogText is what the operator reads: what happened and, in brackets, the upstream's words for it, such as its code and
// the field that it objects to, as far as they are words. Its message is left out, for services repeat prompts and keys
// in it.
func LogText(happened string, words ...string) string {
	words = slices.DeleteFunc(words, func(word string) bool { return !isErrorWord(word) })
	if len(words) == 0 {
		return happened
	}
	return happened + " (" + strings.Join(words, ", ") + ")"
}

// isErrorWord tells a word for machines, such as "invalid_api_key" or "messages[0].content", from a text or a key.
func isErrorWord(s string) bool {
	return s != "" && len(s) <= maxErrorWord && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.[]", r)
	})
}

func readRetryAfter(value string) time.Duration {
	wait := time.Duration(0)
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && !math.IsNaN(seconds) {
		wait = time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	} else if date, err := http.ParseTime(value); err == nil {
		wait = time.Until(date)
	}
	return min(max(wait, 0), maxRetryAfter)
}
