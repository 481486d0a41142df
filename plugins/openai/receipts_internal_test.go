package openai

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

func TestUsed(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]*llm.Usage{
		`{"data":{"native_tokens_prompt":10,"native_tokens_completion":2}}`: {Input: llm.Count(10), Output: llm.Count(2)},
		`{"data":{"native_tokens_prompt":10,"native_tokens_completion":2,"native_tokens_cached":4}}`: {
			Input: llm.Count(6), CacheRead: llm.Count(4), Output: llm.Count(2)},
		`{"data":{"native_tokens_prompt":10,"native_tokens_completion":2,"native_tokens_cached":11}}`: {
			Input: llm.Count(0), CacheRead: llm.Count(10), Output: llm.Count(2)},
		`{"data":{"native_tokens_prompt":10}}`:                                            nil,
		`{"data":{"native_tokens_completion":10}}`:                                        nil,
		`{"data":{"native_tokens_prompt":-1,"native_tokens_completion":2}}`:               nil,
		`{"data":{"native_tokens_prompt":1,"native_tokens_completion":1e300}}`:            nil,
		`{"data":{"native_tokens_prompt":1,"native_tokens_completion":9007199254740993}}`: nil,
		`{"data":{"native_tokens_prompt":1,"native_tokens_completion":2}`:                 nil,
		`{"data":{"native_tokens_prompt":10,"native_tokens_completion":5,"native_tokens_reasoning":3,` +
			`"native_tokens_cached":0}}`: {
			Input: llm.Count(10), CacheRead: llm.Count(0), Output: llm.Count(5), Reasoning: llm.Count(3)},
		`{"data":{"native_tokens_prompt":10,"native_tokens_completion":2,"native_tokens_cached":null,"tokens_prompt":99}}`: {
			Input: llm.Count(10), Output: llm.Count(2)},
		`{"data":{"native_tokens_prompt":10,"native_tokens_completion":2,"native_tokens_cached":-4}}`: nil,
		`{"data":null}`: nil,
		`[]`:            nil,
	} {
		require.Equal(t, want, parseGeneration([]byte(body)), body)
	}
}
