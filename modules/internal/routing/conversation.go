package routing

import (
	"errors"
	"math"
	"slices"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Past is what is remembered of a conversation (package affinity). Choosing afresh for each turn would throw the
// caches of upstreams away, which can cost more than any choice saves.
type Past struct {
	Home   string    // the route that was chosen for it
	Served [2]Served // the routes that served it last, the latest first
	Work   Work
}

// Work is what a conversation has been about: the mean of its turns, of which the last ones count the most.
type Work struct {
	Turns int `json:"turns"` // that were looked at, up to some
	predict.Work
}

// remembered is over how many turns the mean is taken, about.
const remembered = 8

// and is the work with another turn.
func (w Work) and(turn *predict.Work) Work {
	w.Turns = min(w.Turns+1, remembered)
	w.Toward(turn, 1/float32(w.Turns))
	return w
}

// Served is what the upstream of a route is expected to have of a conversation.
type Served struct {
	Route string
	Warm  int64 // tokens in its cache
}

// warm is how many tokens of the conversation a route's upstream is expected to have in its cache.
func (p *Past) warm(route string) (tokens int64) {
	if p == nil {
		return 0
	}
	for _, s := range p.Served {
		if s.Route == route {
			tokens = max(tokens, s.Warm)
		}
	}
	return tokens
}

// Stay is why a conversation is where it is.
type Stay string

const (
	StayNew   Stay = ""          // nothing is remembered of it, or nothing is there to choose
	StayLoop  Stay = "tool_loop" // it is in a loop of tool calls, which is never broken
	StayHome  Stay = "kept"      // no other route gains what its cold cache costs
	StayMoved Stay = "moved"     // another route does
	StayGone  Stay = "gone"      // the route cannot serve it
)

// With keep_quality, cheaper is how much cheaper another route must be for a conversation to move to it, and around
// how much better or worse than the quality to keep, divided by the root of the turns that are known: the fewer, the
// less sure it is. Otherwise it would go to and fro between routes that are alike.
const (
	cheaper = 0.05
	around  = 0.2
)

// patience is for how much of its route's price a conversation stays there for nothing.
const patience = 0.01

// staying is by how much utility another route must be ahead for a conversation to leave its own: what a hundredth of
// its price is worth. What a cold cache costs is in the cost already, so that more would only lose money; with
// nothing, a conversation would go to and fro between routes that are alike. It goes by the conversation's own route
// alone, so that it does not matter which others there are.
func staying(home *Candidate, rate float64) float64 {
	if math.IsInf(rate, 1) {
		rate = 1 // utility is in units
	}
	return patience * rate * min(home.Units, 1)
}

// loopRoute is the place of the candidate that a loop of tool calls is on, -1 for none.
func loopRoute(in *Input, candidates []Candidate) int {
	if in.Past == nil || !in.Loops() {
		return -1
	}
	if at := place(candidates, in.Past.Served[0].Route); at >= 0 {
		return at
	}
	return place(candidates, in.Past.Home)
}

func place(candidates []Candidate, route string) int {
	return slices.IndexFunc(candidates, func(c Candidate) bool { return c.Route.Name == route })
}

// stay puts the route first that the conversation stays on. The candidates are in order.
func stay(in *Input, it *Itinerary) {
	it.Home = it.Candidates[0].Route.Name
	if in.Past == nil {
		return
	}
	if at := loopRoute(in, it.Candidates); at >= 0 {
		it.Stay, it.Home = StayLoop, in.Past.Home
		toFront(it.Candidates, at)
		return
	}
	at := place(it.Candidates, in.Past.Home)
	switch {
	case at < 0:
		it.Stay = StayGone
		if slices.ContainsFunc(it.Rejected, func(r Rejected) bool {
			return r.Route.Name == in.Past.Home && (errors.Is(r.Why, ErrNotReady) || errors.Is(r.Why, ErrBusy))
		}) {
			it.Home = in.Past.Home // it may come back
		}
	case it.Candidates[at].Behind != nil && it.Candidates[0].Behind == nil:
		it.Stay, it.Home = StayGone, in.Past.Home
	case leaves(it, &it.Candidates[at]):
		it.Stay = StayMoved
	default:
		it.Stay, it.Home = StayHome, in.Past.Home
		toFront(it.Candidates, at)
	}
}

// leaves reports whether a conversation goes from its route to the first one.
func leaves(it *Itinerary, home *Candidate) bool {
	first := &it.Candidates[0]
	switch {
	case first.Matches != home.Matches || first.Cramped != home.Cramped:
		return true
	case first.Keeps:
		unsure := around / math.Sqrt(float64(max(it.Work.Turns, 1)))
		if it.Work.Turns == 0 {
			unsure = 0 // nothing is predicted
		}
		return home.Quality < it.KeepFrom-unsure ||
			first.Quality >= it.KeepFrom+unsure && home.Cost > first.Cost*(1+cheaper)
	}
	return first.Utility-home.Utility > staying(home, it.Rate)
}

func toFront(candidates []Candidate, at int) {
	c := candidates[at]
	copy(candidates[1:], candidates[:at])
	candidates[0] = c
}

// mostRest is the most turns that a conversation is expected to have yet, and ofAgents the fewest of one that begins
// as of an agent: who offers tools means them to be called, and each call makes a turn. A first prompt of longPrompt
// tokens is an agent's too, which has its tools in the text, or about a document, of which more is asked.
const (
	mostRest   = 20
	ofAgents   = 5
	longPrompt = 4000
)

// beginsLong reports whether it is the first prompt of a conversation, without tools, and a long one: what is asked in
// it says little about the turns to come.
func (in *Input) beginsLong() bool {
	return in.Past == nil && !in.Needs.Tools && in.InputTokens >= longPrompt && in.turns() == 0
}

// rest is how many turns a conversation is expected to have, with this one: as many as it had, for nothing else is
// known. What begins may be a single question, unless there are tools.
func (in *Input) rest() float64 {
	fewest := 2
	if in.Past == nil {
		if !in.Needs.Tools && !in.beginsLong() {
			return 1
		}
		fewest = ofAgents
	}
	return float64(min(max(in.turns(), fewest), mostRest))
}
