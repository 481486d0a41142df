package reply

import (
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// Joiner reads a text that comes in several JSON strings: some upstreams cut a surrogate pair in two (GAP-74).
// The zero value is ready to use.
type Joiner struct {
	high rune // half a pair that ended the last string
}

// Piece returns the next piece of the text, without half a pair at its end; "" for a value that is no string.
func (j *Joiner) Piece(v jsonview.View) string {
	text, pending, ok := v.StrAfter(j.high)
	if !ok {
		return ""
	}
	j.high = pending
	return text
}

// Argument is Piece for a call's arguments, where the text of another value counts as well, but for null.
func (j *Joiner) Argument(v jsonview.View) string {
	if v.Set() && v.Kind() != jsonview.String {
		return string(v.Raw())
	}
	return j.Piece(v)
}

// Rest returns what is owed for half a pair that nothing followed: U+FFFD, or "".
func (j *Joiner) Rest() string {
	if j.high == 0 {
		return ""
	}
	j.high = 0
	return string(utf8.RuneError)
}
