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

// Split makes disjoint classes of a prompt in which, on the wire, what was read from a cache and what was
// written to one is contained (GAP-109). Counts beyond the prompt's are cut to it. Without the prompt's count
// there are no classes.
func Split(prompt, read, write *int64) (input, cacheRead, cacheWrite *int64) {
	if prompt == nil {
		return nil, nil, nil
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
	cacheRead, cacheWrite = take(read), take(write)
	return llm.Count(left), cacheRead, cacheWrite
}
