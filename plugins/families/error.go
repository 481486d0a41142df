package families

import "net/http"

// Code is an error code of the contract (CONTRACT.md, "Errors").
type Code string

const (
	InvalidRequest     Code = "invalid_request_error"
	UnsupportedField   Code = "unsupported_field"
	UnsupportedContent Code = "unsupported_content"
	Authentication     Code = "authentication_error"
	BudgetExceeded     Code = "budget_exceeded"
	PermissionDenied   Code = "permission_denied"
	ModelNotFound      Code = "model_not_found"
	RateLimitExceeded  Code = "rate_limit_exceeded"
	InternalError      Code = "internal_server_error"
	UpstreamError      Code = "upstream_error"
	NoVisibleAnswer    Code = "no_visible_answer"
	FeatureUnavailable Code = "feature_unavailable"

	// ValidatorFailed and StreamError are seen inside stream error frames only (GAP-42).
	ValidatorFailed Code = "validator_failed"
	StreamError     Code = "stream_error"

	// NotFound is the messages family's type for a path that does not exist (GAP-02).
	NotFound Code = "not_found_error"
)

// Error is an error as a client sees it: an HTTP status, a code and a message that is safe to show. Every
// family writes it in its own shape.
type Error struct {
	Status int
	Code   Code
	// Message says what happened, whether trying again helps, and what else there is to do: it is what people see. It
	// is the same for the same failure, in a reply of its own and in a stream (SSE-35), so it names no request.
	Message string

	// RetryAfter, in seconds, and Reason become the headers Retry-After and X-RateLimit-Reason when set.
	RetryAfter int
	Reason     string
	// Allow becomes the header Allow (405).
	Allow string
	// Frame is the code that a stream's error frame carries where it differs from Code (GAP-42).
	Frame Code
	// Passing: the same request may succeed later, though its Status says that it cannot (GAP-119).
	Passing bool
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// FrameCode is the code that the error carries inside a stream.
func (e *Error) FrameCode() Code {
	if e.Frame != "" {
		return e.Frame
	}
	return e.Code
}

// Final reports whether the reply carries `x-should-retry: false`: the same request cannot succeed
// unchanged (GAP-44, GAP-119).
func (e *Error) Final() bool {
	if e.Passing {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUpgradeRequired:
		return true
	case http.StatusServiceUnavailable:
		return e.Code == FeatureUnavailable
	}
	return false
}

// Type is what the field `type` of the error object says in families that also have `code` (ERR-03).
func (e *Error) Type() Code {
	if e.Code == UnsupportedContent || e.Code == ModelNotFound {
		return InvalidRequest
	}
	return e.Code
}

// Support ends the messages of failures of the service: where to go when trying again has not helped.
const Support = " If it goes on, contact support with the request id."

// sameFails ends the messages of mistakes in the request itself.
const sameFails = " The same request fails again."

// Invalid makes a 400 invalid_request_error of a message that says what is wrong and what would be right.
func Invalid(message string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: InvalidRequest, Message: message + sameFails}
}

// Unsupported makes a 400 unsupported_field of a message that says what is not offered and what is.
func Unsupported(message string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: UnsupportedField, Message: message + sameFails}
}

// Media is the refusal of image and audio parts (MEDIA-11, GAP-95).
func Media() *Error {
	return &Error{Status: http.StatusBadRequest, Code: UnsupportedContent,
		Message: "Image and audio input are not supported yet. Send text only."}
}
