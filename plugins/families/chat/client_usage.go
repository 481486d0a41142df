package chat

import (
	"github.com/fareway/fareway/plugins/families/internal/reply"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

var mainCounts = reply.Main{Input: "prompt_tokens", Output: "completion_tokens"}

// readUsage reads a usage object into disjoint classes: what was read from a cache or written to one is a part
// of prompt_tokens on the wire, and here no longer a part of Input (GAP-109). A count that is missing stays nil; nil
// comes back when there is no usage at all.
func readUsage(v jsonview.View) *llm.Usage {
	var counts reply.Counts
	if !counts.Object(v) {
		return nil
	}
	var prompt, read, hit, written, completion, reasoning *int64
	for name, member := range v.Members() {
		switch name {
		case mainCounts.Input:
			prompt = counts.Read(name, member)
		case mainCounts.Output:
			completion = counts.Read(name, member)
		case "prompt_tokens_details":
			read = counts.Read("prompt_tokens_details.cached_tokens", member.Get("cached_tokens"))
			written = counts.Read("prompt_tokens_details.cache_write_tokens", member.Get("cache_write_tokens"))
		case "prompt_cache_hit_tokens": // the same number under an older name
			hit = counts.Read(name, member)
		case "completion_tokens_details":
			reasoning = counts.Read("completion_tokens_details.reasoning_tokens", member.Get("reasoning_tokens"))
		}
	}
	if read == nil {
		read = hit
	}
	return counts.Usage(reply.Classes(prompt, read, written, completion, reasoning))
}
