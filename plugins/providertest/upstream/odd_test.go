package upstream_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestOddEndings has the fake end replies as services should not, in every dialect, streamed and whole (GAP-111,
// GAP-114).
func TestOddEndings(t *testing.T) {
	t.Parallel()
	hi := []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}
	for _, c := range codecs {
		names := []string{"input_tokens", "output_tokens"}
		if c.name == "chat" {
			names = []string{"prompt_tokens", "completion_tokens"}
		}
		for _, whole := range []bool{false, true} {
			req := &llm.Request{Model: "m", MaxTokens: 99, Messages: hi, Whole: whole}
			for _, word := range []string{"error", "abort", "eod"} {
				t.Run(fmt.Sprintf("GAP-114 %s %s whole=%v", word, c.name, whole), func(t *testing.T) {
					t.Parallel()
					s := upstream.Start(t, upstream.Options{})
					s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Finish(word), upstream.ReportUsage(),
						upstream.Done()}})
					events, err := c.generate(t, s, req)
					require.NoError(t, err)
					require.Equal(t, llm.FinishReason(word), events[len(events)-1].Finish)
				})
			}
			t.Run(fmt.Sprintf("GAP-111 %s whole=%v", c.name, whole), func(t *testing.T) {
				t.Parallel()
				s := upstream.Start(t, upstream.Options{})
				raw := fmt.Sprintf(`{%q:10,%q:-50}`, names[0], names[1])
				s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Finish("stop"),
					upstream.ReportRaw(raw), upstream.Done()}})
				events, err := c.generate(t, s, req)
				require.NoError(t, err)
				require.Equal(t, &llm.Usage{Flaw: names[1] + " is negative"}, events[len(events)-2].Usage)
			})
		}
	}
	t.Run("GAP-114 a response that fails or is cut, in its own words", func(t *testing.T) {
		t.Parallel()
		for _, c := range codecs {
			for _, whole := range []bool{false, true} {
				if c.name != "responses" {
					continue
				}
				s := upstream.Start(t, upstream.Options{})
				for _, status := range []string{"failed", "cancelled", "incomplete"} {
					s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Finish(status), upstream.Done()}})
					events, err := c.generate(t, s, &llm.Request{Model: "m", MaxTokens: 99, Messages: hi, Whole: whole})
					if status == "incomplete" {
						require.NoError(t, err)
						require.Equal(t, llm.FinishReason("incomplete"), events[len(events)-1].Finish)
					} else {
						require.Error(t, err)
					}
				}
			}
		}
	})
	t.Run("a script whose raw usage is no JSON", func(t *testing.T) {
		t.Parallel()
		_, err := upstream.ParseScript([]byte(`{"default":{"steps":[{"do":"usage","usage":{"raw":"{"}}]}}`))
		require.ErrorContains(t, err, "steps[0]: raw is not JSON")
	})
}
