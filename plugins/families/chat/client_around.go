package chat

import (
	"bytes"

	"github.com/fareway/fareway/plugins/internal/jsonview"
)

// around is what stands before and after the text in the last chunk whose only effect was a piece of text. In
// most streams nearly all chunks are equal but for their text: they are read by comparing, which takes a fifth of
// the time. The zero value knows nothing.
type around struct {
	before, after []byte
}

// learn remembers the surroundings of the text, which is a string within the chunk. A text that occurs in the
// chunk twice, which is rare, is not learned from.
func (a *around) learn(chunk []byte, text jsonview.View) {
	a.forget()
	if text.Kind() != jsonview.String {
		return
	}
	start := bytes.Index(chunk, text.Raw())
	if start != bytes.LastIndex(chunk, text.Raw()) {
		return
	}
	a.before = append(a.before, chunk[:start]...)
	a.after = append(a.after, chunk[start+len(text.Raw()):]...)
}

func (a *around) forget() { a.before, a.after = a.before[:0], a.after[:0] }

// text returns the text of a chunk that differs from what was learned in nothing else, and otherwise Absent.
func (a *around) text(chunk []byte) jsonview.View {
	if len(a.before) == 0 || len(chunk) < len(a.before)+len(a.after) ||
		!bytes.HasPrefix(chunk, a.before) || !bytes.HasSuffix(chunk, a.after) {
		return jsonview.View{}
	}
	v, err := jsonview.Parse(chunk[len(a.before):len(chunk)-len(a.after)], 0)
	if err != nil || v.Kind() != jsonview.String {
		return jsonview.View{}
	}
	return v
}
