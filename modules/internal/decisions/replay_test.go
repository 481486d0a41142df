package decisions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/llm"
)

// route is a route whose tokens cost so many microcents each.
func route(name string, quality float64, in, out int64) config.Route {
	const million = 1_000_000
	return config.Route{Name: name, Model: name, ContextWindow: 100_000, MaxOutput: 10_000, Quality: quality, Tools: true,
		Price: config.Price{Input: in * million, CacheRead: in * million / 10, CacheWrite: in * million,
			Output: out * million},
		Cost: config.Price{Input: in * million / 2, CacheRead: in * million / 20, CacheWrite: in * million / 2,
			Output: out * million / 2}}
}

func of(routes ...config.Route) *config.Config {
	return &config.Config{Routes: routes, Affinity: config.Affinity{Mode: config.AffinityOn, TTL: time.Hour},
		Profiles: []config.Profile{{Name: "budget", Cost: 1}, {Name: "max", Quality: 1}},
		Plans:    []config.Plan{{Name: "eu", Requires: config.Requires{Regions: []string{"eu"}}}}}
}

// asked is a request, which a route answered with 100 tokens in and 10 out.
func asked(profile, answered string) decisions.Record {
	return decisions.Record{ID: "x", Profile: profile, Begun: noon, Ended: noon.Add(time.Second), InputTokens: 100,
		Choice: answered, Charge: 7, Cost: 5, Attempts: []decisions.Attempt{{Route: answered,
			Usage: decisions.Usage{Known: true, Input: 100, Output: 10}}}}
}

func compare(before, after *config.Config, own map[string]config.Requires,
	list ...decisions.Record) decisions.Comparison {
	r := decisions.NewReplay(decisions.Settings{Before: before, After: after, Now: noon,
		Requires: func(account string) config.Requires { return own[account] }})
	for i := range list {
		r.Add(&list[i])
	}
	return r.Comparison()
}

func repeated(n int, d decisions.Record) (list []decisions.Record) {
	for range n {
		list = append(list, d)
	}
	return list
}

