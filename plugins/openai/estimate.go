package openai

import (
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

// estimated is the usage of a reply as this provider counts it.
func estimated(req *llm.Request, out *tokens.Output) *llm.Usage {
	total, reasoning := out.Count()
	usage := &llm.Usage{Input: llm.Count(tokens.Estimate(req)), Output: llm.Count(total), Estimated: true}
	if reasoning > 0 {
		usage.Reasoning = llm.Count(reasoning)
	}
	return usage
}
