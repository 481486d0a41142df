package responses_test

import (
	"fmt"
	"strings"
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
	t.Run("GAP-41 GAP-84 complete, with all the output that was allowed, is length", func(t *testing.T) {
		t.Parallel()
		const text = `{"type":"message","content":[{"type":"output_text","text":"a"}]}`
		const call = `{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":"}`
		for _, tt := range []struct {
			status, item      string
			output, allowance int64
			want              llm.FinishReason
		}{
			{"completed", text, 9, 10, llm.FinishStop},
			{"completed", text, 10, 10, llm.FinishLength},
			{"completed", text, 11, 10, llm.FinishLength},
			{"completed", call, 10, 10, llm.FinishLength},
			{"completed", call, 9, 10, llm.FinishToolCalls},
			{"completed", text, 10, 0, llm.FinishStop},
			{"exploded", text, 10, 10, "exploded"},
			{"incomplete", text, 10, 10, "incomplete"},
		} {
			said := last("completed", fmt.Sprintf(`"output":[%s],"usage":{"input_tokens":1,"output_tokens":%d}`, tt.item,
				tt.output))
			said = strings.Replace(said, `"status":"completed"`, `"status":"`+tt.status+`"`, 1)
			var finish llm.FinishReason
			take := func(ev llm.Event) error {
				if ev.Kind == llm.EventFinish {
					finish = ev.Finish
				}
				return nil
			}
			d := responses.NewDecoder(take)
			d.Allowance(tt.allowance)
			require.NoError(t, d.Data([]byte(created)))
			require.NoError(t, d.Data([]byte(said)))
			require.NoError(t, d.Close())
			require.Equal(t, tt.want, finish)

			d = responses.NewDecoder(take)
			d.Allowance(tt.allowance)
			_, whole, _ := strings.Cut(strings.TrimSuffix(said, "}"), `"response":`)
			require.NoError(t, d.Whole([]byte(whole)))
			require.Equal(t, tt.want, finish, "in one piece")
		}
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
