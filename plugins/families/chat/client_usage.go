package chat

import (
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
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
	var total jsonview.View
	for name, member := range v.Members() {
		switch name {
		case mainCounts.Input:
			prompt = counts.Read(name, member)
		case mainCounts.Output:
			completion = counts.Read(name, member)
		case "prompt_tokens_details":
			read = counts.Read("prompt_tokens_details.cached_tokens", member.Get("cached_tokens"))
			written = counts.Read("prompt_tokens_details.cache_write_tokens", member.Get("cache_write_tokens"))
		case "prompt_cache_hit_tokens", "cached_tokens": // DeepSeek's and Moonshot's names for the same number
			hit = counts.Read(name, member)
		case "completion_tokens_details":
			reasoning = counts.Read("completion_tokens_details.reasoning_tokens", member.Get("reasoning_tokens"))
		case "total_tokens":
			total = member
		}
	}
	if read == nil {
		read = hit
	}
	if apart(prompt, completion, reasoning, total) {
		completion = llm.Count(*completion + *reasoning)
	}
	return counts.Usage(reply.Classes(prompt, read, written, completion, reasoning))
}

// apart reports whether reasoning is no part of the completion's count, as xAI has it (Google's documentation of Grok
// on Vertex AI, "Reasoning for Grok models"): then the total is the sum of all three.
func apart(prompt, completion, reasoning *int64, total jsonview.View) bool {
	sum, ok := total.Int()
	return ok && prompt != nil && completion != nil && llm.Tokens(reasoning) > 0 && sum == *prompt+*completion+*reasoning
}
