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
	for _, tt := range []struct {
		name   string
		events []string
		want   *llm.Usage
	}{
		{"an estimate gives way to the bill, which may be smaller",
			[]string{textDelta("a"), delta(`{"input_tokens":7,"output_tokens":2}`)}, used(7, 2)},
		{"the rest of it stays", []string{textDelta("a"), delta(`{"output_tokens":2}`)}, used(10, 2)},
		{"without a bill there is none", []string{textDelta("a"), delta(`null`)},
			&llm.Usage{Flaw: "output_tokens is missing"}},
		{"nor with half of one", []string{textDelta("a"), delta(`{"input_tokens":7}`)},
			&llm.Usage{Flaw: "output_tokens is missing"}},
		{"nor with one that is none", []string{textDelta("a"), delta(`{"output_tokens":"2"}`)},
			&llm.Usage{Flaw: "output_tokens is not a number"}},
		{"of a reply of nothing it is one", []string{delta(`null`)}, used(10, 1)},
	} {
		t.Run("GAP-111 GAP-66 what a message begins with: "+tt.name, func(t *testing.T) {
			t.Parallel()
			events, err := read(append(append([]string{started}, tt.events...), stopped)...)
			require.NoError(t, err)
			require.Equal(t, usage(*tt.want), events[len(events)-2])
		})
	}
	t.Run("GAP-111 BILL-21 what a message begins with proves the work of one that failed", func(t *testing.T) {
		t.Parallel()
		events, err := read(started, textDelta("a"), `{"type":"error","error":{"type":"api_error","message":"m"}}`)
		require.Error(t, err)
		require.Equal(t, append(say("a"), usage(*used(10, 1))), events)
	})
}
