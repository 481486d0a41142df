package reply

import (
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// finishes are the words that services are known to end a reply with, whatever family they speak, in lower case.
// What is not here is no proper end: "error", "abort", "cancelled" and "insufficient_system_resource" least of all
// (GAP-114).
var finishes = map[string]llm.FinishReason{
	"stop":          llm.FinishStop,
	"end_turn":      llm.FinishStop,
	"stop_sequence": llm.FinishStop,
	"pause_turn":    llm.FinishStop, // the upstream paused by its own will
	"complete":      llm.FinishStop,
	"completed":     llm.FinishStop,
	"eos":           llm.FinishStop,
	"eos_token":     llm.FinishStop,

	"length":                        llm.FinishLength,
	"max_tokens":                    llm.FinishLength,
	"max_output_tokens":             llm.FinishLength,
	"max_completion_tokens":         llm.FinishLength,
	"max_length":                    llm.FinishLength,
	"model_length":                  llm.FinishLength,
	"model_context_window_exceeded": llm.FinishLength, // cut short as at the allowance

	"tool_calls":    llm.FinishToolCalls,
	"tool_call":     llm.FinishToolCalls,
	"tool_use":      llm.FinishToolCalls,
	"function_call": llm.FinishToolCalls,

	"content_filter":       llm.FinishPolicy,
	"content_filtered":     llm.FinishPolicy,
	"guardrail_intervened": llm.FinishPolicy,
	"prohibited_content":   llm.FinishPolicy,
	"refusal":              llm.FinishPolicy,
	"safety":               llm.FinishPolicy,
	"sensitive":            llm.FinishPolicy,
}

// Finish reads the word with which an upstream ends a reply; one that is not known comes back as it is, cut to what
// an event may carry.
func Finish(word string) llm.FinishReason {
	if reason, ok := finishes[strings.ToLower(word)]; ok {
		return reason
	}
	if len(word) > llm.MaxFinishReason {
		word = strings.ToValidUTF8(word[:llm.MaxFinishReason], "")
	}
	return llm.FinishReason(word)
}

// HidesLength is for a family whose upstreams call a reply complete that was cut at its allowance: one of as many
// tokens as were allowed ended there, whatever is said.
func (s *Stream) HidesLength() { s.hides = true }

// finishReason is why the reply ended, by what is known of it.
func (s *Stream) finishReason() llm.FinishReason {
	full := s.hides && s.allowance > 0 && s.usage.Known() && llm.Tokens(s.usage.Output) >= s.allowance
	if full && (s.finish == llm.FinishStop || s.finish == llm.FinishToolCalls) {
		return llm.FinishLength
	}
	return s.finish
}

// Finished notes why the reply ended. Where an upstream says so more than once, what says more stays: a word that is
// not known, for it may say that the reply failed; that it was declined; that it was cut short; that it made calls.
func (s *Stream) Finished(reason llm.FinishReason) {
	if weight(reason) > weight(s.finish) {
		s.finish = reason
	}
}

// weight is how much an end says.
func weight(reason llm.FinishReason) int {
	switch {
	case reason == llm.FinishUnknown:
		return 0
	case !reason.Known():
		return 5
	case reason == llm.FinishPolicy:
		return 4
	case reason == llm.FinishLength:
		return 3
	case reason == llm.FinishToolCalls:
		return 2
	}
	return 1
}