// TestReplay: routes that shift, expected cost and margin, quality, and what would be refused.
func TestReplay(t *testing.T) {
	t.Parallel()
	small, large := route("small", 0.5, 1, 4), route("large", 0.9, 10, 40)
	t.Run("nothing changes", func(t *testing.T) {
		t.Parallel()
		c := compare(of(small, large), of(small, large), nil,
			append(repeated(3, asked("budget", "small")), asked("max", "large"))...)
		require.Equal(t, c.Before, c.After)
		require.Empty(t, c.Shifts)
		require.Equal(t, []int64{4, 4, 28, 20}, []int64{c.Requests, c.Unread, c.Charged, c.Cost})
		require.Equal(t, []decisions.RouteShare{
			{Route: "small", Requests: 3, Charged: 3 * 140, Cost: 3 * 70, Quality: 0.5},
			{Route: "large", Requests: 1, Charged: 1400, Cost: 700, Quality: 0.9}}, c.After.Routes)
		require.Equal(t, []int64{1820, 910, 910}, []int64{c.After.Charged, c.After.Cost, c.After.Margin})
		require.InDelta(t, 0.6, c.After.Quality, 1e-9)
		require.Equal(t, noon.Add(time.Second), c.Until)
	})
	t.Run("what the upstreams of routes add to prompts", func(t *testing.T) {
		t.Parallel()
		r := decisions.NewReplay(decisions.Settings{Before: of(large), After: of(small), Now: noon,
			Templates: routing.Templates{{Route: "large", Model: "large"}: 40, {Route: "small", Model: "small"}: 5}})
		d := asked("max", "large")
		r.Add(&d)
		d.Attempts = nil
		r.Add(&d)
		c := r.Comparison()
		require.Equal(t, []int64{2, 100*10 + 10*40 + 140*10 + 500*40}, []int64{c.Before.Routes[0].Requests, c.Before.Charged})
		require.EqualValues(t, (100-40+5)*1+10*4+105*1+500*4, c.After.Charged)
	})
	t.Run("a cheap route comes", func(t *testing.T) {
		t.Parallel()
		c := compare(of(large), of(small, large), nil,
			append(repeated(2, asked("budget", "large")), asked("max", "large"))...)
		require.Equal(t, []decisions.Shift{{From: "large", To: "small", Requests: 2}}, c.Shifts)
		require.Equal(t, int64(3*1400), c.Before.Charged)
		require.Equal(t, int64(1400+2*140), c.After.Charged, "the tokens that were used, at the prices of the new route")
	})
	t.Run("a route goes, and what only it could take is refused", func(t *testing.T) {
		t.Parallel()
		wide := large
		wide.ContextWindow = 1_000_000
		long := asked("max", "large")
		long.InputTokens = 500_000
		c := compare(of(small, wide), of(small), nil, asked("max", "large"), long)
		require.Equal(t, []decisions.Shift{{From: "large", To: "", Requests: 1}, {From: "large", To: "small", Requests: 1}},
			c.Shifts)
		require.Equal(t, []decisions.RefusedHere{{Reason: routing.ErrTooLarge.Error(), Requests: 1}}, c.After.Refused)
		require.Empty(t, c.Before.Refused)
		c = compare(of(small), of(small, wide), nil, decisions.Record{Profile: "max", InputTokens: 500_000,
			Refused: "feature_unavailable"})
		require.Equal(t, []decisions.Shift{{From: "", To: "large", Requests: 1}}, c.Shifts, "it would not be refused")
	})
	t.Run("what was refused for money is left out", func(t *testing.T) {
		t.Parallel()
		d := asked("max", "large")
		d.Refused = "budget_exceeded"
		c := compare(of(small), of(large), nil, d)
		require.Equal(t, int64(1), c.Unpaid)
		require.Empty(t, c.After.Routes)
	})
	t.Run("what was down or full then still is", func(t *testing.T) {
		t.Parallel()
		down, full := asked("budget", "large"), asked("budget", "large")
		down.Stood, full.Full = []decisions.Stood{{Route: "small", Why: "down"}}, []string{"small"}
		c := compare(of(small, large), of(small, large), nil, down, full)
		require.Equal(t, "large", c.After.Routes[0].Route)
		require.Equal(t, int64(2), c.After.Routes[0].Requests)
	})
	t.Run("shadows cost the operator, besides", func(t *testing.T) {
		t.Parallel()
		after := of(small, large)
		after.Profiles[0].Shadow = config.Shadow{Route: "large", Share: 0.25}
		after.Profiles[1].Shadow = config.Shadow{Route: "large", Share: 1}
		none, down := asked("budget", ""), asked("budget", "small")
		none.Attempts, down.Stood = nil, []decisions.Stood{{Route: "large", Why: "down"}}
		c := compare(of(small, large), after, nil,
			append(repeated(8, asked("budget", "small")), asked("max", "large"), none, down)...)
		require.Equal(t, []int64{2, 2 * 700}, []int64{c.After.Shadows, c.After.ShadowCost},
			"a quarter of those that the route could have taken, had a reply, and did not have it from this route")
		require.Zero(t, c.Before.Shadows+c.Before.ShadowCost)
		require.Equal(t, c.Before.Cost, c.After.Cost)
		require.Equal(t, c.Before.Margin, c.After.Margin)
	})
	t.Run("floors of plans and accounts", func(t *testing.T) {
		t.Parallel()
		eu := large
		eu.Region = "eu"
		own := map[string]config.Requires{"acct_1": {Regions: []string{"eu"}}}
		onPlan, byItself, free := asked("budget", "small"), asked("budget", "small"), asked("budget", "small")
		onPlan.Plan, byItself.Account = "eu", "acct_1"
		c := compare(of(small, large), of(small, eu), own, onPlan, byItself, free)
		require.Equal(t, []decisions.RefusedHere{{Reason: routing.ErrRequired.Error(), Requests: 2}}, c.Before.Refused)
		require.Equal(t, []decisions.RouteShare{{Route: "large", Requests: 2, Charged: 2800, Cost: 1400, Quality: 0.9},
			{Route: "small", Requests: 1, Charged: 140, Cost: 70, Quality: 0.5}}, c.After.Routes)
	})
	t.Run("conversations stay, and their caches are warm", func(t *testing.T) {
		t.Parallel()
		var turns []decisions.Record
		for i := range 3 {
			d := asked("max", "gone")
			d.Conversation, d.Traits.Turns = affinity.Key{1}, i
			d.Begun = noon.Add(time.Duration(i) * time.Minute)
			d.Ended = d.Begun.Add(time.Second)
			turns = append(turns, d)
		}
		cold := of(large, small)
		cold.Affinity.Mode = config.AffinityOff
		c := compare(cold, of(large, small), nil, turns...)
		require.Equal(t, int64(3*1400), c.Before.Charged, "each turn is its own")
		require.Equal(t, int64(1400+2*(100*1+10*40)), c.After.Charged, "what the turn before had is read from the cache")

		loop := asked("budget", "large")
		loop.Conversation, loop.Traits.Loop = affinity.Key{2}, true
		loop.Past = &routing.Past{Home: "large", Served: [2]routing.Served{{Route: "large", Warm: 50}}}
		c = compare(of(large, small), of(large, small), nil, loop)
		require.Equal(t, "large", c.After.Routes[0].Route, "it began before what is remembered")
	})
	t.Run("answers of a route that thinks are longer", func(t *testing.T) {
		t.Parallel()
		thinker := route("thinker", 0.9, 10, 40)
		thinker.Reasons = true
		in := routing.Input{Routes: []config.Route{small, thinker}, InputTokens: 100, Keep: routing.KeepAll,
			Predictor: routing.DefaultPredictor(), Request: &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser,
				Parts: []llm.Part{llm.Text("What is the capital of France, and what of Spain?")}}}}}
		it, err := routing.MakeItinerary(in)
		require.NoError(t, err)
		d := asked("max", "small")
		d.Traits = it.Traits
		c := compare(of(small), of(small, thinker), nil, d)
		require.Zero(t, c.Unread)
		require.Equal(t, int64(100*10+60*40), c.After.Charged, "six times as long")
		require.NotEqual(t, 0.5, c.Before.Quality, "what is expected, also where there is one route")

		d.Choice, d.Attempts[0].Route = "thinker", "thinker"
		d.Attempts[0].Usage.Output = 600
		c = compare(of(small, thinker), of(small), nil, d)
		require.Equal(t, []decisions.Shift{{From: "thinker", To: "small", Requests: 1}}, c.Shifts)
		require.Equal(t, int64(100*1+100*4), c.After.Charged, "a sixth, though the route is gone that thought")
		gone := d
		gone.Choice, gone.Attempts = "gone", []decisions.Attempt{{Route: "gone", Usage: d.Attempts[0].Usage}}
		c = compare(of(small, thinker), of(small), nil, d, gone)
		require.Equal(t, int64(100*1+100*4)+int64(100*1+600*4), c.After.Charged, "of what no file has nothing is known")
	})
}

