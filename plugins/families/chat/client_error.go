package chat

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	maxErrorText  = 200            // bytes of an upstream's message that are kept for the log
	maxErrorWord  = 24             // a longer word may be a key or an identifier of someone's
	maxRetryAfter = 24 * time.Hour // a longer wait is no information
)

// DecodeError makes a typed error of an upstream's reply that is not a 2xx: its status, its Retry-After
// header ("" if there is none; seconds or a date, RFC 9110 section 10.2.3) and its body, in whatever form.
func DecodeError(status int, retryAfter string, body []byte) *llm.Error {
	root, _ := jsonview.Parse(body, maxReplyDepth) // what is no JSON says nothing
	failure := root.Get("error")
	if !failure.Set() {
		failure = root
	}
	e := bodyError(status, failure)
	if e.Kind == llm.ErrCapacity {
		e.RetryAfter = readRetryAfter(retryAfter)
	}
	return e
}

// bodyError classifies an error object. status is that of the reply; 0 for an error inside a 200, which may
// name a status as its code.
func bodyError(status int, failure jsonview.View) *llm.Error {
	code, _ := failure.Get("code").Str()
	kind, _ := failure.Get("type").Str()
	message, ok := failure.Get("message").Str()
	if !ok {
		message, _ = failure.Str() // some send nothing but a string
	}
	if n, ok := failure.Get("code").Int(); ok && status == 0 && 400 <= n && n < 600 {
		status = int(n)
	}
	e := &llm.Error{Kind: classify(status, code, kind, message), Status: status}
	e.Message = logText(e.Kind, code, kind, message)
	return e
}

// classify tells the kinds apart by what the known upstreams say. Codes and types are compared whole or by
// a telling part; messages only for lengths, where some say it nowhere else.
func classify(status int, code, kind, message string) llm.ErrorKind {
	names := strings.ToLower(code + " " + kind)
	says := func(text string, parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	refused := status == 0 || 400 <= status && status < 500 && status != http.StatusTooManyRequests
	switch {
	case refused && says(names, "content_filter", "content_policy", "moderation", "responsibleai"):
		return llm.ErrPolicy
	case refused && (says(names, "context_length", "context_size", "context_window") ||
		says(strings.ToLower(message), "context length", "context window", "context size", "prompt is too long")):
		return llm.ErrContext
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return llm.ErrCredentials
	case status == http.StatusTooManyRequests:
		return llm.ErrCapacity
	case status == http.StatusRequestTimeout, status >= 500:
		return llm.ErrUpstream
	case status >= 400:
		return llm.ErrRejected
	}
	switch {
	case says(names, "rate_limit", "insufficient_quota"):
		return llm.ErrCapacity
	case says(names, "authentication", "invalid_api_key", "permission"):
		return llm.ErrCredentials
	case says(names, "invalid_request", "badrequest", "bad_request"):
		return llm.ErrRejected
	}
	return llm.ErrUpstream
}

// logText is what the operator reads: the upstream's code and type, and the beginning of its message. Words
// that may be keys are blotted out, and what an upstream says of credentials is left out altogether.
func logText(kind llm.ErrorKind, code, errorType, message string) string {
	var words []string
	for _, name := range []string{code, errorType} {
		if name != "" && len(name) <= 2*maxErrorWord {
			words = append(words, name)
		}
	}
	text := "the upstream answered with an error"
	if len(words) > 0 {
		text += " (" + strings.Join(words, ", ") + ")"
	}
	if message == "" || kind == llm.ErrCredentials || kind == llm.ErrPolicy {
		return text
	}
	text += ": "
	words = words[:0]
	length := 0
	for word := range strings.FieldsSeq(message) {
		if len(word) > maxErrorWord {
			word = "***"
		}
		if length += len(word) + 1; length > maxErrorText {
			words = append(words, "...")
			break
		}
		words = append(words, word)
	}
	return text + strings.Join(words, " ")
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
