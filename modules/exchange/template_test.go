package exchange

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
	"github.com/fareway/fareway/plugins/tokens"
)

// TestTemplateIsHeldFor: no hold sells less than what is charged, where an upstream adds no more than its template
// does, and takes no more than its window; and what it adds beyond is over, by arithmetic of the test's own.
func TestTemplateIsHeldFor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.Int64Range(0, 100_000)
		price := rapid.Int64Range(0, 1_000)
		in, out := price.Draw(t, "input price"), price.Draw(t, "output price")
		window := rapid.Int64Range(1, 300_000).Draw(t, "window")
		r := config.Route{Name: "r", MaxOutput: 1_000, ContextWindow: window,
			Price: config.Price{Input: in * 1e6, CacheRead: in * 1e6, CacheWrite: in * 1e6, Output: out * 1e6}}
		rough, extra, template := tokens.Draw(t, "bound"), tokens.Draw(t, "extra"), tokens.Draw(t, "template")
		output := rapid.Int64Range(0, 1_000).Draw(t, "output")
		x := (&exchange{scope: scope{call: new(gateway.Call)}, prompt: prompt{input: input{bound: rough}}}).connect()
		c := &routing.Candidate{Route: &r, Allowance: 1_000, Extra: extra, Template: template}
		most := min(rough+extra+template, window)
		require.Equal(t, routing.Worst{Microcents: most*in + 1_000*out, Tokens: most + 1_000}, x.prompt.worst(c),
			"GAP-137 a prompt that is longer than the window is refused")
		x.admission.steps = &routing.First{Steps: []routing.Step{c}}
		x.work.addAttempt(c, engine.RoutePermit{})
		require.Equal(t, x.prompt.worst(c), x.prompt.worstOf(x.work.current), "of the attempt, too")
		x.books.hold = x.admission.steps.Worst(x.prompt.worst).Microcents

		prompt := rapid.Int64Range(0, rough+extra+template+1_000).Draw(t, "prompt")
		x.work.current.usage = &llm.Usage{Input: llm.Count(prompt), Output: llm.Count(output)}
		x.work.current.accepted, x.work.current.outcome = true, ledger.Finished
		due := x.books.computeDue(&ledger.Settlement{Results: x.work.results(true)}, x.work.attempts)
		require.Equal(t, prompt*in+output*out, due.Microcents+due.Over)
		require.LessOrEqual(t, due.Microcents, x.books.hold)
		if prompt <= most {
			require.Zero(t, due.Over)
		}
		require.Equal(t, max(0, prompt-rough-extra), x.prompt.beyondBound(x.work.current))
	})
}

// TestTemplateOfAnEstimate: whoever counts a prompt does not see what its upstream adds; what was reported has it.
func TestTemplateOfAnEstimate(t *testing.T) {
	t.Parallel()
	a := &attempt{route: &standard, allowance: 100, template: 1_396}
	told := &llm.Usage{Input: llm.Count(10), Output: llm.Count(2), Estimated: true}
	a.noteEvent(llm.Event{Kind: llm.EventUsage, Usage: told})
	a.noteEvent(llm.Event{Kind: llm.EventFinish})
	require.EqualValues(t, 1_406, *a.usage.Input, "once")
	require.EqualValues(t, 10, *told.Input)
	a.reported = nil
	a.noteEvent(llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Input: llm.Count(10), Output: llm.Count(2)}})
	require.EqualValues(t, 10, *a.usage.Input)
	a.reported = nil
	a.noteEvent(llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Output: llm.Count(2), Estimated: true}})
	require.Nil(t, a.usage.Input)
}

// TestTemplateIsLearned: of the first report that is beyond what a prompt can have; the next request is held for, and
// charged, all of it.
func TestTemplateIsLearned(t *testing.T) {
	t.Parallel()
	adds := func(b *bench, n int64, usage upstream.Usage) {
		asked := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}}
		reply := hello("stop")
		usage.Prompt, usage.Completion = tokens.Most(asked)+n, 2
		reply.Steps[3] = upstream.ReportTokens(usage)
		b.upstream.SetModel("first", reply)
	}
	ask := func(b *bench) ledger.RequestRecord {
		call := generating(false)
		w := httptest.NewRecorder()
		b.ask(t, t.Context(), w, call)
		require.Equal(t, 200, w.Code)
		return b.record(t, call)
	}
	one := func(c *config.Config) { c.Routes = c.Routes[:1] }
	t.Run("GAP-49 held for from then on", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain", one)
		adds(b, 1_396, upstream.Usage{})
		before := ask(b)
		require.EqualValues(t, 1_396*300-98*1_500, before.Over, "the output that was held for was not needed")
		require.Len(t, b.log.about("setting=template_tokens prompt_over_bound=1396"), 1)
		after := ask(b)
		require.EqualValues(t, 1_396*300, after.Held-before.Held)
		require.Zero(t, after.Over)
		require.EqualValues(t, after.Held-98*1_500, after.Microcents)
		adds(b, 100, upstream.Usage{})
		require.Equal(t, after.Held, ask(b).Held, "the highest")
	})
	t.Run("set, and not learned", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain", one, func(c *config.Config) { c.Routes[0].TemplateTokens = new(int64(100)) })
		adds(b, 1_396, upstream.Usage{})
		before := ask(b)
		require.Equal(t, before.Held, ask(b).Held)
		require.Empty(t, b.engine.Templates().Known())
		require.Len(t, b.log.about("setting=template_tokens prompt_over_bound=1396"), 2)
	})
	t.Run("nothing of an estimate or of what is in doubt", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "plain", one)
		x := (&exchange{scope: scope{engine: b.engine}, prompt: prompt{input: input{bound: 10}}}).connect()
		for _, u := range []*llm.Usage{nil, {Input: llm.Count(500), Output: llm.Count(1), Estimated: true},
			{Input: llm.Count(500), Output: llm.Count(1), Doubt: "it does not add up"}} {
			x.work.attempts = append(x.work.attempts, &attempt{route: &standard, usage: u, accepted: true})
		}
		x.prompt.learnTemplates(x.work.attempts)
		require.Empty(t, b.engine.Templates().Known())
		x.work.attempts = append(x.work.attempts, &attempt{route: &config.Route{Name: "r", ContextWindow: 200_000},
			extra: 300,
			usage: &llm.Usage{Input: llm.Count(20), CacheRead: llm.Count(400), CacheWrite: llm.Count(3),
				Output: llm.Count(1)}})
		x.prompt.learnTemplates(x.work.attempts)
		require.Equal(t, routing.Templates{routing.LearnedOf{Route: "r"}: 423 - 310}, b.engine.Templates().Known())
	})
	t.Run("the exact bound keeps it", func(t *testing.T) {
		t.Parallel()
		said := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser,
			Parts: []llm.Part{llm.Text(strings.Repeat("there ", 100))}}}}
		x := (&exchange{scope: scope{call: new(gateway.Call), req: &request{Request: &families.Request{LLM: said}}},
			prompt: prompt{input: input{bound: 1 << 20}}}).connect()
		c := &routing.Candidate{Route: &standard, Allowance: 10, Template: 96, Extra: 7}
		x.work.addAttempt(c, engine.RoutePermit{})
		require.True(t, x.work.tightenBound())
		require.Equal(t, worstOf(x.req.bound()+96+7, c).Microcents, x.work.current.worst)
	})
}
