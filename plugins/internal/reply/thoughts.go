package reply

import (
	"bytes"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// Thoughts are the blocks of what was thought before a call, where the upstream wants them back with the call's
// result: all of them, as they were and where they stood (platform.claude.com, "Thinking", Preserving thinking
// blocks; Amazon Bedrock, API reference, "ReasoningTextBlock"). They are the call's state: an object with the blocks
// that stood first, and those between the text and the call. What a block looks like is the family's. The zero value
// is ready to use.
type Thoughts struct {
	first, then []byte // each block with a comma after it
	said        bool   // text has come
	lost        bool   // there is too much, or text stood between, so that nobody can say where they stood
}

// Text notes a piece of text.
func (t *Thoughts) Text(piece string) {
	if piece == "" {
		return
	}
	t.said = true
	if len(t.then) > 0 {
		t.Lose()
	}
}

// Lose gives up what was thought before the next call: the upstream takes all of it or nothing.
func (t *Thoughts) Lose() { t.lost, t.first, t.then = true, nil, nil }

// Lost reports whether what was thought before the next call was given up.
func (t *Thoughts) Lost() bool { return t.lost }

// Add adds a block, which is JSON.
func (t *Thoughts) Add(block []byte) {
	if t.lost {
		return
	}
	at := &t.first
	if t.said {
		at = &t.then
	}
	*at = append(append(*at, block...), ',')
	if len(t.first)+len(t.then) > llm.MaxState {
		t.Lose()
	}
}

// State is the state of the call that comes now; what is thought from here on is the next one's.
func (t *Thoughts) State() []byte {
	first, then := t.first, t.then
	*t = Thoughts{}
	if len(first)+len(then) == 0 {
		return nil
	}
	b := append([]byte(nil), `{"first":[`...)
	b = append(b, bytes.TrimSuffix(first, []byte(","))...)
	b = append(b, `],"then":[`...)
	b = append(b, bytes.TrimSuffix(then, []byte(","))...)
	return append(b, `]}`...)
}

// ThoughtsOf are the blocks of a call's state; none for one that is no such state.
func ThoughtsOf(state []byte) (first, then [][]byte) {
	v, err := jsonview.Parse(state, maxDepth)
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
