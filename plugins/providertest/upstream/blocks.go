package upstream

// block is a part of a reply, in the families whose replies are lists of parts: a run of text or of reasoning, or
// a call.
type block struct {
	kind     StepKind // StepText, StepReasoning or StepToolCall
	index    int      // of a call
	id, name string
	text     string // or the arguments
	ended    bool

	// How far a stream has told it.
	opened, closed bool
	sent           int // bytes of text
}

// parts is a reply in the making, in those families.
type parts struct {
	mode   UsageMode
	blocks blocks
	finish *Step  // why it ends
	used   *Usage // where the script reports it
	told   *Usage
}

func (p *parts) reported() *Usage { return p.told }

// take notes what a step adds.
func (p *parts) take(s Step, used Usage) {
	p.blocks.take(s)
	switch {
	case s.Do == StepFinish:
		p.finish = &s
		if p.mode == UsageWithFinish {
			p.used = &used
		}
	case s.Do == StepUsage && p.mode != UsageNever:
		p.used = &used
	}
}

// blocks makes the parts of a reply out of its steps. The zero value is an empty reply.
type blocks []*block

// take adds a step. Any other part ends a run of text or of reasoning, a finish ends everything.
func (bs *blocks) take(s Step) {
	switch s.Do {
	case StepText, StepReasoning:
		if s.Text == "" {
			return
		}
		if last := bs.last(); last == nil || last.kind != s.Do {
			bs.add(&block{kind: s.Do})
		}
		bs.last().text += s.Text
	case StepToolCall:
		bs.add(&block{kind: s.Do, index: s.Index, id: s.ID, name: s.Name})
	case StepArguments:
		if call := bs.call(s.Index); call != nil {
			call.text += s.Text
		}
	case stepCallEnd:
		if call := bs.call(s.Index); call != nil {
			call.ended = true
		}
	case StepFinish, StepDone:
		for _, b := range *bs {
			b.ended = true
		}
	}
}

func (bs *blocks) last() *block {
	if len(*bs) == 0 {
		return nil
	}
	return (*bs)[len(*bs)-1]
}

func (bs *blocks) add(b *block) {
	if last := bs.last(); last != nil && last.kind != StepToolCall {
		last.ended = true
	}
	*bs = append(*bs, b)
}

// call is the call at that index, the latest one where a script has several; nil for none.
func (bs *blocks) call(index int) *block {
	for i := len(*bs) - 1; i >= 0; i-- {
		if b := (*bs)[i]; b.kind == StepToolCall && b.index == index {
			return b
		}
	}
	return nil
}
