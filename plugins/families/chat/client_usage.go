package chat

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// readUsage reads a usage object into disjoint classes: what was read from a cache is a part of
// prompt_tokens on the wire, and here no longer a part of Input (GAP-109). A count that is missing or no
// count stays nil; nil comes back when there is none at all.
func readUsage(v jsonview.View) *llm.Usage {
	var prompt, cached, completion, reasoning *int64
	for name, member := range v.Members() {
		switch name {
		case "prompt_tokens":
			prompt = readCount(member)
		case "completion_tokens":
			completion = readCount(member)
		case "prompt_tokens_details":
			if n := readCount(member.Get("cached_tokens")); n != nil {
				cached = n
			}
		case "prompt_cache_hit_tokens": // the same number under an older name
			if cached == nil {
				cached = readCount(member)
			}
		case "completion_tokens_details":
			reasoning = readCount(member.Get("reasoning_tokens"))
		}
	}
	if prompt == nil && completion == nil {
		return nil
	}
	usage := &llm.Usage{Input: prompt, Output: completion, Reasoning: reasoning}
	if prompt != nil && cached != nil {
		usage.CacheRead = llm.Count(min(*cached, *prompt))
		usage.Input = llm.Count(*prompt - *usage.CacheRead)
	}
	return usage
}

func readCount(v jsonview.View) *int64 {
	n, ok := v.Int()
	if !ok || n < 0 {
		return nil
	}
	return &n
}
