package openai

import (
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

// countedAt is how many bytes of a text are gathered before they are counted: few enough for any reply to
// fit into memory, enough that what the count loses at the seams does not matter.
const countedAt = 16 << 10

// estimated is the usage of a reply as this provider counts it.
func estimated(req *llm.Request, out *output) *llm.Usage {
	total, reasoning := out.count()
	usage := &llm.Usage{Input: llm.Count(tokens.Estimate(req)), Output: llm.Count(total), Estimated: true}
	if reasoning > 0 {
		usage.Reasoning = llm.Count(reasoning)
	}
	return usage
}

// output estimates the tokens of what an upstream produces, while it does. The zero value is ready to use.
type output struct {
	texts map[source]*text
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

// add takes an event.
func (o *output) add(ev llm.Event) {
	piece := ev.Text
	switch ev.Kind {
	case llm.EventText, llm.EventReasoning, llm.EventToolArguments:
	case llm.EventToolCall:
		piece = ev.Name
	default:
		return
	}
	from := source{ev.Kind, ev.Index}
	t := o.texts[from]
	if t == nil {
		if o.texts == nil {
			o.texts = make(map[source]*text)
		}
		t = &text{}
		o.texts[from] = t
	}
	t.pending = append(t.pending, piece...)
	if len(t.pending) >= countedAt {
		t.counted += tokens.Text(string(t.pending))
		t.pending = t.pending[:0]
	}
}

// any reports whether the upstream has produced anything.
func (o *output) any() bool { return len(o.texts) > 0 }

// count is the estimate of everything produced, and of the reasoning in it.
func (o *output) count() (total, reasoning int64) {
	for from, t := range o.texts {
		n := t.counted + tokens.Text(string(t.pending))
		total += n
		if from.kind == llm.EventReasoning {
			reasoning += n
		}
	}
	return total, reasoning
}
