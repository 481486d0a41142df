package wire

import (
	"net/http"
	"strings"

	"github.com/fareway/fareway/plugins/families/schema"
)

// CheckSchema checks a whole reply against the schema of its family (GAP-116), and an error at the paths of no family
// (GAP-129). The last lines of a stream that broke off may be missing, but not half of one.
func CheckSchema(path string, status int, header http.Header, raw []byte) error {
	family, kind := familyOf(path)
	switch {
	case len(raw) == 0:
		return nil
	case strings.HasPrefix(header.Get("Content-Type"), "text/event-stream"):
		return family.Stream(raw)
	case status >= http.StatusBadRequest:
		return family.Failure(raw)
	case kind == "count":
		return family.Count(raw)
	case kind == "body":
		return family.Body(raw)
	case kind == "models":
		return schema.Models(raw)
	case kind == "model":
		return schema.Model(raw)
	case kind == "account":
		return schema.Account(raw)
	}
	return nil
}

// familyOf is whose errors come at a path, and of what kind its replies are.
func familyOf(path string) (family *schema.Family, kind string) {
	path, _, _ = strings.Cut(path, "?")
	short := strings.TrimPrefix(path, "/v1")
	switch {
	case short == "/chat/completions":
		return schema.Of("chat"), "body"
	case path == "/v1/responses":
		return schema.Of("responses"), "body"
	case short == "/messages":
		return schema.Of("messages"), "body"
	case short == "/messages/count_tokens":
		return schema.Of("messages"), "count"
	case strings.HasPrefix(short, "/messages/"):
		return schema.Of("messages"), ""
	case short == "/models":
		return schema.Of("chat"), "models"
	case strings.HasPrefix(short, "/models/"):
		return schema.Of("chat"), "model"
	case path == "/v1/account":
		return schema.Of("chat"), "account"
	}
	return schema.Of("chat"), ""
}
