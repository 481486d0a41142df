package messages

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// thoughts are what was thought before a call, as it comes.
type thoughts struct {
	reply.Thoughts
	open  *thought // that is being streamed
	index int64    // of its block
}

// thought is a block that comes in pieces.
type thought struct {
	joiner          reply.Joiner
	text, signature []byte
}

// begin begins a block that is streamed.
func (t *thoughts) begin(index int64, block jsonview.View) {
	if t.Lost() {
		return
	}
	t.open, t.index = &thought{}, index
	t.piece(index, block)
}

// piece takes what a block begins with, or a piece of it.
func (t *thoughts) piece(index int64, piece jsonview.View) {
	if t.open == nil || t.index != index {
		return
	}
	signature, _ := piece.Get("signature").Str()
	t.open.text = append(t.open.text, t.open.joiner.Piece(piece.Get("thinking"))...)
	t.open.signature = append(t.open.signature, signature...)
	if len(t.open.text)+len(t.open.signature) > llm.MaxState {
		t.open = nil
		t.Lose()
	}
}

// end ends a block that was streamed.
func (t *thoughts) end(index int64) {
	if t.open == nil || t.index != index {
		return
	}
	b := append([]byte(nil), `{"type":"thinking","thinking":`...)
	b = jsonview.AppendString(b, string(t.open.text)+t.open.joiner.Rest())
	b = append(b, `,"signature":`...)
	b = append(jsonview.AppendString(b, string(t.open.signature)), '}')
	t.open = nil
	t.Add(b)
}
