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
	all, reasoning  int64
	cached, written *int64 // of the prompt, nil where no cache is kept
	words           map[source]*counter
}

// source is one of the texts of a completion, whose pieces may be interleaved.
type source struct {
	kind  StepKind
	index int
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
	if m.words == nil {
		m.words = map[source]*counter{}
	}
	from := source{s.Do, s.Index}
	c := m.words[from]
	if c == nil {
		c = &counter{}
		m.words[from] = c
	}
	if limit >= 0 {
		limit -= m.all - c.n // what is left to this text
	}
	before := c.n
	text = c.take(text, limit)
	m.all += c.n - before
	if s.Do == StepReasoning {
		m.reasoning += c.n - before
	}
	return text
}

// usage is what was counted so far.
func (m *meter) usage(prompt int64) Usage {
	u := Usage{Prompt: prompt, Completion: m.all, Cached: m.cached, Written: m.written}
	if n := m.reasoning; n > 0 {
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
