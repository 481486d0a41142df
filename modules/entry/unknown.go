package entry

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/families"
)

// modelPath stands for what is below /models/, which is no row of the table.
const modelPath = "/v1/models/{id}"

// listOffered names the versioned endpoints, each with its method, for people who asked for something else.
func (t *table) listOffered() string {
	lines := []string{t.model.method + " " + modelPath}
	for p, e := range t.paths {
		if strings.HasPrefix(p, "/v1/") {
			lines = append(lines, e.method+" "+p)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// notFound is the 404 of a path that is no endpoint; f has its shape (GAP-02).
func (t *table) notFound(r *http.Request, f families.Server) *families.Error {
	code := families.InvalidRequest
	if f.APIKeyHeader() {
		code = families.NotFound
	}
	return &families.Error{Status: http.StatusNotFound, Code: code,
		Message: fmt.Sprintf("There is no %s %s here. Trying again does not help: %s.", r.Method, r.URL.Path,
			t.adviseOn(r.URL.Path))}
}

// adviseOn says what is wrong with an unknown path: how it is spelled, what it begins with, or, where neither shows,
// that it is not offered.
func (t *table) adviseOn(asked string) string {
	tidy := path.Clean("/" + strings.TrimSpace(asked))
	for _, meant := range []string{tidy, strings.ToLower(tidy)} {
		if t.offers(meant) {
			return "that is not offered, for paths are exact (small letters, no doubled slash and none at the end): if " +
				meant + " is meant, correct the path, or the end of the base URL"
		}
	}
	if t.misplaced(strings.ToLower(tidy)) {
		return "check the base URL, which has /v1 at its end for clients of OpenAI's kind, and not for Anthropic's"
	}
	return "that is not offered. What is offered: " + t.offered
}

func (t *table) offers(p string) bool {
	_, ok := t.paths[p]
	if !ok {
		_, ok = modelID(p)
	}
	return ok
}

// misplaced says whether a tidy path that is no endpoint is one behind something else or without its /v1, or is none
// at all: a client's base URL is wrong then. It looks for each endpoint in the path and not for each part of the path
// in the table, for a path can be a megabyte, and comes without a key.
func (t *table) misplaced(p string) bool {
	if p == "/" || strings.HasSuffix(p, "/v1") || strings.Contains(p, "/v1/models/") {
		return true
	}
	for endpoint := range t.paths {
		short := strings.TrimPrefix(endpoint, "/v1")
		base, ok := strings.CutSuffix(p, short)
		if !ok {
			continue
		}
		// /v1/threads/1/messages is another resource's. What has more than one part is an endpoint wherever it stands,
		// and so is what stands behind an endpoint or another /v1.
		_, doubled := t.paths[base]
		other := strings.HasPrefix(base, "/v1/") && !strings.HasSuffix(base, "/v1")
		if doubled || strings.Count(short, "/") > 1 || !other {
			return true
		}
	}
	return false
}
