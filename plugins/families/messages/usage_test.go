package messages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

func TestUsages(t *testing.T) {
	t.Parallel()
	const begun = `{"type":"message_start","message":{"model":"m-1"}}`
	delta := func(usage string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + usage + `}`
	}
	familytest.Usages(t, familytest.Metered{
		Input: "input_tokens", Output: "output_tokens",
		Details: []string{`"cache_read_input_tokens":%s`, `"cache_creation_input_tokens":%s`,
			`"output_tokens_details":{"thinking_tokens":%s}`},
		Stream: func(usage ...string) ([]llm.Event, error) {
			events := []string{begun, textDelta("a")}
			for _, u := range usage {
				if u != "" {
					events = append(events, delta(u))
				}
			}
			return read(append(events, stopped)...)
		},
		Whole: func(usage string) ([]llm.Event, error) {
			if usage != "" {
				usage = `,"usage":` + usage
			}
			return readWhole(`{"model":"m-1","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"` + usage + `}`)
		},
	})
	doubted := func(input, output int64) *llm.Usage {
		u := used(input, output)
		u.Doubt = "a later report has a smaller prompt"
		return u
	}
	for _, tt := range []struct {
		name   string
		events []string
		want   *llm.Usage
	}{
		{"a smaller bill is not followed",
			[]string{textDelta("a"), delta(`{"input_tokens":7,"output_tokens":2}`)}, doubted(10, 2)},
		{"a larger one is", []string{textDelta("a"), delta(`{"input_tokens":17,"output_tokens":2}`)}, used(17, 2)},
		{"the rest of it stays", []string{textDelta("a"), delta(`{"output_tokens":2}`)}, used(10, 2)},
		{"without a bill there is none", []string{textDelta("a"), delta(`null`)},
			&llm.Usage{Flaw: "output_tokens is missing"}},
		{"nor with half of one", []string{textDelta("a"), delta(`{"input_tokens":7}`)},
			&llm.Usage{Flaw: "output_tokens is missing"}},
		{"nor with one that is none", []string{textDelta("a"), delta(`{"output_tokens":"2"}`)},
			&llm.Usage{Flaw: "output_tokens is not a number"}},
		{"of a reply of nothing it is one", []string{delta(`null`)}, used(10, 1)},
	} {
		t.Run("GAP-111 GAP-124 what a message begins with: "+tt.name, func(t *testing.T) {
			t.Parallel()
			events, err := read(append(append([]string{started}, tt.events...), stopped)...)
			require.NoError(t, err)
			require.Equal(t, usage(*tt.want), events[len(events)-2])
		})
	}
	t.Run("GAP-124 usage in the last event, or in the delta", func(t *testing.T) {
		t.Parallel()
		for _, last := range [][]string{{ended("end_turn"), `{"type":"message_stop","usage":{"output_tokens":9}}`},
			{`{"type":"message_delta","delta":{"stop_reason":"end_turn","usage":{"output_tokens":9}}}`, stopped}} {
			events, err := read(append([]string{started, textDelta("a")}, last...)...)
			require.NoError(t, err)
			require.Equal(t, usage(*used(10, 9)), events[1])
		}
	})
	t.Run("GAP-111 BILL-21 what a message begins with proves the work of one that failed", func(t *testing.T) {
		t.Parallel()
		events, err := read(started, textDelta("a"), `{"type":"error","error":{"type":"api_error","message":"m"}}`)
		require.Error(t, err)
		require.Equal(t, append(say("a"), usage(*used(10, 0))), events, "GAP-124: of its output nothing is known")
	})
}
