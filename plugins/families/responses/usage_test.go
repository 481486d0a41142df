package responses_test

import (
	"testing"

	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

func TestUsages(t *testing.T) {
	t.Parallel()
	ended := func(usage string) string {
		if usage == "" {
			usage = "null"
		}
		return last("completed", `"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}],"usage":`+usage)
	}
	familytest.Usages(t, familytest.Metered{
		Input: "input_tokens", Output: "output_tokens", Once: true,
		Details: []string{`"input_tokens_details":{"cached_tokens":%s}`, `"input_tokens_details":{"cache_write_tokens":%s}`,
			`"output_tokens_details":{"reasoning_tokens":%s}`},
		Stream: func(usage ...string) ([]llm.Event, error) {
			return read(created, delta("output_text", "0", "a"), ended(usage[0]))
		},
		Whole: func(usage string) ([]llm.Event, error) { return read(created, ended(usage)) },
	})
}
