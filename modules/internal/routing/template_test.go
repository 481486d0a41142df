package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// TestTemplateCounts: what an upstream adds to prompts counts in the fit, in the room of a judge and in what is
// expected.
func TestTemplateCounts(t *testing.T) {
	t.Parallel()
	r := route("only", 0.5, 1)
	r.ContextWindow, r.Model = 10_000, "m"
	learned := routing.Templates{routing.LearnedOf{Route: "only", Model: "m"}: 1_396}
	plan := func(in routing.Input) (routing.Candidate, error) {
		in.Routes, in.Profile = []config.Route{r}, balanced
		it, err := routing.MakeItinerary(in)
		if err != nil {
			return routing.Candidate{}, err
		}
		return it.Candidates[0], nil
	}
	c, err := plan(routing.Input{InputTokens: 4_000, Allowance: 10_000 - 4_000 - 1_396, Templates: learned})
	require.NoError(t, err)
	require.Equal(t, []int64{1_396, 5_396}, []int64{c.Template, c.Input})
	require.InDelta(t, (5_396+5*500)*100, c.Cost, 1e-6)
	_, err = plan(routing.Input{InputTokens: 4_000, Allowance: 10_000 - 4_000 - 1_395, Templates: learned})
	require.ErrorIs(t, err, routing.ErrTooLarge)
	c, err = plan(routing.Input{InputTokens: 4_000, Templates: learned})
	require.NoError(t, err)
	require.EqualValues(t, 10_000-5_396, c.Allowance, "the room that is left")
	c, err = plan(routing.Input{InputTokens: 2_605, Allowance: 10, Templates: learned})
	require.NoError(t, err)
	require.False(t, c.Light)
	c, err = plan(routing.Input{InputTokens: 4_000, Needs: routing.Needs{Tools: true}, Templates: learned})
	require.NoError(t, err)
	require.InDelta(t, (5_396+5*500)*100, c.Cost, 1e-6, "of a conversation's turn")
	most := routing.Input{Routes: []config.Route{r}, Allowance: 100, Templates: learned}
	require.True(t, routing.Decided(most, 10_000-100-1_396))
	require.False(t, routing.Decided(most, 10_000-100-1_395))

	r.TemplateTokens = new(int64(0))
	c, err = plan(routing.Input{InputTokens: 4_000, Templates: learned})
	require.NoError(t, err)
	require.EqualValues(t, 4_000, c.Input, "the operator says so")

	t.Run("an ordinary route that the template leaves no room on", func(t *testing.T) {
		t.Parallel()
		small, long := route("small", 0.5, 1), route("long", 0.9, 2)
		small.ContextWindow, long.Specialty = 10_000, []config.Specialty{config.LongContext}
		small.TemplateTokens = new(int64(5_000))
		in := routing.Input{Routes: []config.Route{small, long}, Profile: balanced, InputTokens: 5_000, Allowance: 1}
		it, err := routing.MakeItinerary(in)
		require.NoError(t, err)
		require.Equal(t, []string{"long"}, order(it))
		in.InputTokens--
		it, err = routing.MakeItinerary(in)
		require.NoError(t, err)
		require.Equal(t, []string{"small"}, order(it))
	})
	t.Run("explained", func(t *testing.T) {
		t.Parallel()
		e := routing.Explain(routing.Input{Routes: []config.Route{route("a", 0.5, 1)}, Profile: balanced, InputTokens: 10,
			Request: new(llm.Request), Templates: routing.Templates{routing.LearnedOf{Route: "a"}: 96}},
			func(c *routing.Candidate) routing.Worst { return routing.Worst{Microcents: c.Template} }, nil)
		require.Equal(t, []int64{96, 96, 10}, []int64{e.Candidates[0].Template, e.Candidates[0].Hold, e.InputTokens})
	})
}
