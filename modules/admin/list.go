package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
)

const (
	// ListBuffer is how many bytes of a list are written at once.
	ListBuffer = 32 << 10
	// listTimeout is how long a list waits for a client that reads nothing: a list looks at one moment of the
	// ledger, and as long as it does, the database cannot reuse the space of what came after.
	listTimeout = time.Minute
)

// list answers with JSON lines: one for each value that handle emits, as it comes.
func list(handle func(r *http.Request, emit func(any) error) error) caddy.AdminHandler {
	return lines(func(r *http.Request, out *lineWriter) error { return handle(r, out.emit) })
}

// lines is list for who says when lines are to go.
func lines(handle func(r *http.Request, out *lineWriter) error) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		out := newLineWriter(w)
		err := handle(r, out)
		if err == nil {
			err = out.flush()
		}
		if err == nil {
			return nil
		}
		if !out.begun {
			return asAPIError(err)
		}
		// The status is out. The last line says what is wrong, and a reader that takes no notice of it sees at least
		// that the reply does not end well.
		out.fail(asAPIError(err))
		panic(http.ErrAbortHandler)
	})
}

// lineWriter writes JSON lines to a reply.
type lineWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
	encoder *json.Encoder
	begun   bool // the status is out
}

func newLineWriter(w http.ResponseWriter) *lineWriter {
	l := &lineWriter{w: w, control: http.NewResponseController(w)}
	l.encoder = json.NewEncoder(&l.buffer)
	l.encoder.SetEscapeHTML(false)
	return l
}

func (l *lineWriter) emit(v any) error {
	if err := l.encoder.Encode(v); err != nil {
		return fmt.Errorf("writing a line of a list: %w", err)
	}
	if l.buffer.Len() < ListBuffer {
		return nil
	}
	return l.flush()
}

func (l *lineWriter) flush() error {
	if !l.begun {
		l.begun = true
		if l.w.Header().Get("Content-Type") == "" {
			l.w.Header().Set("Content-Type", "application/jsonl")
		}
		l.w.Header().Set("Cache-Control", "no-store")
	}
	// What cannot set it (a test's recorder) does not wait for a network either.
	_ = l.control.SetWriteDeadline(time.Now().Add(listTimeout))
	_, err := l.buffer.WriteTo(l.w)
	if err != nil {
		return fmt.Errorf("writing a list: %w", err)
	}
	return nil
}

// fail ends a list that has begun. The client may be what failed: then there is nobody to tell.
func (l *lineWriter) fail(e caddy.APIError) {
	l.buffer.Reset()
	if l.encoder.Encode(listError{e.Err.Error()}) == nil && l.flush() == nil {
		_ = l.control.Flush()
	}
}

// listError is the last line of a list that failed.
type listError struct {
	Error string `json:"error"`
}