// strategic is a configuration with a strategy, and routes of which the small one is good enough not to be passed
// over.
func strategic(t testing.TB, when string, s config.Strategy, routes ...config.Route) *config.Config {
	t.Helper()
	cfg := of(routes...)
	s.Name = "mine"
	if when != "" {
		s.When = condition(t, when)
	}
	cfg.Strategies = []config.Strategy{s}
	return cfg
}

// condition is one as a file has it.
func condition(t testing.TB, when string) *config.Condition {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(`provider "p" {
  plugin = "echo"
}
route "r" {
  provider       = "p"
  model          = "m"
  context_window = 1000
  max_output     = 100
  quality        = 0.5
  price {
    input  = 1
    output = 1
  }
}
strategy "s" {
  kind  = "single"
  steps = ["r"]
  when  = `+when+`
}
`), 0o600))
	cfg, diags := config.Load(t.Context(), path, config.Options{})
	require.False(t, diags.HasErrors(), "%v", diags)
	return cfg.Strategies[0].When
}

// TestReplayStrategies: a request goes to a strategy as it would, and what is expected of that is composed of its
// parts by the tokens that were used.
func TestReplayStrategies(t *testing.T) {
	t.Parallel()
	small, large := route("small", 0.5, 1, 4), route("large", 0.9, 10, 40)
	climb := config.Strategy{Kind: config.Cascade, Steps: []string{"small", "large"}, Validator: "non_empty"}
	const cheap, dear = 100*1 + 10*4, 100*10 + 10*40 // in microcents, for the tokens of asked
	t.Run("a cascade", func(t *testing.T) {
		t.Parallel()
		c := compare(of(small, large), strategic(t, `profile == "max"`, climb, small, large), nil,
			append(repeated(3, asked("max", "large")), asked("budget", "small"))...)
		require.Equal(t, []decisions.Shift{{From: "large", To: "strategy mine", Requests: 3}}, c.Shifts)
		const reached = (1 - 0.5) * 0.3 // wrong, and noticed by its form
		require.Equal(t, []decisions.RouteShare{
			{Route: "strategy mine", Requests: 3, Charged: 3 * (cheap + dear*15/100), Cost: 3 * (cheap + dear*15/100) / 2,
				Quality: 0.5 + reached*0.9},
			{Route: "small", Requests: 1, Charged: cheap, Cost: cheap / 2, Quality: 0.5}}, c.After.Routes)
		require.Equal(t, int64(3*(cheap+dear*15/100)+cheap), c.After.Charged)
	})
	t.Run("seats, and who they escalate to", func(t *testing.T) {
		t.Parallel()
		other := small
		other.Name = "other"
		c := compare(of(small), strategic(t, "true", config.Strategy{Kind: config.Agree, Seats: []string{"small", "other"},
			Escalate: "large"}, small, other, large), nil, asked("budget", "small"))
		call := func(quality, cost float64) *routing.Candidate {
			return &routing.Candidate{Quality: quality, Cost: cost}
		}
		quality, charged := (&routing.Agree{Seats: []*routing.Candidate{call(0.5, cheap), call(0.5, cheap)},
			Escalate: call(0.9, dear)}).Expect()
		require.InDelta(t, charged, c.After.Charged, 1)
		require.InDelta(t, quality, c.After.Quality, 1e-9)
	})
	t.Run("a panel's judge reads the others", func(t *testing.T) {
		t.Parallel()
		cfg := strategic(t, "true", config.Strategy{Kind: config.Panel, Seats: []string{"small", "large"}, Judge: "large"},
			small, large)
		d := asked("budget", "small")
		c := compare(of(small), cfg, nil, d)
		// 400 tokens of instructions, and replies of 500 tokens each as nobody knows better.
		require.Equal(t, int64(cheap+dear+(100+400+2*500)*10+10*40), c.After.Charged)

		// A request of a panel, whose judge has read more: the prompt is that of the seats.
		d = asked("max", "small")
		d.Attempts = append(d.Attempts, decisions.Attempt{Route: "large", Usage: decisions.Usage{Known: true, Input: 110,
			Output: 10}}, decisions.Attempt{Route: "large", Usage: decisions.Usage{Known: true, Input: 1500, Output: 10}})
		c = compare(cfg, of(small, large), nil, d)
		require.Equal(t, []decisions.Shift{{From: "strategy mine", To: "large", Requests: 1}}, c.Shifts)
		require.Equal(t, int64(110*10+10*40), c.After.Charged, "what the seat used there")
		require.Equal(t, int64(cheap+110*10+10*40+(100+400+2*500)*10+10*40), c.Before.Charged)
	})
	t.Run("it competes", func(t *testing.T) {
		t.Parallel()
		worse, better := climb, climb
		better.Steps = []string{"large", "small"}
		c := compare(strategic(t, "", worse, small, large), strategic(t, "", better, small, large), nil,
			asked("max", "large"))
		require.Equal(t, []decisions.Shift{{From: "large", To: "strategy mine", Requests: 1}}, c.Shifts,
			"0.9 + 0.1 x 0.3 x 0.5 is more than 0.9")
	})
	t.Run("a part is missing, and what it alone could take is refused", func(t *testing.T) {
		t.Parallel()
		tools := large
		tools.Tools = false
		d := asked("budget", "small")
		d.Needs.Tools = true
		c := compare(strategic(t, "true", climb, small, large), strategic(t, "true", climb, small, tools), nil, d)
		require.Equal(t, []decisions.Shift{{From: "strategy mine", To: "small", Requests: 1}}, c.Shifts)
		long := asked("budget", "large")
		long.InputTokens = 500_000
		c = compare(of(small), strategic(t, "true", climb, small, large), nil, long)
		require.Equal(t, routing.ErrTooLarge.Error(), c.After.Refused[0].Reason)
	})
	t.Run("a turn that answers tool calls stays", func(t *testing.T) {
		t.Parallel()
		loop := asked("budget", "large")
		loop.Conversation, loop.Traits.Loop = affinity.Key{2}, true
		loop.Past = &routing.Past{Home: "large", Served: [2]routing.Served{{Route: "large", Warm: 50}}}
		c := compare(of(small, large), strategic(t, "true", climb, small, large), nil, loop)
		require.Equal(t, "large", c.After.Routes[0].Route)
	})
	t.Run("conditions", func(t *testing.T) {
		t.Parallel()
		in := routing.Input{Routes: []config.Route{small, large}, InputTokens: 100, Keep: routing.KeepAll,
			Predictor: routing.DefaultPredictor(), Request: &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser,
				Parts: []llm.Part{llm.Text("Write a Python function that reverses a list: def reverse(items):")}}}}}
		it, err := routing.MakeItinerary(in)
		require.NoError(t, err)
		read, unread := asked("budget", "small"), asked("budget", "small")
		read.Traits = it.Traits
		read.Account, read.Plan, read.Allowance, unread.Account = "acct_1", "pro", 77, "acct_1"
		for when, want := range map[string]struct{ read, unread string }{
			`request.kind.code > 0.3`:                      {"strategy mine", "?request.kind.code"},
			`request.kind.code < 0.3`:                      {"small", "?request.kind.code"},
			`request.difficulty >= 0`:                      {"strategy mine", "?request.difficulty"},
			`request.allowance == 77`:                      {"strategy mine", "small"},
			`request.input_tokens == 100`:                  {"strategy mine", "strategy mine"},
			`request.turns > 0 || request.tools`:           {"small", "small"},
			`account.id == "acct_1"`:                       {"strategy mine", "strategy mine"},
			`account.plan == "pro"`:                        {"strategy mine", "small"},
			`account.name == "acme"`:                       {"strategy mine", "strategy mine"},
			`profile == "max" && request.difficulty > 0.1`: {"small", "small"},
		} {
			for _, one := range []struct {
				d    decisions.Record
				want string
			}{{read, want.read}, {unread, want.unread}} {
				cfg := of(small, large)
				cfg.Strategies = []config.Strategy{{Name: "mine", Kind: config.Cascade, Steps: climb.Steps,
					Validator: "non_empty", When: condition(t, when)}}
				r := decisions.NewReplay(decisions.Settings{Before: of(small), After: cfg, Now: noon,
					Named: func(string) string { return "acme" }})
				r.Add(&one.d)
				c := r.Comparison().After
				fact, asks := strings.CutPrefix(one.want, "?")
				if asks {
					one.want = "small"
					require.Len(t, c.Unjudged, 1, when)
					require.Contains(t, c.Unjudged[0].Why, fact)
					require.Equal(t, int64(1), c.Unjudged[0].Requests)
				} else {
					require.Empty(t, c.Unjudged, when)
				}
				require.Equal(t, one.want, c.Routes[0].Route, when)
			}
		}
		c := compare(of(small), strategic(t, `account.name == "acme"`, climb, small, large), nil, read)
		require.Contains(t, c.After.Unjudged[0].Why, "account.name", "nobody says what accounts are called")
	})
}

