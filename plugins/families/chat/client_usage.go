package chat

import (
	"github.com/fareway/fareway/plugins/families/internal/reply"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// readUsage reads a usage object into disjoint classes: what was read from a cache or written to one is a part
// of prompt_tokens on the wire, and here no longer a part of Input (GAP-109). A count that is missing or no
// count stays nil; nil comes back when there is none at all.
func readUsage(v jsonview.View) *llm.Usage {
	var prompt, read, written, completion, reasoning *int64
	for name, member := range v.Members() {
		switch name {
		case "prompt_tokens":
			prompt = reply.Count(member)
		case "completion_tokens":
			completion = reply.Count(member)
		case "prompt_tokens_details":
			if n := reply.Count(member.Get("cached_tokens")); n != nil {
				read = n
			}
			written = reply.Count(member.Get("cache_write_tokens"))
		case "prompt_cache_hit_tokens": // the same number under an older name
			if read == nil {
				read = reply.Count(member)
			}
		case "completion_tokens_details":
			reasoning = reply.Count(member.Get("reasoning_tokens"))
		}
	}
	return reply.Usage(prompt, read, written, completion, reasoning)
}
