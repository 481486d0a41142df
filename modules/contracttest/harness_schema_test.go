package contracttest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/schema"
)

// maxJudged bounds how much of a reply in one piece is kept to be judged, in bytes; what the tests ask for is shorter.
const maxJudged = 16 << 20

// judged wraps a handler so that every body and every event that it writes is checked against the schema of its
// family, whatever the test looks at (GAP-116), and every error at the paths of no family, too (GAP-129). Of a stream
// that a client leaves, what is whole counts.
func judged(t testing.TB, all []families.Server, inner http.Handler) http.Handler {
	endpoints := make(map[string]families.Kind)
	schemas := make(map[string]*schema.Family)
	for _, f := range all {
		for _, e := range f.Endpoints() {
			endpoints[e.Path], schemas[e.Path] = e.Kind, schema.Of(f.Name())
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		family, ours := schemas[r.URL.Path]
		if !ours {
			family = errorsOf(r.URL.Path)
		}
		j := &judgedResponse{ResponseWriter: w, t: t, family: family, ours: ours, status: http.StatusOK}
		finished := false
		defer func() {
			if finished {
				j.end(endpoints[r.URL.Path])
			}
		}()
		inner.ServeHTTP(j, r)
		finished = true // a handler that panics leaves a body that is cut
	})
}

// errorsOf is whose errors are written at a path of no family (ERR-01, GAP-02).
func errorsOf(path string) *schema.Family {
	path = strings.TrimPrefix(path, "/v1")
	if path == "/messages" || strings.HasPrefix(path, "/messages/") {
		return schema.Of("messages")
	}
	return schema.Of("chat")
}

// judgedResponse is a response that is judged while it is written.
type judgedResponse struct {
	http.ResponseWriter
	t      testing.TB
	family *schema.Family
	ours   bool // at a path of the family, whose replies are judged as well
	status int
	kept   bytes.Buffer // of a stream what is not a whole line yet
}

// Unwrap lets http.ResponseController through.
func (j *judgedResponse) Unwrap() http.ResponseWriter { return j.ResponseWriter }

func (j *judgedResponse) WriteHeader(status int) {
	if status >= http.StatusOK {
		j.status = status
	}
	j.ResponseWriter.WriteHeader(status)
}

func (j *judgedResponse) streams() bool {
	return strings.HasPrefix(j.Header().Get("Content-Type"), "text/event-stream")
}

func (j *judgedResponse) Write(b []byte) (int, error) {
	if j.kept.Len() < maxJudged {
		j.kept.Write(b)
	}
	if at := bytes.LastIndexByte(j.kept.Bytes(), '\n'); at >= 0 && j.streams() {
		if err := j.family.Stream(j.kept.Next(at + 1)); err != nil {
			j.t.Errorf("the gateway wrote an event that its family does not have: %v", err)
		}
	}
	return j.ResponseWriter.Write(b)
}

// end judges a body in one piece.
func (j *judgedResponse) end(kind families.Kind) {
	failed := j.status >= http.StatusBadRequest
	if j.streams() || j.kept.Len() == 0 || j.kept.Len() >= maxJudged || !j.ours && !failed {
		return
	}
	check := j.family.Body
	switch {
	case failed:
		check = j.family.Failure
	case kind == families.CountTokens:
		check = j.family.Count
	}
	if err := check(j.kept.Bytes()); err != nil {
		j.t.Errorf("the gateway wrote a body (%d) that its family does not have: %v", j.status, err)
	}
}
