package reply

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// Count reads a count of tokens; nil for a value that is missing or no count.
func Count(v jsonview.View) *int64 {
	n, ok := v.Int()
	if !ok || n < 0 {
		return nil
	}
	return &n
}

// Usage makes disjoint classes of counts in which, on the wire, what was read from a cache and what was written to
// one is contained in the prompt (GAP-109). Counts beyond the prompt's are cut to it. Without the prompt's count there
// are no classes of it; without that and the output's there is no usage, nil.
func Usage(prompt, read, write, output, reasoning *int64) *llm.Usage {
	if prompt == nil && output == nil {
		return nil
	}
	usage := &llm.Usage{Output: output, Reasoning: reasoning}
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
