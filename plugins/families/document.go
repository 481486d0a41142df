package families

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// Document is a request body that is a JSON object: valid, not too deeply nested, and free of
// credential-like names.
type Document struct {
	Root jsonview.View
}

// Parse checks a request body: JSON syntax, UTF-8, depth and top level (GAP-01 step 8, GAP-33), then
// credential-like field names at the top level and inside metadata (step 9, GAP-30). The document refers
// to body, which must not change while it is used.
func Parse(body []byte) (*Document, *Error) {
	panic("written by the codecs' author")
}

// Model returns the `model` field: a 400 when it is missing, null, empty or not a string (step 10).
func (d *Document) Model() (string, *Error) {
	panic("written by the codecs' author")
}
