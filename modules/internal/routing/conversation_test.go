package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

// turn is the request of a turn: the texts are the user's and the assistant's in turns.
func turn(texts ...string) *llm.Request {
	req := &llm.Request{}
	for i, text := range texts {
		role := [...]llm.Role{llm.RoleUser, llm.RoleAssistant}[i%2]
		req.Messages = append(req.Messages, llm.Message{Role: role, Parts: []llm.Part{llm.Text(text)}})
	}
	return req
}

// answering is a turn that answers a call of a tool.
func answering() *llm.Request {
	req := turn(hard, "")
	req.Messages[1].Parts = []llm.Part{{Call: &llm.ToolCall{ID: "1", Name: "f"}}}
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, CallID: "1", Parts: []llm.Part{llm.Text("3")}})
	return req
}

// cached makes reads from a route's cache cost a tenth, and writes a quarter more.
func cached(r config.Route) config.Route {
	r.Price.CacheRead, r.Price.CacheWrite = r.Price.Input/10, r.Price.Input*5/4
	return r
}

func at50k(home string, warm int64) *routing.Past {
	return &routing.Past{Home: home, Served: [2]routing.Served{{Route: home, Warm: warm}}}
}

// TestConversations is issue 13: a conversation is one choice.
func TestConversations(t *testing.T) {
	t.Parallel()
	small, middle := cached(route("small", 0.5, 1)), cached(route("middle", 0.6, 1.3))
	deep := cached(route("deep", 0.95, 10))
	down := func(r *config.Route) bool { return r.Name != "deep" }
	narrow := deep
	narrow.ContextWindow = 10_000
	chat := turn(easy, "Paris.", "And of Spain?")
	for _, tc := range []struct {
		name    string
		routes  []config.Route
		profile config.Profile
		past    *routing.Past
		req     *llm.Request
		ready   func(*config.Route) bool
		first   string
		stay    routing.Stay
		home    string
	}{
		{"nothing is known", []config.Route{small, deep}, budget, nil, chat, nil, "small", routing.StayNew, "small"},
		{"it stays with a route that is about as good", []config.Route{small, middle}, budget, at50k("middle", 50_000), chat,
			nil, "middle", routing.StayHome, "middle"},
		{"it stays, warm or not, where routes are alike", []config.Route{small, cached(route("twin", 0.5, 1))}, balanced,
			at50k("twin", 0), chat, nil, "twin", routing.StayHome, "twin"},
		{"it stays where its cache makes it cheap", []config.Route{small, deep}, budget, at50k("deep", 50_000), chat, nil,
			"deep", routing.StayHome, "deep"},
		{"it moves where the gain is large", []config.Route{small, deep}, budget, at50k("deep", 0), chat, nil,
			"small", routing.StayMoved, "small"},
		{"a loop of tools is never broken", []config.Route{small, deep}, budget, at50k("deep", 0), answering(), nil,
			"deep", routing.StayLoop, "deep"},
		{"a loop stays with the route that served it, not with its home", []config.Route{small, deep}, budget,
			&routing.Past{Home: "small", Served: [2]routing.Served{{Route: "deep"}, {Route: "small"}}}, answering(), nil,
			"deep", routing.StayLoop, "small"},
		{"a loop whose route is gone goes home", []config.Route{small, middle}, best,
			&routing.Past{Home: "small", Served: [2]routing.Served{{Route: "deep"}}}, answering(), nil,
			"small", routing.StayLoop, "small"},
		{"it comes home", []config.Route{small, deep}, best,
			&routing.Past{Home: "deep", Served: [2]routing.Served{{Route: "small", Warm: 50_000}}}, turn(hard, "12", hard), nil,
			"deep", routing.StayHome, "deep"},
		{"it may come back to a route that is not ready", []config.Route{small, deep}, best, at50k("deep", 50_000), chat,
			down, "small", routing.StayGone, "deep"},
		{"a route that it outgrew is its own no more", []config.Route{small, narrow}, best, at50k("deep", 5000), chat,
			nil, "small", routing.StayGone, "small"},
		{"a route that the file no longer has", []config.Route{small, middle}, best, at50k("deep", 50_000), chat, nil,
			"small", routing.StayGone, "small"},
		{"keep_quality: it stays while it keeps", []config.Route{small, cached(route("twin", 0.5, 0.96))},
			config.Profile{Cost: 1, KeepQuality: 0.5}, at50k("small", 0), chat, nil, "small", routing.StayHome, "small"},
		{"keep_quality: it moves to what keeps", []config.Route{small, deep},
			config.Profile{Cost: 1, KeepQuality: 1}, at50k("small", 50_000), turn(hard, "12", hard), nil, "deep",
			routing.StayMoved, "deep"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			it, err := routing.MakeItinerary(routing.Input{Routes: tc.routes, Profile: tc.profile, InputTokens: 50_000,
				Past: tc.past, Request: tc.req, Standing: where(tc.ready), Predictor: routing.DefaultPredictor()})
			require.NoError(t, err)
			require.Equal(t, tc.first, it.Candidates[0].Route.Name)
			require.Equal(t, tc.stay, it.Stay)
			require.Equal(t, tc.home, it.Home)
			require.Equal(t, tc.stay != routing.StayLoop && len(it.Candidates) > 1, it.Kinds != [predict.NumKinds]float32{},
				"what is asked is read where there is a choice")
		})
	}
}

