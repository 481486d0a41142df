package portal

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/history"
	"github.com/fareway/fareway/modules/internal/people"
)

// TestRoutes: what routes bring in is the ledger's, why one is out is said in words, and the chart has its tables.
func TestRoutes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	ann.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	b := s.operator("read@example.com", people.ReadOnly)
	all := b.get("/portal/operator/routes?days=7")
	require.Equal(t, http.StatusOK, all.StatusCode)
	requireSafe(t, all)
	// 950 in and 700 out are charged 1.335, and cost 0.445.
	for _, want := range []string{`href="/portal/operator/routes/deep"`, "Its provider does not run.", "1.335000 credits",
		"0.445000 credits", "0.890000 credits", `<svg class="plane"`, "<polyline", "If all that a route can take went there",
		"balanced"} {
		require.Contains(t, all.body, want)
	}
	one := b.get("/portal/operator/routes/deep")
	for _, want := range []string{"Route deep", "0.890000 credits", "Its provider does not run.", "math"} {
		require.Contains(t, one.body, want)
	}
	requireSafe(t, one)
	require.NotContains(t, b.get("/portal/operator/routes/small").body, "0.890000 credits")
	require.Equal(t, http.StatusNotFound, b.get("/portal/operator/routes/none").StatusCode)
}

// TestSimulator: a prompt goes nowhere, not into the log either; what is wrong with a request is said as clients are
// told it, and what was typed stays.
func TestSimulator(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.operator("read@example.com", people.ReadOnly)
	ask := func(pairs ...string) answer {
		a := b.post("/portal/operator/simulator", append([]string{"act", "simulate"}, pairs...)...)
		requireSafe(t, a)
		return a
	}
	found := ask("text", "what do <otters> eat?", "as", "prompt")
	require.Equal(t, http.StatusOK, found.StatusCode, found.body)
	for _, want := range []string{"No route can take it", "Routes that cannot take it", "small", "deep",
		"what do &lt;otters&gt; eat?"} {
		require.Contains(t, found.body, want)
	}
	require.NotContains(t, s.log.String(), "otters")
	for name, c := range map[string]struct {
		fields []string
		says   string
	}{
		"no JSON":         {[]string{"text", "{", "as", "body"}, "the gateway would refuse the request with 400"},
		"another model":   {[]string{"text", `{"model":"elsewhere/x","messages":[]}`, "as", "body"}, "model_not_found"},
		"one weight":      {[]string{"text", "hi", "cost", "1"}, "Weights are numbers from 0 on"},
		"no number":       {[]string{"text", "hi", "cost", "NaN", "quality", "1"}, "Weights are numbers from 0 on"},
		"below nothing":   {[]string{"text", "hi", "cost", "-1", "quality", "1"}, "a weight is a number from 0"},
		"both nothing":    {[]string{"text", "hi", "cost", "0", "quality", "0"}, "nothing would choose"},
		"no such account": {[]string{"text", "hi", "account", "nobody"}, "there is no account"},
		"nothing":         {[]string{"text", ""}, "give a prompt"},
	} {
		a := ask(c.fields...)
		require.Equal(t, http.StatusBadRequest, a.StatusCode, name)
		require.Contains(t, a.body, c.says, name)
	}
	kept := ask("text", "hi", "cost", "1", "account", "nobody")
	require.Contains(t, kept.body, `value="nobody"`)
	large := ask("text", strings.Repeat("x", maxForm))
	require.Equal(t, http.StatusRequestEntityTooLarge, large.StatusCode)
}

// TestPluginsAndConfigurations: operators see which programs run, and what is different between two configurations.
func TestPluginsAndConfigurations(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.operator("read@example.com", people.ReadOnly)
	page := b.get("/portal/operator/plugins")
	require.Equal(t, http.StatusOK, page.StatusCode)
	requireSafe(t, page)
	require.Contains(t, page.body, "The programs through which the gateway speaks to upstreams")
	var numbers [2]int64
	for i, text := range []string{"plan \"old\" {}\n", "plan \"<new>\" {}\n"} {
		kept, err := s.engine.History().Add(history.Kept{Number: int64(i), Hash: text, Since: s.engine.Now(),
			Files: []history.File{{Path: "/gateway.hcl", Text: &text}}})
		require.NoError(t, err)
		numbers[i] = kept.Number
	}
	diff := b.get(fmt.Sprintf("/portal/operator/configuration?number=%d&from=%d", numbers[1], numbers[0]))
	require.Equal(t, http.StatusOK, diff.StatusCode, diff.body)
	requireSafe(t, diff)
	require.Contains(t, diff.body, "<del>-plan &#34;old&#34; {}\n</del>")
	require.Contains(t, diff.body, "<ins>+plan &#34;&lt;new&gt;&#34; {}\n</ins>")
	require.Equal(t, http.StatusNotFound, b.get("/portal/operator/configuration?number=2&from=9").StatusCode)
}
