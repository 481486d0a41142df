package responses_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/responses"
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
	t.Run("GAP-124 usage beside the response, and behind it", func(t *testing.T) {
		t.Parallel()
		const bill = `"usage":{"input_tokens":10,"output_tokens":2}`
		said := delta("output_text", "0", "a")
		for name, data := range map[string][]string{
			"beside": {`{"type":"response.completed",` + bill + `,"response":{"status":"completed","model":"m-1"}}`},
			"behind": {ended(""), "junk", `{"type":"response.usage",` + bill + `}`},
			"behind, within": {ended(""), `{"type":"response.done","response":{` + bill + `}}`, "[DONE]",
				`{"usage":{"input_tokens":99}}`},
		} {
			events, err := read(append([]string{created, said}, data...)...)
			require.NoError(t, err, name)
			require.Equal(t, append(say("a"), spending(*used(10, 2)), finished(llm.FinishStop)), events, name)
		}
		d := responses.NewDecoder(func(llm.Event) error { return nil })
		for _, data := range []string{created, said, ended("")} {
			require.NoError(t, d.Data([]byte(data)))
		}
		require.False(t, d.Done(), "its usage may come yet")
		require.NoError(t, d.Data([]byte("[DONE]")))
		require.True(t, d.Done())
	})
}
