package contracttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/routing/outcome/journal"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// kept are the lines of an account that the journal of outcomes has, as "route score from", once nothing runs any
// more.
func (g *scripted) kept(t testing.TB, account string) (lines []string) {
	t.Helper()
	g.Engine.Wait()
	require.NoError(t, g.Engine.Journal().Flush(t.Context()))
	dir := engine.JournalPath(g.ledgerName())
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	_, err := journal.Read(dir, func(l *journal.Line) error {
		if l.Account != account {
			return nil
		}
		line := l.Route + map[float64]string{0: " 0 ", 0.5: " half ", 1: " 1 "}[l.Score] + string(l.From)
		if l.Own {
			line += " own"
		}
		require.NotEmpty(t, l.Signal)
		require.NotEmpty(t, l.Model)
		require.NotEmpty(t, l.ID)
		lines = append(lines, line)
		return nil
	})
	require.NoError(t, err)
	return lines
}

// written is all that is in the journal's folder.
func (g *scripted) written(t testing.TB, name string) string {
	t.Helper()
	require.NoError(t, g.Engine.Journal().Flush(t.Context()))
	files, err := filepath.Glob(filepath.Join(engine.JournalPath(g.ledgerName()), name))
	require.NoError(t, err)
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

const (
	keepsOutcomes = "outcomes {\n}\n"
	floors        = `
plan "none" {
  requires {
    retention = "none"
  }
}
plan "month" {
  requires {
    retention = "30d"
  }
}
`
)

// TestOutcomesOfAgreement: of two seats the weaker one is judged by whether it says what the other does; nothing is
// kept of who demands no retention, or a shorter one, and no word of a text.
func TestOutcomesOfAgreement(t *testing.T) {
	t.Parallel()
	const secret = "zanzibar"
	kept := make([]route, len(seats))
	for i, r := range seats {
		r.More = "retention = \"none\""
		kept[i] = r
	}
	heads := strategy("heads", "kind = \"agree\"\n  seats = [\"one\", \"two\"]\n  escalate = \"judge\"")
	g := startScripted(t, setup{Routes: kept, Extra: keepsOutcomes + floors + heads})
	say := func(text string) upstream.Reply { return script(used(10, 2), "stop", upstream.Text(text)) }
	for _, sh := range shapes {
		for _, mode := range modes {
			for plan, keeps := range map[string]bool{"": true, "none": false, "month": false} {
				c := g.rich(t)
				if plan != "" {
					c.SetPlan(plan)
				}
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": say("It is 42."), "two": say("it is **42**")}))
				outcomeOf(t, sh, c.Post(sh.Path, sh.Body("Where is "+secret+"? PROMPT", mode.Field)))
				c.AnswersBy(byModel(map[string]upstream.Reply{"one": say("42"), "two": say("43"), "judge": say("44")}))
				outcomeOf(t, sh, c.Post(sh.Path, sh.Body("Where is "+secret+"? PROMPT", mode.Field)))
				var want []string
				if keeps {
					want = []string{"two 1 agreed", "two 0 agreed"}
				}
				require.Equal(t, want, g.kept(t, c.Account.ID), "%s %s %s", plan, sh.Name, mode.Name)
			}
		}
	}
	require.NotEmpty(t, g.written(t, "lines-*"))
	require.NotContains(t, g.written(t, "*"), secret)
	require.Empty(t, g.written(t, "texts-*"))
}

// TestOutcomesOfValidators: what the validator of a cascade says; a client could bring a refusal about.
func TestOutcomesOfValidators(t *testing.T) {
	t.Parallel()
	climb := strategy("climb", "kind = \"cascade\"\n  steps = [\"one\", \"judge\"]\n  validator = \"not_refusal\"")
	g := startScripted(t, setup{Routes: seats, Extra: keepsOutcomes + climb})
	say := func(text string) upstream.Reply { return script(used(10, 2), "stop", upstream.Text(text)) }
	for _, sh := range shapes {
		c := g.rich(t)
		c.AnswersBy(byModel(map[string]upstream.Reply{"one": say("It is 42."), "judge": say("44")}))
		outcomeOf(t, sh, c.Ask(sh))
		c.AnswersBy(byModel(map[string]upstream.Reply{"one": say("I'm sorry, but I can't help with that."),
			"judge": say("44")}))
		outcomeOf(t, sh, c.Ask(sh))
		require.Equal(t, []string{"one 1 validator", "one 0 validator own"}, g.kept(t, c.Account.ID))
	}
}

// TestOutcomesOfShadows: whether the weaker route says what the other one has, of replies in one piece and of
// streams, whose text is not kept otherwise.
func TestOutcomesOfShadows(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: shadowRoutes, Extra: keepsOutcomes + shadowed})
	say := func(text string) upstream.Reply { return script(used(10, 2), "stop", upstream.Text(text)) }
	for _, sh := range shapes { // one after the other: each waits until nothing runs
		for _, mode := range modes {
			c := g.rich(t)
			c.AnswersBy(byModel(map[string]upstream.Reply{"first": say("It is 42."), "second": say("it is **42**")}))
			outcomeOf(t, sh, c.Post(sh.Path, sh.Body("PROMPT", mode.Field), profileHeader("max")...))
			require.Equal(t, []string{"second 1 shadow"}, g.kept(t, c.Account.ID), "%s %s", sh.Name, mode.Name)
			c.AnswersBy(byModel(map[string]upstream.Reply{"first": say("42"), "second": say("43")}))
			outcomeOf(t, sh, c.Post(sh.Path, sh.Body("PROMPT", mode.Field), profileHeader("max")...))
			require.Equal(t, []string{"second 1 shadow", "second 0 shadow"}, g.kept(t, c.Account.ID), sh.Name+mode.Name)
		}
	}
}

