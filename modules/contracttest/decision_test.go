package contracttest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// decided is what the decision log has of a reply's request.
func decided(t testing.TB, g *scripted, a answer) decisions.Record {
	t.Helper()
	r, err := g.Engine.Decisions().Find(t.Context(), a.Header.Get("X-Request-Id"))
	require.NoError(t, err)
	return r
}

// TestDecisionsAreKept: the features of a request are kept, with what came of it, and never its text; also of one
// that no route could take, and which routes were full.
func TestDecisionsAreKept(t *testing.T) {
	t.Parallel()
	const secret = "zanzibar"
	g := startScripted(t, setup{Routes: []route{
		{Name: "first", Quality: 0.9, Window: 5000, Max: 1000, More: "max_concurrent = 1"},
		{Name: "second", Quality: 0.5, Window: 6000, Max: 1000},
	}})
	for _, sh := range shapes {
		for _, mode := range modes {
			c := g.rich(t)
			a := c.Post(sh.Path, sh.Body("Where is "+secret+"? PROMPT", mode.Field), profileHeader("max")...)
			outcomeOf(t, sh, a)
			r := decided(t, g, a)
			require.Equal(t, []any{c.Account.ID, "max", sh.Name, "ok", 200},
				[]any{r.Account, r.Profile, strings.ToLower(r.Endpoint), r.Reason, r.Status})
			require.Len(t, r.Attempts, 1)
			require.Equal(t, c.Route(t), r.Attempts[0].Route)
			require.Equal(t, r.Attempts[0].Route, r.Choice)
			require.True(t, r.Attempts[0].Usage.Known)
			require.Positive(t, r.Charge)
			require.Equal(t, r.Charge, r.Cost, "the operator pays what the account pays, unless the file says otherwise")
			require.NotEmpty(t, r.Traits.Signal)
			require.NotZero(t, r.Conversation)
		}
	}

	sh := shapes[0]
	failing := g.rich(t)
	failing.Answers(upstream.Refuse(upstream.ServerError()))
	a := failing.Ask(sh)
	requireError(t, sh, a, 502, "upstream_error")
	r := decided(t, g, a)
	require.Equal(t, []string{"upstream", "", "failed"}, []string{r.Reason, r.Refused, r.Attempts[0].Outcome})
	require.Zero(t, r.Charge)

	large := g.rich(t)
	a = large.Post(sh.Path, sh.Body("PROMPT "+strings.Repeat(secret+" ", 6000)))
	requireError(t, sh, a, 503, "feature_unavailable")
	r = decided(t, g, a)
	require.Equal(t, []any{"", "feature_unavailable", 503, 0}, []any{r.Choice, r.Refused, r.Status, len(r.Attempts)})

	busy, c := g.rich(t), g.rich(t)
	busy.Blocked(hello)
	done := busy.Start(t, sh)
	a = c.Post(sh.Path, sh.Body("PROMPT"), profileHeader("max")...)
	outcomeOf(t, sh, a)
	r = decided(t, g, a)
	require.Equal(t, []string{"first", "second"}, []string{r.Choice, r.Served()})
	require.Equal(t, []string{"first"}, r.Full, "a route that was full")
	g.Upstream.Open(busy.Mark)
	outcomeOf(t, sh, <-done)

	require.NoError(t, g.Engine.Decisions().Flush(t.Context()))
	for _, more := range []string{"", "-wal"} {
		kept, err := os.ReadFile(engine.DecisionsPath(g.ledgerName()) + more)
		require.NoError(t, err)
		require.NotContains(t, string(kept), secret)
	}
}

// TestDecisionsOfConversations: a turn's record has what was remembered of its conversation.
func TestDecisionsOfConversations(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "a", Quality: 0.9}, {Name: "b", Quality: 0.5, Input: "1"}}})
	c := g.rich(t)
	first := c.Post("/v1/chat/completions", `{"model":"service/auto","messages":[{"role":"user","content":"PROMPT"}]}`)
	require.Equal(t, 200, first.StatusCode)
	second := c.Post("/v1/chat/completions", `{"model":"service/auto","messages":[{"role":"user","content":"PROMPT"},`+
		`{"role":"assistant","content":"Hello."},{"role":"user","content":"And now?"}]}`)
	require.Equal(t, 200, second.StatusCode)
	began, went := decided(t, g, first), decided(t, g, second)
	require.Equal(t, began.Conversation, went.Conversation)
	require.Nil(t, began.Past)
	require.Equal(t, began.Choice, went.Past.Home)
	require.Equal(t, routing.StayHome, went.Stay)
	require.Equal(t, 1, went.Traits.Turns)
}

// TestDecisionsCanBeOff: nothing is kept then.
func TestDecisionsCanBeOff(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: "decision_log {\n  mode = \"off\"\n}\n"})
	c := g.rich(t)
	a := c.Ask(shapes[0])
	outcomeOf(t, shapes[0], a)
	_, err := g.Engine.Decisions().Find(t.Context(), a.Header.Get("X-Request-Id"))
	require.ErrorIs(t, err, decisions.ErrNotFound)
}
