// Package replay plays conversations through the choice of routes, with the prices of prompt caches: what it costs
// that a conversation stays on its route, that each turn is chosen afresh, and that everything goes to one route. It
// chooses with the code of the gateway. What upstreams have in their caches is simulated: all of a turn, until
// affinity.Warm after it.
package replay

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/llm"
)

// Conversation is the turns of one.
type Conversation []Turn

// Turn is a request with the whole conversation so far, as clients send it, and what came of it.
type Turn struct {
	Request *llm.Request
	Input   int64         // tokens
	Output  int64         // tokens
	After   time.Duration // since the turn before
}

// Set is conversations of one kind.
type Set struct {
	Name          string
	Conversations []Conversation
}

// Setup is what conversations are played through.
type Setup struct {
	Routes    []config.Route
	Profile   config.Profile
	Predictor *routing.Predictor
}

// Way is a way of choosing, and what came of it.
type Way struct {
	Microcents float64 `json:"microcents"`
	Quality    float64 `json:"quality"` // expected of each turn alone, the mean over turns
	Moves      int     `json:"moves"`   // turns on another route than the one before
}

// Result is what a set of conversations comes to. Costs are microcents.
type Result struct {
	Set           string `json:"set"`
	Conversations int    `json:"conversations"`
	Turns         int    `json:"turns"`

	Kept   Way            `json:"kept"`   // conversations stay on their route
	Afresh Way            `json:"afresh"` // each turn is chosen afresh
	Fixed  map[string]Way `json:"fixed"`  // everything on one route
	// Route is the cheapest fixed route that is expected to be as good as Kept, "" where none is.
	Route string `json:"cheapest_fixed"`
	// Mix is the cost of the cheapest mix of fixed routes that is expected to be as good: each conversation on one of
	// them, by lot. One route that is as good may be far better, and which one it is can hang on a thousandth; a mix is
	// neither.
	Mix float64 `json:"cheapest_mix"`
	// SavedAfresh, SavedFixed and SavedMix are the shares of those costs that Kept saves. Where there is no Route, Mix
	// and the last two are 0.
	SavedAfresh float64 `json:"saved_against_afresh"`
	SavedFixed  float64 `json:"saved_against_fixed"`
	SavedMix    float64 `json:"saved_against_mix"`
}

// as good as: within this much.
const asGood = 0.001

// Play plays a set.
func Play(s Setup, set Set) (Result, error) {
	r := Result{Set: set.Name, Conversations: len(set.Conversations), Fixed: make(map[string]Way)}
	kept, afresh := player{Setup: s}, player{Setup: s}
	fixed := make([]player, len(s.Routes))
	for i := range fixed {
		fixed[i] = player{Setup: s}
	}
	exchange := routing.NewExchange(s.Routes, []config.Profile{s.Profile}, s.Predictor)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	book := affinity.New(affinity.Options{Now: now, Secret: []byte("replay")})
	for c, conversation := range set.Conversations {
		kept.begin()
		afresh.begin()
		for i := range fixed {
			fixed[i].begin()
		}
		for t := range conversation {
			turn := &conversation[t]
			at = at.Add(turn.After)
			in := routing.Input{Routes: s.Routes, Profile: s.Profile, Exchange: exchange, Needs: routing.NeedsOf(turn.Request),
				InputTokens: turn.Input, Predictor: s.Predictor, Request: turn.Request}
			in.Past = new(routing.Past) // by this turn alone
			fresh, err := routing.MakeItinerary(in)
			if err != nil {
				return r, fmt.Errorf("choosing a route in %s: %w", set.Name, err)
			}
			key := book.Key(fmt.Sprint(c), s.Profile.Name, turn.Request)
			in.Past = book.Past(context.Background(), key)
			stays, err := routing.MakeItinerary(in)
			if err != nil {
				return r, fmt.Errorf("choosing a route in %s: %w", set.Name, err)
			}
			served := stays.Candidates[0].Route.Name
			book.Note(context.Background(), key, affinity.Turn{Home: stays.Home, Served: served,
				Tokens: turn.Input + turn.Output, Work: stays.Work}, time.Hour)

			quality := make(map[string]float64)
			for _, candidate := range fresh.Candidates {
				quality[candidate.Route.Name] = candidate.Quality
			}
			kept.serve(turn, served, quality, at)
			afresh.serve(turn, fresh.Candidates[0].Route.Name, quality, at)
			for i := range fixed {
				fixed[i].serve(turn, s.Routes[i].Name, quality, at)
			}
			r.Turns++
		}
		at = at.Add(24 * time.Hour)
	}
	r.Kept, r.Afresh = kept.way(), afresh.way()
	for i := range fixed {
		if !fixed[i].missed { // otherwise it cannot serve all of it
			r.Fixed[s.Routes[i].Name] = fixed[i].way()
		}
	}
	r.SavedAfresh = saved(r.Kept.Microcents, r.Afresh.Microcents)
	r.compare()
	if r.Route != "" {
		r.Mix = mix(r.Fixed, r.Kept.Quality)
		r.SavedMix = saved(r.Kept.Microcents, r.Mix)
	}
	return r, nil
}

