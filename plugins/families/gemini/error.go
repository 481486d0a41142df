package gemini

import (
	"net/http"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

const maxRetryAfter = 24 * time.Hour // a longer wait is no information

// DecodeError makes a typed error of an upstream's reply that is not a 2xx: its status, its Retry-After header, and its
// body: a google.rpc.Status in the member `error`, or an array with one such object.
func DecodeError(status int, retryAfter string, body []byte) *llm.Error {
	root, _ := jsonview.Parse(body, maxDepth) // what is no JSON says nothing
	if root.Kind() == jsonview.Array {
		root = first(root)
	}
	object := root.Get("error")
	if object.Kind() != jsonview.Object { // of a proxy between here and there
		return reply.Refusal(status, retryAfter, body)
	}
	return failure(status, object)
}

// details are what is of use in the details of a google.rpc.Status (cloud.google.com/apis/design/errors).
type details struct {
	reason string        // of an ErrorInfo
	field  string        // of a BadRequest
	wait   time.Duration // of a RetryInfo
	daily  bool          // a quota that is used up until the next day, of a QuotaFailure or ErrorInfo
}

func readDetails(v jsonview.View) (d details) {
	for _, detail := range v.Elems() {
		kind, _ := detail.Get("@type").Str()
		_, kind, _ = strings.Cut(kind, "google.rpc.")
		switch kind {
		case "ErrorInfo":
			d.reason, _ = detail.Get("reason").Str()
			limit, _ := detail.Get("metadata").Get("quota_limit").Str()
			d.daily = d.daily || strings.Contains(limit, "PerDay")
		case "RetryInfo":
			delay, _ := detail.Get("retryDelay").Str()
			if wait, err := time.ParseDuration(delay); err == nil {
				d.wait = min(max(wait, 0), maxRetryAfter)
			}
		case "QuotaFailure":
			for _, violation := range detail.Get("violations").Elems() {
				id, _ := violation.Get("quotaId").Str()
				d.daily = d.daily || strings.Contains(id, "PerDay")
			}
		case "BadRequest":
			for _, violation := range detail.Get("fieldViolations").Elems() {
				d.field, _ = violation.Get("field").Str()
			}
		}
	}
	return d
}

// failure makes a typed error of a google.rpc.Status. status is that of the reply; 0 for an error inside a 200, whose
// code it is then.
func failure(status int, v jsonview.View) *llm.Error {
	word, _ := v.Get("status").Str()
	message, _ := v.Get("message").Str()
	more := readDetails(v.Get("details"))
	if code, ok := v.Get("code").Int(); ok && status == 0 && 400 <= code && code < 600 {
		status = int(code)
	}
	e := &llm.Error{Kind: classify(status, word, more.reason, strings.ToLower(message)), Status: status,
		Message: reply.LogText("the upstream answered with an error", word, more.reason, more.field)}
	switch {
	case e.Kind != llm.ErrCapacity:
	case more.daily: // of which the service, too, says to try again in seconds
		e.Kind = llm.ErrQuota
	default:
		e.RetryAfter = more.wait
	}
	return e
}

// classify goes by the canonical code (google.rpc.Code) and, as each stands for several things, by what tells them
// apart: a reason, or the message.
func classify(status int, word, reason, message string) llm.ErrorKind {
	switch {
	case strings.HasPrefix(reason, "API_KEY_"), // a key that is not valid is an INVALID_ARGUMENT
		strings.Contains(message, "api key not valid"), strings.Contains(message, "api key expired"):
		return llm.ErrCredentials
	case word == "INVALID_ARGUMENT" && (strings.Contains(message, "exceeds the maximum number of tokens") ||
		strings.Contains(message, "payload size exceeds")), status == http.StatusRequestEntityTooLarge:
		return llm.ErrContext
	}
	switch word {
	case "UNAUTHENTICATED", "PERMISSION_DENIED", "FAILED_PRECONDITION": // the last: no billing, or not from here
		return llm.ErrCredentials
	case "RESOURCE_EXHAUSTED":
		return llm.ErrCapacity
	case "INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED":
		return llm.ErrRejected
	case "UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "CANCELLED", "ABORTED", "DATA_LOSS":
		return llm.ErrUpstream
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return llm.ErrCredentials
	case status == http.StatusTooManyRequests:
		return llm.ErrCapacity
	case 400 <= status && status < 500:
		return llm.ErrRejected
	}
	return llm.ErrUpstream
}
