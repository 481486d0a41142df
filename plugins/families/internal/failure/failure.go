// Package failure is the error body of the server direction, in the families whose errors have a code. It is for their
// packages only.
package failure

import (
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// Append appends {"error":{"code","message","type"}}, with param for an unknown model: the error body of the
// families whose errors have a code (ERR-01 to ERR-07).
func Append(b []byte, e *families.Error) []byte {
	b = append(b, `{"error":{"code":`...)
	b = jsonview.AppendString(b, string(e.Code))
	b = append(b, `,"message":`...)
	b = jsonview.AppendString(b, e.Message)
	b = append(b, `,"type":`...)
	b = jsonview.AppendString(b, string(e.Type()))
	if e.Code == families.ModelNotFound {
		b = append(b, `,"param":"model"`...)
	}
	return append(b, "}}"...)
}
