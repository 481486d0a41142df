package reply

import (
	"cmp"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// Counting is how a dialect publishes its counts of tokens: the reading of a usage object whose own numbers do not say
// another one (GAP-125).
type Counting struct {
	Input, Output string // its names of the two counts without which there is no usage of a reply
	// CacheBeside: what was read from a cache and written to one stands beside the count of the input, not within it.
	CacheBeside bool
	// ReasoningBeside: what was thought stands beside the count of the output.
	ReasoningBeside bool
}

// counts are what a usage object says, whatever the vendor.
type counts struct {
	n     [classes]int64
	said  [classes]bool
	total string // the vendor's name of it
	flaw  string // of the first count that is none
}

// Read reads a usage object that stands outside of a reply; nil for none, and what is no usage is not Known.
func (d Counting) Read(v jsonview.View) *llm.Usage { return d.usage(v, 0) }

// usage reads a usage object, nil for none. What is no count makes the whole object no usage (GAP-111). allowance is
// the most that the output may come to where nothing but the total says so, in tokens; 0 for no bound.
func (d Counting) usage(v jsonview.View, allowance int64) *llm.Usage {
	if !v.Set() {
		return nil
	}
	if v.Kind() != jsonview.Object {
		return &llm.Usage{Flaw: "usage is not an object"}
	}
	var c counts
	for name, value := range v.Members() {
		m, ok := names[name]
		switch {
		case !ok:
		case m.in == nil:
			c.take(m, value, name == d.Input || name == d.Output)
		default:
			c.within(m.in, value)
		}
	}
	if c.flaw != "" {
		return &llm.Usage{Flaw: c.flaw}
	}
	return c.read(d, allowance)
}

// within takes the counts of an object in a usage object.
func (c *counts) within(known map[string]member, v jsonview.View) {
	for name, value := range v.Members() {
		m, ok := known[name]
		switch {
		case !ok:
		case m.in == nil:
			c.take(m, value, false)
		default:
			c.within(m.in, value)
		}
	}
}

// take takes a count. Where several names of a class have one, the dialect's own counts, and else the largest: some
// vendors fill in zeros. One that is null says nothing.
func (c *counts) take(m member, v jsonview.View, own bool) {
	if !v.Set() {
		return
	}
	n, ok := v.Int()
	if !ok || n < 0 || n > llm.MaxCount {
		if m.class != total && m.class != cacheMiss { // which are witnesses only
			c.flaw = cmp.Or(c.flaw, m.path+" "+problem(v))
		}
		return
	}
	at := &c.n[m.class]
	switch {
	case m.class == cacheWritePart:
		*at = plus(*at, n)
	case own && n > 0:
		*at = n
	case m.class == prompt || m.class == output:
		if !c.said[m.class] || *at == 0 {
			*at = n
		}
	default:
		*at = max(*at, n)
	}
	c.said[m.class] = true
	if m.class == total {
		c.total = m.path
	}
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

// read takes the reading of the counts under which they add up to their total, in the order of GAP-125.
func (c *counts) read(d Counting, allowance int64) *llm.Usage {
	c.settle(d.CacheBeside)
	if !c.said[total] || !c.said[prompt] {
		return c.classes(d)
	}
	beyond := c.n[total] - c.sum(d.CacheBeside, d.ReasoningBeside)
	if other, ok := c.adding(d); ok && c.said[output] {
		return c.classes(other)
	}
	// No prompt has 0 tokens: of one that nobody has counted, what is beyond may be that as well as thoughts.
	counted := c.n[prompt]+c.n[cacheRead]+c.n[cacheWrite] > 0
	switch {
	case beyond <= 0:
	case counted && !c.said[output]:
		// The whole of it, with what was thought. A total that is no more than the prompt says nothing of the output.
		c.n[output], c.said[output] = c.n[total]-c.sum(d.CacheBeside, false), true
		d.ReasoningBeside = false
	case counted && (allowance == 0 || c.outputUnder(d.ReasoningBeside)+beyond <= allowance):
		thought := c.n[reasoning] + beyond
		c.n[output], c.n[reasoning], c.said[reasoning] = c.outputUnder(d.ReasoningBeside)+beyond, thought, true
		d.ReasoningBeside = false
	default:
		u := c.classes(d)
		u.Doubt = c.total + " is more than the counts that it is the sum of"
		return u
	}
	return c.classes(d)
}

// adding is the reading whose parts add up to the total: the published one, the caches the other way, the reasoning
// the other way, both.
func (c *counts) adding(d Counting) (Counting, bool) {
	for _, turned := range [...][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		cache, thought := d.CacheBeside != turned[0], d.ReasoningBeside != turned[1]
		// What stands within a count is no more than it.
		inside := (cache || c.n[cacheRead]+c.n[cacheWrite] <= c.n[prompt]) && (thought || c.n[reasoning] <= c.n[output])
		if c.sum(cache, thought) == c.n[total] && (inside || turned == [2]bool{}) {
			d.CacheBeside, d.ReasoningBeside = cache, thought
			return d, true
		}
	}
	return d, false
}

// settle makes each class one count.
func (c *counts) settle(cacheBeside bool) {
	if c.said[cacheWritePart] {
		c.n[cacheWrite], c.said[cacheWrite] = max(c.n[cacheWrite], c.n[cacheWritePart]), true
	}
	if !c.said[prompt] && c.said[cacheMiss] {
		c.n[prompt], c.said[prompt] = c.n[cacheMiss], true
		if !cacheBeside {
			c.n[prompt] = plus(c.n[prompt], c.n[cacheRead])
		}
	}
	c.n[prompt] = plus(c.n[prompt], c.n[toolPrompt])
}

// sum is what the counts come to under a reading.
func (c *counts) sum(cacheBeside, reasoningBeside bool) int64 {
	n := c.n[prompt] + c.outputUnder(reasoningBeside)
	if cacheBeside {
		n += c.n[cacheRead] + c.n[cacheWrite]
	}
	return n
}

// outputUnder is the output under a reading.
func (c *counts) outputUnder(reasoningBeside bool) int64 {
	if reasoningBeside {
		return plus(c.n[output], c.n[reasoning])
	}
	return c.n[output]
}

// classes are the counts in disjoint classes (GAP-109). Cached counts within the prompt's and beyond it are cut to it;
// without the prompt's there are none.
func (c *counts) classes(d Counting) *llm.Usage {
	u := &llm.Usage{Reasoning: c.count(reasoning, c.n[reasoning])}
	u.Output = c.count(output, c.outputUnder(d.ReasoningBeside))
	if d.CacheBeside {
		u.Input = c.count(prompt, c.n[prompt])
		u.CacheRead, u.CacheWrite = c.count(cacheRead, c.n[cacheRead]), c.count(cacheWrite, c.n[cacheWrite])
		return u
	}
	if !c.said[prompt] {
		return u
	}
	read := min(c.n[cacheRead], c.n[prompt])
	write := min(c.n[cacheWrite], c.n[prompt]-read)
	u.CacheRead, u.CacheWrite = c.count(cacheRead, read), c.count(cacheWrite, write)
	u.Input = llm.Count(c.n[prompt] - read - write)
	return u
}

// count is n, nil where nothing was said of the class.
func (c *counts) count(of class, n int64) *int64 {
	if !c.said[of] {
		return nil
	}
	return llm.Count(n)
}

func plus(a, b int64) int64 { return min(a+b, llm.MaxCount) }

// Expected is Used for the usage that a family tells before the reply: its output says nothing of what is to come
// (GAP-124).
func (s *Stream) Expected(v jsonview.View) {
	s.Used(v)
	s.expected = s.usage.Known()
}

// Used takes a usage object; nothing, or null, is none. Several of them come together as of llm.Usage.Merge.
func (s *Stream) Used(v jsonview.View) {
	u := s.counting.usage(v, s.allowance)
	switch {
	case u == nil:
		return
	case u.Flaw != "" && s.usage.Known():
		s.garbled = cmp.Or(s.garbled, u.Flaw)
	case u.Output == nil && u.Reasoning != nil && s.counting.ReasoningBeside && !s.visible:
		u.Output = u.Reasoning // a count of zero is left out where reasoning stands beside it
	}
	s.usage = s.usage.Merge(u)
	s.expected = s.expected && u.Output == nil
}

// timed is how a llama.cpp server counts what it has done so far.
var timed = Counting{Input: "timings.prompt_n", Output: "timings.predicted_n", CacheBeside: true}

// Timed takes what an upstream has done so far, by its own clock: usage of a reply that ends without any, because it
// broke off or nobody wanted more of it. What does not say what came from a cache does not say what the prompt was.
func (s *Stream) Timed(v jsonview.View) {
	if u := timed.usage(v, 0); u.Complete() && u.CacheRead != nil {
		s.done = s.done.Merge(u)
	}
}

// Worked reports whether the upstream has said what it has done so far.
func (s *Stream) Worked() bool { return s.done != nil }

// Allowance bounds what the total alone says of the output, in tokens: what the upstream was asked for at most, unless
// its route bills beyond that. 0 is no bound.
func (s *Stream) Allowance(tokens int64) { s.allowance = tokens }

// Metered reports whether the upstream has told what a whole reply used.
func (s *Stream) Metered() bool { return s.usage.Complete() && !s.expected }

// sendUsage sends what the attempt has used, once, before the end or the error: work done before a failure counts, of
// what was told before the reply its input. Of a reply that produced something, half a usage is none (GAP-111), and so
// is what was expected of a whole one.
func (s *Stream) sendUsage() error {
	u := s.usage
	if s.done != nil && (!u.Complete() || s.expected) {
		u, s.expected = s.done, false
	}
	s.usage, s.done = nil, nil
	if u == nil {
		return nil
	}
	if s.expected && s.failed != nil {
		begun := *u
		begun.Output, begun.Reasoning = llm.Count(0), nil
		u = &begun
	}
	switch {
	case u.Flaw != "" || !s.produced:
	case u.Input == nil:
		u = &llm.Usage{Flaw: cmp.Or(s.garbled, s.counting.Input+" is missing")}
	case u.Output == nil, s.expected && s.failed == nil:
		u = &llm.Usage{Flaw: cmp.Or(s.garbled, s.counting.Output+" is missing")}
	}
	if u.Flaw == "" && !u.Known() {
		return nil
	}
	return s.send(llm.Event{Kind: llm.EventUsage, Usage: u})
}
