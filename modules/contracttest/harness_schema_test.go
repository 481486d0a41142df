package contracttest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/fareway/fareway/modules/verify/wire"
)

// maxJudged bounds how much of a reply in one piece is kept to be judged, in bytes; what the tests ask for is shorter.
const maxJudged = 16 << 20

// judged wraps a handler so that every body and every event that it writes is checked against the schema of its
// family, whatever the test looks at (GAP-116), and every error at the paths of no family, too (GAP-129). Of a stream
// that a client leaves, what is whole counts.
func judged(t testing.TB, inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j := &judgedResponse{ResponseWriter: w, t: t, path: r.URL.Path, status: http.StatusOK}
		finished := false
		defer func() {
			if finished && !j.streams() && j.kept.Len() < maxJudged {
				j.check(j.kept.Bytes())
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
	path   string
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
		j.check(j.kept.Next(at + 1))
	}
	return j.ResponseWriter.Write(b)
}

// check judges a body in one piece, or the next events of a stream.
func (j *judgedResponse) check(b []byte) {
	if err := wire.CheckSchema(j.path, j.status, j.Header(), b); err != nil {
		j.t.Errorf("the gateway wrote what its family does not have (%d): %v", j.status, err)
	}
}
