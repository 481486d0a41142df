package upstream

import "unicode"

// counter counts whitespace-separated words in a text that comes in pieces.
type counter struct {
	n    int64
	word bool // the last piece ended within a word
}

// take counts as much of s as keeps the count within limit (no limit when negative), and returns it.
func (c *counter) take(s string, limit int64) string {
	for i, r := range s {
		switch {
		case unicode.IsSpace(r):
			c.word = false
		case !c.word:
			if limit >= 0 && c.n == limit {
				return s[:i]
			}
			c.word = true
			c.n++
		}
	}
	return s
}

// add counts s.
func (c *counter) add(s string) { c.take(s, -1) }

// gap says that what follows is another text.
func (c *counter) gap() { c.word = false }

// meter counts a completion step by step.
type meter struct {
	all, reasoning counter
	last           StepKind
	lastIndex      int
}

// take counts a step and returns the part of its text that fits limit tokens in all, no limit when negative.
func (m *meter) take(s Step, limit int64) string {
	text := s.Text
	switch s.Do {
	case StepText, StepReasoning, StepArguments:
	case StepToolCall:
		text = s.Name
	default:
		return text
	}
	if s.Do != m.last || s.Index != m.lastIndex {
		m.all.gap()
		m.reasoning.gap()
	}
	m.last, m.lastIndex = s.Do, s.Index
	text = m.all.take(text, limit)
	if s.Do == StepReasoning {
		m.reasoning.add(text)
	}
	return text
}

// usage is what was counted so far.
func (m *meter) usage(prompt int64) Usage {
	u := Usage{Prompt: prompt, Completion: m.all.n}
	if m.reasoning.n > 0 {
		n := m.reasoning.n
		u.Reasoning = &n
	}
	return u
}

// promptTokens counts a request by the rule in the package's documentation.
func promptTokens(req *Request) int64 {
	var c counter
	count := func(s string) { c.gap(); c.add(s) }
	for _, m := range req.Messages {
		c.n++
		count(m.Text)
		for _, call := range m.Calls {
			count(call.Name)
			count(call.Arguments)
		}
	}
	for _, t := range req.Tools {
		count(t.Name)
		count(t.Description)
	}
	return c.n
}
