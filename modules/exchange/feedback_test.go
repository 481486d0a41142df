package exchange

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// outcomes are what the metric counts, "route outcome" each, as often as it counts it.
func (b *bench) outcomes(t *testing.T) (all []string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(b.engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "fareway_route_outcomes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			word := m.GetLabel()[1].GetValue() + " " + m.GetLabel()[0].GetValue()
			for range int(m.GetCounter().GetValue()) {
				all = append(all, word)
			}
		}
	}
	return all
}

// since is what there is more of.
func since(before, now []string) (more []string) {
	for _, word := range now {
		if i := slices.Index(before, word); i >= 0 {
			before = slices.Delete(before, i, i+1)
			continue
		}
		more = append(more, word)
	}
	return more
}

// TestWhatIsLearned: what came of attempts, as far as it is the route's doing.
func TestWhatIsLearned(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain")
	broken := upstream.Refuse(upstream.ServerError())
	for name, tc := range map[string]struct {
		first upstream.Reply
		want  []string
	}{
		"a reply":                  {hello("stop"), []string{"first worked"}},
		"an upstream that fails":   {broken, []string{"first upstream_failed", "second worked"}},
		"GAP-84 no JSON":           {upstream.Call("c", "f", "{"), []string{"first invalid_call"}},
		"a call":                   {upstream.Call("c", "f", "{}"), []string{"first worked"}},
		"GAP-84 no object":         {upstream.Call("c", "f", `[1]`), []string{"first invalid_call"}},
		"a decline":                {upstream.Refuse(upstream.ContentFilter()), []string{"first refused"}},
		"POL-06 a reply cut short": {hello("content_filter"), []string{"first refused"}},
		"nothing to show":          {silent("stop"), []string{"first empty"}},
		"the client's allowance":   {silent("length"), nil},
		"too long":                 {upstream.Refuse(upstream.ContextLength()), []string{"second worked"}},
		"busy":                     {upstream.Refuse(upstream.RateLimited("")), []string{"second worked"}},
		"no access":                {upstream.Refuse(upstream.InvalidKey()), []string{"second worked"}},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%t", name, stream), func(t *testing.T) {
				before := b.outcomes(t)
				b.upstream.SetScript(upstream.Script{Models: map[string]upstream.Reply{
					"first": tc.first, "second": hello("stop"), "third": hello("stop")}})
				call := saying(stream, withTool)
				call.Body = bytes.Replace(call.Body, []byte(`"hi"`), fmt.Appendf(nil, "%q", t.Name()), 1)
				b.ask(t, t.Context(), httptest.NewRecorder(), call)
				require.Equal(t, tc.want, since(before, b.outcomes(t)))
				known, ok := b.engine.Outcomes().Find(call.ID)
				last := strings.Join(tc.want[max(len(tc.want)-1, 0):], "")
				worked := strings.HasSuffix(last, " worked") || strings.HasSuffix(last, " schema_mismatch")
				require.Equal(t, worked, ok)
				if ok {
					require.Equal(t, strings.Fields(tc.want[len(tc.want)-1])[0], known.Route)
				}
			})
		}
	}
}

// TestTheNextTurnIsLearnedFrom: what the conversation shows of the reply before.
func TestTheNextTurnIsLearnedFrom(t *testing.T) {
	t.Parallel()
	turn := func(name, results string) *gateway.Call {
		return &gateway.Call{Kind: gateway.Generate, Family: messages.Server{}, Body: []byte(
			`{"model":"service/auto","max_tokens":100,"tools":[{"name":"find","input_schema":{"type":"object",` +
				`"required":["name"]}}],"messages":[{"role":"user","content":"Find ` + name + `"}` + results + `]}`)}
	}
	answer := func(input, failed string) string {
		return `,{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"find","input":` + input + `}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"","is_error":` + failed + `}]}`
	}
	benches := map[config.AffinityMode]*bench{}
	for _, mode := range []config.AffinityMode{config.AffinityOn, config.AffinityOff} {
		benches[mode] = newBench(t, "plain", func(c *config.Config) { c.Affinity.Mode = mode })
		benches[mode].upstream.SetModel("first", hello("stop"))
	}
	for name, tc := range map[string]struct {
		then string
		want []string
	}{
		"a tool that worked":   {answer(`{"name":"a"}`, "false"), []string{"first worked", "first worked"}},
		"one that failed":      {answer(`{"name":1}`, "true"), []string{"first tool_failed", "first worked", "first worked"}},
		"a call that is wrong": {answer(`{}`, "false"), []string{"first schema_mismatch", "first worked", "first worked"}},
		"the same again":       {"", []string{"first retried", "first worked", "first worked"}},
	} {
		for mode, b := range benches {
			t.Run(fmt.Sprintf("%s, affinity %s", name, mode), func(t *testing.T) {
				before := b.outcomes(t)
				b.ask(t, t.Context(), httptest.NewRecorder(), turn(name, ""))
				b.ask(t, t.Context(), httptest.NewRecorder(), turn(name, tc.then))
				require.Equal(t, tc.want, since(before, b.outcomes(t)))
			})
		}
	}
}

// TestLearningDecides: a route that fails at what it is asked is left for another one, and found again after a restart
// of the engine in the tests of that.
func TestLearningDecides(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) { c.Routes[1].Quality = 0.8 })
	b.upstream.SetModel("first", upstream.Call("c", "f", "{"))
	b.upstream.SetModel("second", hello("stop"))
	ask := func() string {
		w, call := httptest.NewRecorder(), saying(false, withTool)
		b.ask(t, t.Context(), w, call, "X-Service-Profile", "max")
		return call.Record.Route
	}
	require.Equal(t, "first", ask())
	routes := b.engine.Current().Config.Routes
	for range 20 {
		b.engine.Outcomes().Note(&routes[0], "account", &outcome.Kinds{1, 1, 1, 1, 1}, outcome.InvalidCall)
	}
	require.NoError(t, b.engine.Outcomes().Save(func(fold func([]outcome.Row) []outcome.Row) error {
		fold(nil)
		return nil
	}))
	require.Equal(t, "second", ask())
}

// TestOneRouteLearnsNothing: there is nothing to choose.
func TestOneRouteLearnsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) { c.Routes = c.Routes[:1] })
	b.upstream.SetModel("first", hello("stop"))
	b.ask(t, t.Context(), httptest.NewRecorder(), generating(false))
	require.Empty(t, b.outcomes(t))
	require.Empty(t, b.engine.Outcomes().Rows())
}