// BenchmarkReplay routes the requests of a log again, by two configurations of three routes each. It is to be a
// million in less than a minute.
func BenchmarkReplay(b *testing.B) {
	b.Run("routes", func(b *testing.B) { benchmarkReplay(b) })
	b.Run("strategies", func(b *testing.B) {
		benchmarkReplay(b,
			config.Strategy{Name: "panel", Kind: config.Panel, Seats: []string{"small", "middle"}, Judge: "large",
				When: condition(b, `request.difficulty > 0.7 && profile == "max"`)},
			config.Strategy{Name: "climb", Kind: config.Cascade, Steps: []string{"small", "large"}, Validator: "non_empty"},
			config.Strategy{Name: "agree", Kind: config.Agree, Seats: []string{"small", "middle"}, Escalate: "large"})
	})
}

func benchmarkReplay(b *testing.B, strategies ...config.Strategy) {
	b.Helper()
	book := open(b)
	book.settings.MaxRequests = 1 << 40
	before := of(route("small", 0.5, 1, 4), route("middle", 0.7, 4, 16), route("large", 0.9, 10, 40))
	after := of(route("small", 0.5, 1, 4), route("middle", 0.8, 4, 16), route("large", 0.9, 10, 40))
	for i := range 4 {
		after.Profiles = append(after.Profiles, config.Profile{Name: fmt.Sprint(i)})
	}
	after.Strategies = strategies
	var traits []routing.Traits
	for i := range 64 {
		it, err := routing.MakeItinerary(routing.Input{Routes: before.Routes, InputTokens: 100, Keep: routing.KeepRead,
			Predictor: routing.DefaultPredictor(), Request: &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser,
				Parts: []llm.Part{llm.Text(fmt.Sprintf("Write a function that sorts %d lists of numbers by %d.", i, i*i))}}}}})
		require.NoError(b, err)
		traits = append(traits, it.Traits)
	}
	for i := range b.N {
		d := asked([]string{"budget", "max"}[i%2], "small")
		d.ID, d.Account = fmt.Sprintf("req_%032x", i), fmt.Sprintf("acct_%024x", i%1000)
		d.Conversation = affinity.Key{byte(i), byte(i >> 8), byte(i >> 16), byte(i % 3)}
		d.Traits = traits[i%len(traits)]
		book.Add(&d)
		if i%4096 == 4095 {
			require.NoError(b, book.Flush(b.Context()))
		}
	}
	require.NoError(b, book.Flush(b.Context()))
	require.Zero(b, book.lost.Load())
	b.ReportAllocs()
	b.ResetTimer()
	r := decisions.NewReplay(decisions.Settings{Before: before, After: after, Now: noon})
	require.NoError(b, book.Each(b.Context(), noon, func(d *decisions.Record) error {
		r.Add(d)
		return nil
	}))
	b.StopTimer()
	require.Equal(b, int64(b.N), r.Comparison().Requests)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
