package upstream

import (
	"encoding/json"
	"net/http"
)

// Error is a failure as the service reports it. Its fields are those of the chat family; each other family
// says in its own words what Status and Code mean.
type Error struct {
	// Status is the HTTP status when the header has not been sent yet. 200 is possible: some services
	// report failures so.
	Status  int    `json:"status"`
	Message string `json:"message,omitempty"`
	Type    string `json:"type,omitempty"`
	Param   string `json:"param,omitempty"`
	Code    string `json:"code,omitempty"`
	// RetryAfter is the header Retry-After: seconds or a date.
	RetryAfter string `json:"retry_after,omitempty"`
	// Body replaces the error object: a proxy's HTML page, say. It is sent as text/html.
	Body string `json:"body,omitempty"`
}

// Error makes an Error usable as an error of Go.
func (e *Error) Error() string { return e.Message }

// write sends the error as a whole HTTP reply with that body, which is what the family's failure makes of it, and
// returns how many bytes it has.
func (e *Error) write(w http.ResponseWriter, body []byte) int64 {
	contentType := "application/json"
	if e.Body != "" {
		contentType = "text/html; charset=utf-8"
	}
	w.Header().Set("Content-Type", contentType)
	if e.RetryAfter != "" {
		w.Header().Set("Retry-After", e.RetryAfter)
	}
	w.WriteHeader(max(e.Status, http.StatusOK))
	n, _ := w.Write(body) // a client that has left is seen by its context
	return int64(n)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// mustMarshal is for values of our own types, which always have a JSON form.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("encoding a reply: " + err.Error())
	}
	return b
}

// The failures that services are known for.

// BadRequest is a request that the service refuses for its form; param is the path of the field, or "".
func BadRequest(message, param string) Error {
	return Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: message, Param: param}
}

// ContextLength is a prompt that is too long for the model.
func ContextLength() Error {
	return Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "context_length_exceeded",
		Param: "messages", Message: "The prompt is longer than the context window of this model."}
}

// ContentFilter is a prompt that the service's content policy declines.
func ContentFilter() Error {
	return Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "content_filter",
		Param: "messages", Message: "The prompt was declined by the content policy."}
}

// InvalidKey is a key that the service does not know.
func InvalidKey() Error {
	return Error{Status: http.StatusUnauthorized, Type: "invalid_request_error", Code: "invalid_api_key",
		Message: "The API key is not valid."}
}

// Forbidden is a key that may not use the model.
func Forbidden() Error {
	return Error{Status: http.StatusForbidden, Type: "invalid_request_error", Code: "model_not_allowed",
		Message: "The API key may not use this model."}
}

// ModelNotFound is a model that the service does not have.
func ModelNotFound() Error {
	return Error{Status: http.StatusNotFound, Type: "invalid_request_error", Code: "model_not_found",
		Param: "model", Message: "The model does not exist."}
}

// RateLimited is a rate limit; retryAfter is the header of that name, "" for none.
func RateLimited(retryAfter string) Error {
	return Error{Status: http.StatusTooManyRequests, Type: "requests", Code: "rate_limit_exceeded",
		Message: "Too many requests.", RetryAfter: retryAfter}
}

// QuotaExceeded is an account without funds, which the service also reports as a 429.
func QuotaExceeded() Error {
	return Error{Status: http.StatusTooManyRequests, Type: "insufficient_quota", Code: "insufficient_quota",
		Message: "The account has no funds left."}
}

// ServerError is an internal error of the service.
func ServerError() Error {
	return Error{Status: http.StatusInternalServerError, Type: "server_error", Message: "The server had an error."}
}

// Overloaded is a service that is too busy.
func Overloaded() Error {
	return Error{Status: http.StatusServiceUnavailable, Type: "server_error", Code: "overloaded",
		Message: "The server is overloaded."}
}

// BadGateway is the HTML page of a proxy in front of a service that is down.
func BadGateway() Error {
	return Error{Status: http.StatusBadGateway, Body: "<html><body><h1>502 Bad Gateway</h1></body></html>"}
}
