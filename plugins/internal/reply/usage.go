package reply

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// Counts reads the counts of one usage object of an upstream. What is no count makes the whole object no usage
// (GAP-111). The zero value is ready to use.
type Counts struct {
	flaw string // of the first count that is none
}

// Object reports whether a usage object was sent at all. What is no object is no usage.
func (c *Counts) Object(v jsonview.View) bool {
	if v.Set() && v.Kind() != jsonview.Object {
		c.flaw = "usage is not an object"
	}
	return v.Set()
}

// Read reads the count of that name: nil for one that is missing or null, which says nothing.
func (c *Counts) Read(name string, v jsonview.View) *int64 {
	if !v.Set() {
		return nil
	}
	n, ok := v.Int()
	if ok && 0 <= n && n <= llm.MaxCount {
		return &n
	}
	if c.flaw == "" {
		c.flaw = name + " " + problem(v)
	}
	return nil
}

// problem says why a value is no count of tokens, without the value.
func problem(v jsonview.View) string {
	f, ok := v.Float()
	switch {
	case v.Kind() != jsonview.Number:
		return "is not a number"
	case !ok || f >= llm.MaxCount:
		return "is above 2^53"
	case f < 0:
		return "is negative"
	}
	return "is not a whole number"
}

// Usage is the usage of which these counts were read, in disjoint classes.
func (c *Counts) Usage(u llm.Usage) *llm.Usage {
	if c.flaw != "" {
		return &llm.Usage{Flaw: c.flaw}
	}
	return &u
}

// Classes makes disjoint classes of counts in which, on the wire, what was read from a cache and what was written to
// one is contained in the prompt (GAP-109). Counts beyond the prompt's are cut to it. Without the prompt's count there
// are no classes of it.
func Classes(prompt, read, write, output, reasoning *int64) llm.Usage {
	usage := llm.Usage{Output: output, Reasoning: reasoning}
	if prompt == nil {
		return usage
	}
	left := *prompt
	take := func(part *int64) *int64 {
		if part == nil {
			return nil
		}
		n := min(*part, left)
		left -= n
		return &n
	}
	usage.CacheRead, usage.CacheWrite = take(read), take(write)
	usage.Input = llm.Count(left)
	return usage
}

// Main are a family's names of the two counts without which there is no usage of a reply.
type Main struct{ Input, Output string }

// Expected takes the usage that a family tells before the reply, nil for none: its input may be an estimate, and its
// output says nothing of what is to come. It holds for a reply that fails, and is no bill for one that does not.
func (s *Stream) Expected(u *llm.Usage) { s.usage, s.expected = u, true }

// Used takes a usage object as it was read; nil is none. Usage that is none makes what was said before no bill,
// unless nothing was produced since.
func (s *Stream) Used(u *llm.Usage) {
	switch {
	case u == nil || u.Flaw != "" && s.usage.Complete() && !s.unbilled:
		return
	case s.expected && u.Complete():
		s.usage = u
	default:
		s.usage = s.usage.Merge(u)
	}
	s.expected = s.expected && u.Output == nil
	s.unbilled = s.unbilled && !u.Complete()
}

// sendUsage sends what the attempt has used, once, before the end or the error: work done before a failure counts.
// Of a reply that produced something, half a usage is none (GAP-111), and so is what was expected of a whole one.
func (s *Stream) sendUsage() error {
	u := s.usage
	s.usage = nil
	switch {
	case u == nil || u.Flaw != "" || !s.produced:
	case u.Input == nil:
		u = &llm.Usage{Flaw: s.main.Input + " is missing"}
	case u.Output == nil, s.expected && s.failed == nil:
		u = &llm.Usage{Flaw: s.main.Output + " is missing"}
	}
	if u == nil || u.Flaw == "" && !u.Known() {
		return nil
	}
	return s.send(llm.Event{Kind: llm.EventUsage, Usage: u})
}