// TestWarmCacheKeepsAConversation: the same two routes, and only the cache decides whether moving pays.
func TestWarmCacheKeepsAConversation(t *testing.T) {
	t.Parallel()
	home, other := cached(route("home", 0.6, 1)), cached(route("other", 0.6, 0.7))
	plan := func(warm int64) routing.Itinerary {
		it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{home, other}, Profile: balanced,
			InputTokens: 50_000,
			Past:        at50k("home", warm), Request: turn(easy, "Paris.", "And of Spain?")})
		require.NoError(t, err)
		return it
	}
	it := plan(50_000)
	require.Equal(t, routing.StayHome, it.Stay)
	require.Equal(t, int64(50_000), it.Candidates[0].Cached)
	// Two turns: 50,000 x 10 microcents read in each, and 500 x 500 tokens written. Input is 100 microcents a token.
	require.InDelta(t, 50_000*10+500*500, it.Candidates[0].Cost, 1e-6)
	require.InDelta(t, (50_000*87.5+50_000*7)/2+500*350, it.Candidates[1].Cost, 1e-6)
	it = plan(0)
	require.Equal(t, routing.StayMoved, it.Stay)
	require.Equal(t, "other", it.Home)
}

// TestToolsAreExpectedToBeCalled is issue 13: a conversation is one choice, decided once, and a loop of tools is never
// broken. So it is the cost of the turns to come that decides where one with tools begins: a route whose upstream has
// no cache is the cheaper one for a single question only.
func TestToolsAreExpectedToBeCalled(t *testing.T) {
	t.Parallel()
	lasting, plain := cached(route("lasting", 0.6, 1)), route("plain", 0.6, 0.7)
	plain.Price.CacheRead, plain.Price.CacheWrite = plain.Price.Input, plain.Price.Input
	in := routing.Input{Routes: []config.Route{lasting, plain}, Profile: budget, InputTokens: 3000, Request: turn(easy)}
	it, err := routing.MakeItinerary(in)
	require.NoError(t, err)
	require.Equal(t, "plain", it.Home, "a single question")
	require.InDelta(t, 3000*70+500*350, it.Candidates[0].Cost, 1e-6)
	in.Needs.Tools = true
	it, err = routing.MakeItinerary(in)
	require.NoError(t, err)
	require.Equal(t, "lasting", it.Home)
	// Five turns: one writes the cache, four read it.
	require.InDelta(t, (3000*125+4*3000*10)/5+500*500, it.Candidates[0].Cost, 1e-6)
	require.InDelta(t, 3000*70+500*350, it.Candidates[1].Cost, 1e-6)
	require.Zero(t, it.Candidates[0].Cached)
	require.Equal(t, routing.StayNew, it.Stay)

	in.Needs.Tools, in.InputTokens = false, 4000
	it, err = routing.MakeItinerary(in)
	require.NoError(t, err)
	require.Equal(t, "lasting", it.Home, "a long first prompt is an agent's, too, or about a document")
	require.InDelta(t, (4000*125+4*4000*10)/5+500*500, it.Candidates[0].Cost, 1e-6)
}

// TestOneTurnDoesNotMoveAConversation is issue 13: a conversation is one choice, by what it has been about. A turn of
// another kind does not take it off its route, with keep_quality or without; when all turns are of that kind, they do.
func TestOneTurnDoesNotMoveAConversation(t *testing.T) {
	t.Parallel()
	coder, writer := cached(route("coder", 0.9, 1)), cached(route("writer", 0.9, 1.2))
	coder.QualityBy = map[string]float64{config.KindWriting: 0.4}
	writer.QualityBy = map[string]float64{config.KindCode: 0.4}
	const prose = "Write a villanelle about the sea, in the tone of a letter to a friend, " +
		"each stanza shorter than the last."
	said := turn(prose, "Done.", prose, "Done.", prose, "Done.", prose, "Done.", prose)
	for name, profile := range map[string]config.Profile{"keep_quality": {Cost: 1, KeepQuality: 0.9},
		"quality": {Quality: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			past := at50k("coder", 20_000)
			plan := func() routing.Itinerary {
				it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{coder, writer}, Profile: profile, Past: past,
					InputTokens: 20_000, Request: said, Predictor: routing.DefaultPredictor()})
				require.NoError(t, err)
				return it
			}
			require.Equal(t, "writer", plan().Home, "with nothing remembered, the turn alone decides")
			past.Work.Turns, past.Work.Kinds[predict.Code] = 8, 1
			it := plan()
			require.Equal(t, "coder", it.Home)
			require.Equal(t, routing.StayHome, it.Stay)
			for range 30 {
				past.Work = it.Work
				it = plan()
			}
			require.Equal(t, "writer", it.Home, "it is about something else now")
			require.LessOrEqual(t, it.Work.Turns, 8, "the last turns count the most")
		})
	}
}

// TestConversationProperties: whatever is remembered, the candidates are the same, and a conversation whose route is a
// candidate does not go to and fro.
func TestConversationProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		in.Request = rapid.SampledFrom([]*llm.Request{turn(easy, "Paris.", hard), answering()}).Draw(t, "request")
		without, plainErr := routing.MakeItinerary(in)
		name := rapid.SampledFrom([]string{"r0", "r1", "r2", "r3", "gone"})
		in.Past = &routing.Past{Home: name.Draw(t, "home"), Served: [2]routing.Served{
			{Route: name.Draw(t, "last"), Warm: rapid.Int64Range(0, 300_000).Draw(t, "warm")}}}
		it, err := routing.MakeItinerary(in)
		require.Equal(t, plainErr, err)
		require.ElementsMatch(t, order(without), order(it))
		if err != nil {
			return
		}
		first := it.Candidates[0].Route.Name
		in.Past.Home = it.Home
		if it.Stay != routing.StayLoop {
			in.Past.Served = [2]routing.Served{{Route: first, Warm: in.InputTokens}, in.Past.Served[0]}
		}
		again, err := routing.MakeItinerary(in)
		require.NoError(t, err)
		require.Equal(t, first, again.Candidates[0].Route.Name, "what was chosen is kept")
	})
}
