package modules_test

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

// judged wraps a handler so that every body and every event that it writes is checked against the schema of its family,
// whatever the test looks at (GAP-116). Of a stream that a client leaves, what is whole counts.
func judged(t testing.TB, all []families.Server, inner http.Handler) http.Handler {
	endpoints := make(map[string]families.Kind)
	schemas := make(map[string]*schema.Family)
	for _, f := range all {
		for _, e := range f.Endpoints() {
			endpoints[e.Path], schemas[e.Path] = e.Kind, schema.Of(f.Name())
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		family := schemas[r.URL.Path]
		if family == nil {
			inner.ServeHTTP(w, r)
			return
		}
		j := &judgedResponse{ResponseWriter: w, t: t, family: family, status: http.StatusOK}
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

// judgedResponse is a response that is judged while it is written.
type judgedResponse struct {
	http.ResponseWriter
	t      testing.TB
	family *schema.Family
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
	if j.streams() || j.kept.Len() == 0 || j.kept.Len() >= maxJudged {
		return
	}
	check := j.family.Body
	switch {
	case j.status != http.StatusOK:
		check = j.family.Failure
	case kind == families.CountTokens:
		check = j.family.Count
	}
	if err := check(j.kept.Bytes()); err != nil {
		j.t.Errorf("the gateway wrote a body (%d) that its family does not have: %v", j.status, err)
	}
}
