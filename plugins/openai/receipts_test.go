package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestReceipts: what OpenRouter has a record of is proven, also where the stream broke before it said so (GAP-56).
func TestReceipts(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{Service: "openrouter", APIKey: "sk-preset-zq11", Cache: true})
	p := start(t, at(t, "openrouter", s))
	receipter := p.(provider.SometimesReceipter)
	require.True(t, receipter.GivesReceipts())
	s.Enqueue(upstream.Reply{Usage: upstream.UsageNever, Steps: []upstream.Step{upstream.Reasoning("let me see"),
		upstream.Text("one two three"), upstream.Cut()}})
	_, err := providertest.Generate(t, p, providertest.Ask("hello there"))
	require.Equal(t, llm.ErrBroken, llm.KindOf(err))
	rec, err := s.Ended(providertest.Context(t), 1)
	require.NoError(t, err)
	require.EqualValues(t, 6, rec.Used.Completion)

	receipts, err := receipter.Receipts(providertest.Context(t), []string{"att-0", "att-1"})
	require.NoError(t, err)
	require.Equal(t, []provider.Receipt{{Attempt: "att-1", Usage: llm.Usage{Input: llm.Count(rec.Used.Prompt),
		CacheRead: llm.Count(0), Output: llm.Count(6), Reasoning: llm.Count(3)}}}, receipts)

	p.(provider.AttemptObserver).Attempted(t.Context(), []provider.Attempt{{ID: "att-2", ReplyID: "gen-unknown"},
		{ID: "att-3"}})
	receipts, err = receipter.Receipts(providertest.Context(t), []string{"att-2", "att-3"})
	require.NoError(t, err, "there is no record yet")
	require.Empty(t, receipts)

	s.Close()
	_, err = receipter.Receipts(providertest.Context(t), []string{"att-1"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "zq11")
}

func TestOthersHaveNoReceipts(t *testing.T) {
	t.Parallel()
	for _, name := range openai.Presets() {
		s := fake(t, name)
		require.Equal(t, name == "openrouter", start(t, at(t, name, s)).(provider.SometimesReceipter).GivesReceipts(), name)
	}
}
