package openai

import (
	"maps"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/families/gemini"
	"github.com/fareway/fareway/plugins/llm"
)

// preset is how a service differs from what base_url alone would make of it. What a service may do and the codec
// takes anyway (reasoning as `reasoning_content` or `reasoning`, cached tokens under each of their names, usage in a
// chunk of its own, in every one, or beside x_groq, words of its own for a reply's end) needs no entry.
type preset struct {
	base    string   // base_url where the operator sets none; "" where each customer has an address of their own
	refuses []string // what the service does not take beside what none does (chat.Refuses), see llm.Restrictions
	// ofModel is what is different for a model; nil for nothing.
	ofModel func(e *endpoint.Endpoint, model string)
	header  string // of the key, "" for Authorization with a bearer token
	keyless bool   // it needs no key
	// deployments: the model stands in the path, below /openai/deployments, and an api-version in the query.
	deployments bool
	// returns: it wants what was thought before calls back with their results.
	returns bool
	// strict: it knows `strict` of tools (OpenAI's reference; mistralai/client-python, docs/models/function.md; assumed
	// of OpenRouter, which hands it on).
	strict bool
	// generations: it keeps records of replies, see Receipts.
	generations bool
	// timings: it says with each chunk what it has done so far, see endpoint.Endpoint.
	timings bool
}

// The ways in which services differ.
var (
	// renamed is the allowance as max_completion_tokens.
	renamed = []string{"max_tokens"}
	// unasked is usage in a stream that is always there, and no setting to ask for it.
	unasked = []string{"stream_options"}
	// flat is a schema as OpenAI's services want it: no unions at its root, and arrays of something (litellm #19103,
	// claude-code #40075, zed #28521).
	flat = []string{"schema_root_unions", "schema_without_items"}
	// templated is a conversation as the chat templates of models want it, of which the strict ones raise an error: one
	// system message, which comes first (vllm #41114, litellm #26879), then the user and the assistant in turns, the user
	// first (templates of Qwen, Mistral and Gemma).
	templated = []string{"later_system", "system_alone", "assistant_first", "repeated_roles"}
	// grammared is what a server does not take that makes grammars of tools' schemas, as llama.cpp's does
	// (ggml-org/llama.cpp, tools/server/README.md and common/json-schema-to-grammar.cpp; #25746, #27087).
	grammared = []string{"schema_grammar_limits"}
)

