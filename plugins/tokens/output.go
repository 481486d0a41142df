package tokens

import (
	"bytes"

	"github.com/fareway/fareway/plugins/llm"
)

// countedAt is how many bytes of a text are gathered before they are counted: few enough that any reply fits into
// memory and thousands of them do at the same time, enough that what the count loses at the seams does not matter.
const countedAt = 2 << 10

// Output estimates the tokens of a reply while it comes, in the pieces in which it comes: a piece alone would count
// for more, for it can end within a token. The zero value is ready to use. It keeps no more than some kilobytes.
type Output struct {
	texts map[source]*text
	from  source // of the last event
	last  *text
}

// source is one of the texts of a reply, whose pieces may be interleaved: the visible text, the reasoning, a
// call's name or its arguments.
type source struct {
	kind  llm.EventKind
	index int
}

type text struct {
	pending []byte
	counted int64
}

// Add takes an event. Those without text count for nothing.
func (o *Output) Add(ev llm.Event) {
	piece := ev.Text
	switch ev.Kind {
	case llm.EventText, llm.EventReasoning, llm.EventToolArguments:
	case llm.EventToolCall:
		piece = ev.Name
	default:
		return
	}
	t := o.text(source{ev.Kind, ev.Index})
	t.pending = append(t.pending, piece...)
	if len(t.pending) >= countedAt {
		t.count()
	}
}

func (o *Output) text(from source) *text {
	if o.last != nil && o.from == from {
		return o.last
	}
	t := o.texts[from]
	if t == nil {
		if o.texts == nil {
			o.texts = make(map[source]*text)
		}
		t = &text{}
		o.texts[from] = t
	}
	o.from, o.last = from, t
	return t
}

// count counts what was gathered, up to the last blank: a token can begin with one, and hardly ever goes over it.
func (t *text) count() {
	end := bytes.LastIndexByte(t.pending, ' ')
	if end <= 0 {
		end = len(t.pending)
	}
	t.counted += Text(borrow(t.pending[:end]))
	t.pending = t.pending[:copy(t.pending, t.pending[end:])]
}

// Any reports whether there was any event with text.
func (o *Output) Any() bool { return len(o.texts) > 0 }

// Count is the estimate of everything so far, and of the reasoning in it.
func (o *Output) Count() (total, reasoning int64) {
	for from, t := range o.texts {
		n := t.counted + Text(borrow(t.pending))
		total += n
		if from.kind == llm.EventReasoning {
			reasoning += n
		}
	}
	return total, reasoning
}
