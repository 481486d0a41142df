package reply

import "strings"

// class is what a count of a usage object counts, as far as its name says.
type class uint8

const (
	prompt         class = iota
	toolPrompt           // what tools of the service added to the prompt, beside it
	cacheRead            // of the prompt, or beside it
	cacheMiss            // the rest of the prompt
	cacheWrite           // of the prompt, or beside it
	cacheWritePart       // what was written for so long; the parts are all of what was written
	output
	reasoning // of the output, or beside it
	total
	classes // how many there are
)

// vendors are the names that vendors have for a class: members of a usage object, or of an object in it. Some dialects
// have the same name for the prompt with and without what came from a cache, which is theirs to say: see Counting.
var vendors = []struct {
	class class
	names string
}{
	// OpenAI, API reference, chat completions, "usage"; most others after it.
	{prompt, "prompt_tokens"}, {output, "completion_tokens"}, {total, "total_tokens"},
	{cacheRead, "prompt_tokens_details.cached_tokens"}, {reasoning, "completion_tokens_details.reasoning_tokens"},
	// OpenAI, API reference, responses, "usage"; Anthropic, API reference, messages, "usage".
	{prompt, "input_tokens"}, {output, "output_tokens"},
	{cacheRead, "input_tokens_details.cached_tokens"}, {reasoning, "output_tokens_details.reasoning_tokens"},
	// OpenAI, "Prompt caching", since GPT-5.6; OpenRouter, "Usage accounting" (gptme PR 2250, litellm PR 23799).
	{cacheWrite, "prompt_tokens_details.cache_write_tokens input_tokens_details.cache_write_tokens"},
	// Anthropic, API reference, messages, "usage"; LiteLLM at the top level of a chat's (litellm 39505, langchainjs PR
	// 11194), with the parts in the details.
	{cacheRead, "cache_read_input_tokens"}, {cacheWrite, "cache_creation_input_tokens"},
	{cacheWritePart, "cache_creation.ephemeral_5m_input_tokens cache_creation.ephemeral_1h_input_tokens"},
	{reasoning, "output_tokens_details.thinking_tokens"},
	{cacheWrite, "prompt_tokens_details.cache_creation_tokens input_tokens_details.cache_creation_tokens"},
	// Alibaba, Model Studio, "Context cache": what was written, and for how long (litellm 40090).
	{cacheWrite, "prompt_tokens_details.cache_creation_input_tokens input_tokens_details.cache_creation_input_tokens"},
	{cacheWritePart, "prompt_tokens_details.cache_creation.ephemeral_5m_input_tokens " +
		"prompt_tokens_details.cache_creation.ephemeral_1h_input_tokens " +
		"input_tokens_details.cache_creation.ephemeral_5m_input_tokens " +
		"input_tokens_details.cache_creation.ephemeral_1h_input_tokens"},
	// Relays of Anthropic's replies that put its own names into the details.
	{cacheRead, "prompt_tokens_details.cache_read_input_tokens input_tokens_details.cache_read_input_tokens"},
	// Mistral, API reference, "UsageInfo" (vercel/ai 14382, PR 14889).
	{cacheRead, "num_cached_tokens prompt_token_details.cached_tokens"},
	// One API's descendants (QuantumNous/new-api, dto.Usage).
	{cacheWrite, "prompt_tokens_details.cached_creation_tokens input_tokens_details.cached_creation_tokens"},
	// DeepSeek, API reference, "Create Chat Completion": the two are the prompt (hermes-agent PR 65676).
	{cacheRead, "prompt_cache_hit_tokens"}, {cacheMiss, "prompt_cache_miss_tokens"},
	// Moonshot, "Chat API"; Perplexity and others name what was thought beside the rest, too.
	{cacheRead, "cached_tokens"}, {reasoning, "reasoning_tokens"},
	// Google, Gemini API, "UsageMetadata", and as its Python library writes it.
	{prompt, "promptTokenCount prompt_token_count"}, {output, "candidatesTokenCount candidates_token_count"},
	{total, "totalTokenCount total_token_count"}, {reasoning, "thoughtsTokenCount thoughts_token_count"},
	{cacheRead, "cachedContentTokenCount cached_content_token_count"},
	{toolPrompt, "toolUsePromptTokenCount tool_use_prompt_token_count"},
	// Amazon Bedrock, API reference, "TokenUsage", and as its older replies have it.
	{prompt, "inputTokens"}, {output, "outputTokens"}, {total, "totalTokens"},
	{cacheRead, "cacheReadInputTokens cacheReadInputTokenCount"},
	{cacheWrite, "cacheWriteInputTokens cacheWriteInputTokenCount"},
	// OpenRouter, API reference, "Get request & usage metadata for a generation": its records, in the model's own tokens.
	{prompt, "native_tokens_prompt"}, {output, "native_tokens_completion"},
	{cacheRead, "native_tokens_cached"}, {reasoning, "native_tokens_reasoning"},
	// Ollama, API reference, "/api/chat". The prompt's has been the whole prompt's since July 2024, what was in the cache
	// included (pull request 5371), but for some versions of May 2026, whose smaller count is taken as it is; before, it
	// was absent where everything was in the cache. What was in it has a count of its own since September 2026.
	{prompt, "prompt_eval_count"}, {output, "eval_count"}, {cacheRead, "prompt_eval_cached_count"},
	// llama.cpp, tools/server, "timings": what was done of the prompt, and of the output; what was in the cache stands
	// beside it, since September 2025 (pull request 15827).
	{prompt, "prompt_n"}, {output, "predicted_n"}, {cacheRead, "cache_n"},
}

// member is what a member of a usage object holds: a count, or an object with counts.
type member struct {
	class class
	path  string // its name from the usage on, for messages
	in    map[string]member
}

// names are the vendors' names as they stand in a usage object.
var names = func() map[string]member {
	all := make(map[string]member)
	for _, v := range vendors {
		for path := range strings.FieldsSeq(v.names) {
			steps := strings.Split(path, ".")
			at := all
			for _, step := range steps[:len(steps)-1] {
				if at[step].in == nil {
					at[step] = member{in: make(map[string]member)}
				}
				at = at[step].in
			}
			at[steps[len(steps)-1]] = member{class: v.class, path: path}
		}
	}
	return all
}()
