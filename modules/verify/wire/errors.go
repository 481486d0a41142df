package wire

import (
	"net/http"
	"strings"
)

// Failure is an error as a client reads it, from a frame or from a JSON body.
type Failure struct{ Code, Message string }

// Code reads the code of an error body.
func (s Shape) Code(v map[string]any) string {
	if s.Name == "messages" {
		return Str(At(v, "error", "type"))
	}
	return Str(At(v, "error", "code"))
}

// WireCode is how a code of the contract reads on the shape: on messages, two codes cannot be seen (GAP-46).
func (s Shape) WireCode(code string) string {
	switch {
	case s.Name == "messages" && code == "unsupported_content":
		return "invalid_request_error"
	case s.Name == "messages" && code == "model_not_found":
		return "not_found_error"
	}
	return code
}

// UnknownPath is the code of an unknown path below the shape's (GAP-02).
func (s Shape) UnknownPath() string {
	if s.Name == "messages" {
		return "not_found_error"
	}
	return "invalid_request_error"
}

// ErrorBody is the whole body of an error with this code (ERR-01 to ERR-08): a usage is no part of it (BILL-32).
func (s Shape) ErrorBody(code, message string) map[string]any {
	inner := map[string]any{"code": code, "message": message, "type": code}
	body := map[string]any{"error": inner}
	switch {
	case s.Name == "messages":
		delete(inner, "code")
		inner["type"], body["type"] = s.WireCode(code), "error"
	case code == "unsupported_content":
		inner["type"] = "invalid_request_error"
	case code == "model_not_found":
		inner["type"], inner["param"] = "invalid_request_error", "model"
	}
	return body
}

// RequireError fails where a reply is not the error with this status and code, whole, and returns its message.
func (s Shape) RequireError(t Reporter, status int, got int, header http.Header, raw []byte, code string) string {
	t.Helper()
	requireEqual(t, status, got, "the status of "+Brief(string(raw)))
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	requireEqual(t, "application/json", media, "the error's Content-Type")
	requireTrue(t, header.Get("X-Request-Id") != "", "the error has no X-Request-Id")
	v, err := Decode(raw)
	requireTrue(t, err == nil, "the error's body is no JSON object (%v): %s", err, Brief(string(raw)))
	message := Str(At(v, "error", "message"))
	requireTrue(t, message != "", "the error has no message")
	requireEqual(t, any(s.ErrorBody(code, message)), any(v), "the error body")
	return message
}