// presets are the services that have a name here. Each says where it comes from and when that was read; what no public
// document says is marked as assumed.
var presets = map[string]preset{
	// The API reference, "Create chat completion": max_tokens is deprecated, and refused by reasoning models. Known to
	// the codec before; read in the reference that the family's schema tests check (plugins/families/schema), November
	// 2026.
	"openai": {base: "https://api.openai.com/v1", refuses: slices.Concat(renamed, flat), strict: true},
	// learn.microsoft.com, "Azure OpenAI REST API reference" (data plane 2024-10-21, the latest dated release), and
	// docs/azure.md of openai/openai-node (the API "v1", in which the deployment is the model and no version is sent);
	// November 2026. Key in the header api-key. Assumed: deployments of reasoning models are why max_completion_tokens is
	// sent.
	"azure": {refuses: slices.Concat(renamed, flat), header: "Api-Key", deployments: true, strict: true},
	// openrouter.ai/docs/use-cases/usage-accounting, November 2026: usage comes with every reply and stream_options has
	// no effect; prompt_tokens_details has cached_tokens and cache_write_tokens.
	"openrouter": {base: "https://openrouter.ai/api/v1", refuses: slices.Concat(unasked, flat), generations: true,
		strict: true},
	// groq/groq-python, types/chat (generated from Groq's OpenAPI), November 2026: usage as asked for, and in x_groq of
	// the last chunk; `reasoning`. Assumed: max_tokens is deprecated for max_completion_tokens, and both are taken.
	"groq": {base: "https://api.groq.com/openai/v1", refuses: renamed},
	// mistralai/client-python, docs/models/chatcompletionstreamrequest.md, November 2026: max_tokens, and no
	// stream_options; usage is in the last chunk. Assumed: thoughts stand in `content`, as parts of type thinking.
	// Ids of calls are of nine letters or digits (openclaw #23740, langchain #24668); no message of the user directly
	// behind a tool's (hermes #20154, avante #2695); one of the assistant has content or calls, and is not the last one
	// without "prefix" (AiNiee #641, agno #2285); the system does not speak behind the assistant (swarmauri-sdk #162).
	"mistral": {base: "https://api.mistral.ai/v1", strict: true, refuses: slices.Concat(unasked, []string{
		"call_ids_unlike_9", "user_after_result", "empty_assistant", "assistant_last", "later_system"})},
	// chat-deep.ai/guide/create-chat-completion (checked against api-docs.deepseek.com, 27 April 2026), November 2026:
	// stream_options and max_tokens, `reasoning_content`, prompt_cache_hit_tokens beside cached_tokens, json_object and
	// no json_schema. A reply that ends with insufficient_system_resource has failed (GAP-114). api-docs.deepseek.com,
	// "Thinking mode", November 2026: reasoning_content of a reply with calls is demanded back. Its reference, "Create
	// chat completion": content is one string. No call is demanded while a model thinks, which it does unless it is told
	// not to (deepseek-ai/DeepSeek-V3 #1376).
	"deepseek": {base: "https://api.deepseek.com/v1", returns: true,
		refuses: []string{"text_parts", "forced_tool_choice_thinking"}, ofModel: thinker("reasoner")},
	// Kimi. platform.moonshot.ai by anomalyco/opencode issue 25758 and java.agentscope.io, November 2026:
	// max_completion_tokens, stream_options; reasoning_content of a reply with calls is demanded back.
	// No message of the assistant is empty (kimi-code #1985); no call is demanded while a model thinks (oh-my-pi #1077).
	"moonshot": {base: "https://api.moonshot.ai/v1", returns: true, ofModel: thinker("thinking"),
		refuses: slices.Concat(renamed, []string{"empty_assistant", "forced_tool_choice_thinking"})},
	// ai.google.dev/gemini-api/docs/openai, November 2026: the address, stream_options, and both names of the allowance.
	// Its requests become those of Gemini's own API, so that it refuses what that does (families/gemini, Refuses), and in
	// schemas what is not of OpenAPI (kilocode #5333, google-api-python-client #2570); content is no null (iovdin/tune
	// #4, langchain PR 30803). Calls come without an index (OpenMAIC #1556), their signatures in extra_content, and they
	// end with "stop" (googleapis/python-genai #2868). Errors are lists of one (securo #884). What was thought is in the
	// total of usage only. Assumed: of the rest it takes what OpenAI takes.
	"gemini": {base: "https://generativelanguage.googleapis.com/v1beta/openai",
		refuses: []string{"null_content", "schema_beyond_openapi"}, ofModel: geminis},
	// docs.together.ai/docs/inference/openai-compatibility, November 2026. Assumed: max_tokens, stream_options,
	// `reasoning`, and "eos" for the natural end of some models.
	"together": {base: "https://api.together.ai/v1"},
	// docs.fireworks.ai by pkg.go.dev/github.com/Tangerg/scope/models/fireworks and docs.getbifrost.ai, November 2026:
	// the address and `reasoning_content`. Assumed: max_tokens and stream_options.
	"fireworks": {base: "https://api.fireworks.ai/inference/v1"},
	// docs.rs/crate/xai-openapi (types of xAI's API) and Google's "Reasoning for Grok models", November 2026:
	// reasoning_tokens are no part of completion_tokens. Assumed: max_tokens is deprecated for max_completion_tokens.
	"xai": {base: "https://api.x.ai/v1", refuses: renamed},

	// Assumed of all four, which follow OpenAI: max_tokens and stream_options are taken. Their ports are the defaults.
	// docs.vllm.ai, "OpenAI-Compatible Server": cached tokens only with --enable-prompt-tokens-details.
	"vllm": {base: "http://127.0.0.1:8000/v1", keyless: true, refuses: templated},
	// ggml-org/llama.cpp, tools/server/README.md. A tool_choice that names a tool is read as auto. timings_per_token, and
	// what came from the cache beside what was done of the prompt: pull request 15827.
	"llamacpp": {base: "http://127.0.0.1:8080/v1", keyless: true, timings: true,
		refuses: slices.Concat(templated, grammared, []string{"named_tool_choice"})},
	// lmstudio.ai/docs/developer, November 2026. It is built on llama.cpp (qwen-code PR#10275); content is no null
	// (lmstudio-bug-tracker #261).
	"lmstudio": {base: "http://127.0.0.1:1234/v1", keyless: true,
		refuses: slices.Concat(templated, grammared, []string{"null_content"})},
	// docs.ollama.com, "OpenAI compatibility": tool_choice is not read.
	"ollama": {base: "http://127.0.0.1:11434/v1", keyless: true, refuses: []string{"forced_tool_choice"}},
}

// thinker is for models with that in their names, which cannot be kept from thinking, and so not made to call a tool.
func thinker(part string) func(*endpoint.Endpoint, string) {
	return func(e *endpoint.Endpoint, model string) {
		if strings.Contains(model, part) {
			e.Refuses = append(slices.Clip(e.Refuses), llm.RefusesForcedChoice)
		}
	}
}

// geminis is for Google's models, and for those that sign their calls (families/gemini, Unsigned).
func geminis(e *endpoint.Endpoint, model string) {
	e.Refuses = append(slices.Clip(e.Refuses), gemini.Refuses(model)...)
	if gemini.Signs(model) {
		e.LostCall = `{"extra_content":{"google":{"thought_signature":"` + gemini.Unsigned + `"}}}`
	}
}

// Presets lists the names of the services that have a preset.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }
