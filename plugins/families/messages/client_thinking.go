package messages

import (
	"bytes"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// thoughts are the blocks of what was thought before a call: the upstream wants them back with the call's result, all
// of them, as they were and where they stood (platform.claude.com, "Thinking", Preserving thinking blocks). They are
// the call's state: an object with the blocks that stood first, and those between the text and the call.
type thoughts struct {
	first, then []byte // each block with a comma after it
	said        bool   // text has come
	lost        bool   // there is too much, or text stood between, so that nobody can say where they stood

	open  *thought // that is being streamed
	index int64    // of its block
}

// thought is a block that comes in pieces.
type thought struct {
	joiner          reply.Joiner
	text, signature []byte
}

// text notes a piece of text.
func (t *thoughts) text(piece string) {
	if piece == "" {
		return
	}
	t.said = true
	if len(t.then) > 0 {
		t.lose()
	}
}

// lose gives up what was thought before the next call: the upstream takes all of it or nothing.
func (t *thoughts) lose() { t.lost, t.first, t.then, t.open = true, nil, nil, nil }

// begin begins a block that is streamed.
func (t *thoughts) begin(index int64, block jsonview.View) {
	if t.lost {
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
		t.lose()
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
	t.add(b)
}

// add adds a whole block.
func (t *thoughts) add(block []byte) {
	if t.lost {
		return
	}
	at := &t.first
	if t.said {
		at = &t.then
	}
	*at = append(append(*at, block...), ',')
	if len(t.first)+len(t.then) > llm.MaxState {
		t.lose()
	}
}

// state is the state of the call that comes now; what is thought from here on is the next one's.
func (t *thoughts) state() []byte {
	first, then := t.first, t.then
	*t = thoughts{}
	if len(first)+len(then) == 0 {
		return nil
	}
	b := append([]byte(nil), `{"first":[`...)
	b = append(b, bytes.TrimSuffix(first, []byte(","))...)
	b = append(b, `],"then":[`...)
	b = append(b, bytes.TrimSuffix(then, []byte(","))...)
	return append(b, `]}`...)
}

// thoughtsOf are the blocks of a call's state; none for a state that is no state of this family.
func thoughtsOf(state []byte) (first, then [][]byte) {
	v, err := jsonview.Parse(state, maxArgumentDepth)
	if err != nil {
		return nil, nil
	}
	return blocksOf(v.Get("first")), blocksOf(v.Get("then"))
}

func blocksOf(v jsonview.View) (blocks [][]byte) {
	for _, block := range v.Elems() {
		blocks = append(blocks, block.Raw())
	}
	return blocks
}