// TestOutcomesAreOffByDefault, and what people say of a request is kept where they are on, with its signal of then.
func TestOutcomesAreOffByDefault(t *testing.T) {
	t.Parallel()
	for extra, want := range map[string][]string{"": nil, keepsOutcomes: {"first 1 told", "first 0 told"},
		keepsOutcomes + "decision_log {\n  mode = \"off\"\n}\n": nil} {
		g := startScripted(t, setup{Routes: shadowRoutes, Extra: extra})
		c := g.rich(t)
		sh := shapes[0]
		a := c.Post(sh.Path, sh.Body("PROMPT"), profileHeader("max")...)
		outcomeOf(t, sh, a)
		g.Engine.Wait()
		for _, good := range []bool{true, false} {
			_, err := g.Engine.Feedback(t.Context(), a.Header.Get("X-Request-Id"), good)
			require.NoError(t, err)
		}
		require.Equal(t, want, g.kept(t, c.Account.ID), extra)
	}
}

// TestTextsOfOutcomes: texts are kept only where the operator says so, in files of their own, and not of who demands
// a shorter retention.
func TestTextsOfOutcomes(t *testing.T) {
	t.Parallel()
	heads := strategy("heads", "kind = \"agree\"\n  seats = [\"one\", \"two\"]\n  escalate = \"judge\"")
	kept := make([]route, len(seats))
	for i, r := range seats {
		r.More = "retention = \"none\""
		kept[i] = r
	}
	g := startScripted(t, setup{Routes: kept, Extra: floors + heads +
		"outcomes {\n  keep = \"30d\"\n  text = true\n  text_keep = \"30d\"\n}\n"})
	sh := shapes[0]
	for plan, secret := range map[string]string{"": "zanzibar", "month": "timbuktu", "none": "kathmandu"} {
		c := g.rich(t)
		if plan != "" {
			c.SetPlan(plan)
		}
		outcomeOf(t, sh, c.Post(sh.Path, sh.Body("Where is "+secret+"? PROMPT")))
		require.Len(t, g.kept(t, c.Account.ID), map[string]int{"": 1, "month": 1, "none": 0}[plan])
	}
	texts := g.written(t, "texts-*")
	require.Contains(t, texts, "zanzibar")
	require.Contains(t, texts, "timbuktu", "a month is what may be")
	require.NotContains(t, texts, "kathmandu")
	require.Equal(t, 2, strings.Count(texts, "\n"), "a text once")
	require.NotContains(t, g.written(t, "lines-*"), "zanzibar")
}

// TestOutcomesOfCalls: whether a call of a tool fits its schema; one that nothing satisfies a client could bring
// about.
func TestOutcomesOfCalls(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "first", Quality: 0.9}, {Name: "second", Quality: 0.1}},
		Extra: keepsOutcomes})
	c := g.rich(t)
	for _, arguments := range []string{`{"q":"x"}`, `{}`} {
		c.Answers(script(used(10, 12), "tool_calls", upstream.ToolCall(0, "call_1", "f"), upstream.Arguments(0, arguments)))
		a := c.Post("/v1/chat/completions", `{"model":"service/max","messages":[{"role":"user","content":"PROMPT"}],"tools":`+
			`[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"q":{"type":"string"}},`+
			`"required":["q"]}}}]}`)
		require.Equal(t, 200, a.StatusCode, "%s", a.Raw)
	}
	require.Equal(t, []string{"first 1 call", "first 0 call own"}, g.kept(t, c.Account.ID))
}