// Total is what several sets come to together. Its Mix is the sum of theirs, each as good as what was kept there.
func Total(all []Result) Result {
	t := Result{Set: "all", Fixed: make(map[string]Way)}
	for i, r := range all {
		add := func(a, b Way) Way {
			turns := float64(max(t.Turns+r.Turns, 1))
			return Way{Microcents: a.Microcents + b.Microcents, Moves: a.Moves + b.Moves,
				Quality: (a.Quality*float64(t.Turns) + b.Quality*float64(r.Turns)) / turns}
		}
		for name, way := range r.Fixed {
			if before, ok := t.Fixed[name]; ok || i == 0 {
				t.Fixed[name] = add(before, way)
			}
		}
		for name := range t.Fixed {
			if _, ok := r.Fixed[name]; !ok {
				delete(t.Fixed, name) // it cannot serve all of it
			}
		}
		t.Kept, t.Afresh, t.Mix = add(t.Kept, r.Kept), add(t.Afresh, r.Afresh), t.Mix+r.Mix
		t.Conversations, t.Turns = t.Conversations+r.Conversations, t.Turns+r.Turns
	}
	t.SavedAfresh = saved(t.Kept.Microcents, t.Afresh.Microcents)
	t.compare()
	if t.Route == "" || slices.ContainsFunc(all, func(r Result) bool { return r.Route == "" }) {
		t.Route, t.Mix, t.SavedFixed, t.SavedMix = "", 0, 0, 0
		return t
	}
	t.SavedMix = saved(t.Kept.Microcents, t.Mix)
	return t
}

// compare finds the cheapest fixed route that is as good as what was kept.
func (r *Result) compare() {
	cheapest := math.Inf(1)
	for _, name := range slices.Sorted(maps.Keys(r.Fixed)) {
		way := r.Fixed[name]
		if way.Quality >= r.Kept.Quality-asGood && way.Microcents < cheapest {
			cheapest, r.Route = way.Microcents, name
		}
	}
	if r.Route != "" {
		r.SavedFixed = saved(r.Kept.Microcents, cheapest)
	}
}

// mix is what the cheapest mix of two ways costs that has a quality, or that of the best one.
func mix(ways map[string]Way, quality float64) float64 {
	best := Way{Quality: math.Inf(-1)}
	for _, w := range ways {
		if w.Quality > best.Quality || w.Quality == best.Quality && w.Microcents < best.Microcents {
			best = w
		}
	}
	quality = min(quality, best.Quality)
	cheapest := best.Microcents
	for _, good := range ways {
		if good.Quality < quality {
			continue
		}
		cheapest = min(cheapest, good.Microcents)
		for _, other := range ways {
			if other.Quality < quality {
				share := (quality - other.Quality) / (good.Quality - other.Quality)
				cheapest = min(cheapest, other.Microcents+share*(good.Microcents-other.Microcents))
			}
		}
	}
	return cheapest
}

func saved(cost, of float64) float64 {
	if of == 0 {
		return 0
	}
	return 1 - cost/of
}

// player is one way of choosing, through all conversations.
type player struct {
	Setup

	caches  map[string]cache // of the conversation, by route
	last    string
	turns   int
	cost    float64
	quality float64
	moves   int
	missed  bool // a turn that its route cannot serve
}

type cache struct {
	tokens int64
	until  time.Time
}

func (p *player) begin() { p.caches, p.last = make(map[string]cache), "" }

// serve charges a turn on a route.
func (p *player) serve(turn *Turn, name string, quality map[string]float64, at time.Time) {
	q, can := quality[name]
	if !can {
		p.missed = true
		return
	}
	var price config.Price
	for i := range p.Routes {
		if p.Routes[i].Name == name {
			price, _ = p.Routes[i].Price.At(turn.Input)
		}
	}
	cached := int64(0)
	if c := p.caches[name]; at.Before(c.until) {
		cached = min(c.tokens, turn.Input)
	}
	fresh := price.Input
	if price.CacheRead < price.Input {
		fresh = price.CacheWrite
	}
	p.cost += (float64(turn.Input-cached)*float64(fresh) + float64(cached)*float64(price.CacheRead) +
		float64(turn.Output)*float64(price.Output)) / 1e6
	p.caches[name] = cache{turn.Input + turn.Output, at.Add(affinity.Warm)}
	p.quality += q
	p.turns++
	if p.last != "" && p.last != name {
		p.moves++
	}
	p.last = name
}

func (p *player) way() Way {
	if p.turns == 0 {
		return Way{}
	}
	return Way{Microcents: math.Round(p.cost), Quality: p.quality / float64(p.turns), Moves: p.moves}
}
