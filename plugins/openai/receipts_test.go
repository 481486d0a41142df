package openai_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestReceipts: what OpenRouter has a record of is proven, also where its reply broke before it said so (GAP-56), and
// by another process than the one that asked for the reply.
func TestReceipts(t *testing.T) {
	t.Parallel()
	said := []upstream.Step{upstream.Reasoning("let me see"), upstream.Text("one two three")}
	for name, c := range map[string]struct {
		whole  bool
		header map[string]string
	}{
		"a cut stream, by the header":     {},
		"a cut stream, by its chunks":     {header: map[string]string{"X-Generation-Id": ""}},
		"a cut JSON reply, by the header": {whole: true},
		"a cut JSON reply, by its body":   {whole: true, header: map[string]string{"X-Generation-Id": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{Service: "openrouter", APIKey: "sk-preset-zq11", Cache: true})
			steps := slices.Clone(said)
			if c.whole {
				steps = append(steps, upstream.Raw("\n \n"+`{"id":"chatcmpl-fake-1","choices":[{"index":0,"mess`))
			}
			s.Enqueue(upstream.Reply{Usage: upstream.UsageNever, Steps: append(steps, upstream.Cut()), Header: c.header})
			req := providertest.Ask("hello there")
			req.Whole = c.whole
			reply, err := providertest.Generate(t, start(t, at(t, "openrouter", s)), req)
			require.Equal(t, llm.ErrBroken, llm.KindOf(err))
			rec, err := s.Ended(providertest.Context(t), 1)
			require.NoError(t, err)
			require.EqualValues(t, 6, rec.Used.Completion)
			var references []string
			for i, ev := range reply.Events {
				if ev.Kind == llm.EventReference {
					references = append(references, ev.ID)
					require.Equal(t, 1, i, "before anything of the reply")
				}
			}
			require.Equal(t, []string{rec.ID}, references)

			receipter := start(t, at(t, "openrouter", s)).(provider.SometimesReceipter)
			require.True(t, receipter.GivesReceipts())
			receipts, err := receipter.Receipts(providertest.Context(t), []provider.Attempt{
				{ID: "att-0"}, {ID: "att-1", Reference: rec.ID}, {ID: "att-2", Reference: "gen-unknown"},
			})
			require.NoError(t, err, "of another there is no record yet")
			require.Equal(t, []provider.Receipt{{Attempt: "att-1", Usage: llm.Usage{Input: llm.Count(rec.Used.Prompt),
				CacheRead: llm.Count(0), Output: llm.Count(6), Reasoning: llm.Count(3)}}}, receipts)

			s.Close()
			_, err = receipter.Receipts(providertest.Context(t), []provider.Attempt{{ID: "att-1", Reference: rec.ID}})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "zq11")
			receipts, err = receipter.Receipts(providertest.Context(t), []provider.Attempt{{ID: "att-1"}})
			require.NoError(t, err, "nobody can be asked without a reference")
			require.Empty(t, receipts)
		})
	}
}

func TestOthersHaveNoReceipts(t *testing.T) {
	t.Parallel()
	for _, name := range openai.Presets() {
		s := fake(t, name)
		p := start(t, at(t, name, s))
		require.Equal(t, name == "openrouter", p.(provider.SometimesReceipter).GivesReceipts(), name)
		for _, whole := range []bool{false, true} {
			req := providertest.Ask("hello")
			req.Whole = whole
			reply, err := providertest.Generate(t, p, req)
			require.NoError(t, err, name)
			sent := 0
			for _, ev := range reply.Events {
				if ev.Kind == llm.EventReference {
					sent++
				}
			}
			require.Equal(t, map[bool]int{true: 1}[name == "openrouter"], sent, "%s, whole %t", name, whole)
		}
	}
}
