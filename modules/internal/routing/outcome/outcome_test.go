package outcome

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

// world is a book, a clock that a test turns, and a store.
type world struct {
	*Book
	at   time.Time
	kept []Row
}

func newWorld() *world {
	w := &world{at: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	w.Book = NewBook(func() time.Time { return w.at })
	return w
}

// save folds twice, as stores may.
func (w *world) save(t require.TestingT) {
	require.NoError(t, w.Save(func(fold func([]Row) []Row) error {
		fold(slices.Clone(w.kept))
		w.kept = fold(w.kept)
		return nil
	}))
}

var (
	small   = &config.Route{Name: "small", Model: "small-1", Quality: 0.6}
	coding  = Kinds{predict.Code: 1}
	halfway = Kinds{predict.Code: 0.5, predict.Math: 0.5}
)

// expected is the quality of a route at code that the operator says is 0.8.
func (w *world) expected(r *config.Route) float64 { return w.Learned().On(r, predict.Code, 0.8) }

// TestFewEventsSayLittle: a route's quality does not collapse by few events, and comes back.
func TestFewEventsSayLittle(t *testing.T) {
	t.Parallel()
	w := newWorld()
	require.InDelta(t, 0.8, w.expected(small), 0)
	w.Note(small, "one", &coding, InvalidCall)
	w.save(t)
	require.InDelta(t, 0.8, w.expected(small), 0, "one is no step")
	for range 9 {
		w.Note(small, "one", &coding, InvalidCall)
	}
	require.InDelta(t, 0.8, w.expected(small), 0, "not before it is kept")
	w.save(t)
	require.InDelta(t, 0.8*50/60, w.expected(small), 1e-9)
	require.InDelta(t, 0.8, w.Learned().On(small, predict.Math, 0.8), 0, "another kind of work")
	other := *small
	other.Model = "small-2"
	require.InDelta(t, 0.8, w.expected(&other), 0, "another model begins anew")
	off := *small
	off.Learn = new(false)
	require.InDelta(t, 0.8, w.expected(&off), 0, "learn = false")
	w.Note(&off, "one", &coding, InvalidCall)
	require.InDelta(t, 10, w.Rows()[0].Failed, 0, "it is not even counted")
	for range 10_000 {
		w.Note(small, "one", &coding, InvalidCall)
	}
	w.save(t)
	require.InDelta(t, 0.4, w.expected(small), 1e-9, "it is never less than half")
	for range 500 {
		w.Note(small, "one", &coding, Worked)
	}
	w.save(t)
	require.InDelta(t, 0.8, w.expected(small), 0, "what works now counts more than what was")
}

// TestDecay: what was seen counts half after a day, what people said after a month; then it is forgotten.
func TestDecay(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for range 16 {
		w.Note(small, "one", &halfway, InvalidCall)
	}
	w.save(t)
	rows := w.Rows()
	require.Len(t, rows, 2)
	require.Equal(t, Row{Route: "small", Model: "small-1", Kind: "code", Failed: 8, At: w.at}, rows[0])
	require.Equal(t, "math", rows[1].Kind)
	w.at = w.at.Add(HalfLife)
	require.InDelta(t, 4, w.Rows()[0].Failed, 1e-9)
	w.at = w.at.Add(20 * HalfLife)
	w.save(t)
	require.Len(t, w.kept, 2, "nothing is written for nothing")
	require.InDelta(t, 0.8, w.expected(small), 1e-4, "they say nothing")
	w.Note(&config.Route{Name: "other"}, "one", &coding, Worked)
	w.save(t)
	require.Len(t, w.kept, 1)
	require.InDelta(t, 0.8, w.expected(small), 0)
}

// TestSteps: between two values that waver, what is made known stays.
func TestSteps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		verdicts := Verdicts()
		expected := func() (at [3]float64) {
			for i, q := range [...]float64{0.1, 0.5, 0.9} {
				at[i] = w.Learned().On(small, predict.Code, q)
			}
			return at
		}
		last := expected()
		for range rapid.IntRange(1, 40).Draw(t, "minutes") {
			v := rapid.SampledFrom(verdicts).Draw(t, "verdict")
			for range rapid.IntRange(0, 30).Draw(t, "requests") {
				w.Note(small, "one", &coding, v)
			}
			w.at = w.at.Add(time.Minute)
			w.save(t)
			is, change := expected(), 0.0
			for i := range is {
				change = max(change, math.Abs(is[i]-last[i]))
			}
			require.True(t, is == last || change >= step, "it changes in steps: a choice does not waver with each request")
			last = is
			require.GreaterOrEqual(t, is[2], 0.9*LeastReliability/2-1e-9)
			require.LessOrEqual(t, is[2], 1.0)
			for _, r := range w.kept {
				require.LessOrEqual(t, r.Worked+r.Failed, MaxSeen+1e-9)
				require.LessOrEqual(t, r.Good+r.Bad, MaxTold+1e-9)
				require.GreaterOrEqual(t, min(r.Worked, r.Failed, r.Good, r.Bad), 0.0)
			}
		}
	})
}

// TestSaveFails: what could not be kept is kept later, once; what others have counted comes in.
func TestSaveFails(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Note(small, "one", &coding, InvalidCall)
	away := errors.New("away")
	require.ErrorIs(t, w.Save(func(fold func([]Row) []Row) error {
		fold(nil)
		return away
	}), away)
	w.Note(small, "one", &coding, InvalidCall)
	w.kept = []Row{{Route: "small", Model: "small-1", Kind: "code", Account: "one", Failed: 20, At: w.at},
		{Route: "other", Model: "m", Kind: "of another version", Failed: 30, At: w.at}}
	w.save(t)
	w.save(t)
	require.InDelta(t, 22, w.kept[1].Failed, 0)
	require.Len(t, w.kept, 2, "what another version counts stays")
	require.InDelta(t, 0.8*50/72, w.expected(small), 1e-9)
}

// TestRowsWhileTheyAreSaved: what is on its way to the store is counted, too, once.
func TestRowsWhileTheyAreSaved(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for n := range 3 {
		w.Note(small, "one", &coding, InvalidCall)
		require.NoError(t, w.Save(func(fold func([]Row) []Row) error {
			before := w.Rows()
			require.Len(t, before, 1)
			require.InDelta(t, n+1, before[0].Failed, 1e-9)
			w.Note(small, "one", &coding, InvalidCall)
			require.InDelta(t, n+2, w.Rows()[0].Failed, 1e-9)
			w.kept = fold(w.kept)
			return nil
		}))
		require.InDelta(t, n+2, w.Rows()[0].Failed, 1e-9)
		w.counted = make(map[source]Counts) // the one that came meanwhile
	}
}

// TestBounded: old configurations leave so many rows, and no more.
func TestBounded(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for i := range maxRows + 10 {
		w.Note(&config.Route{Name: fmt.Sprintf("route%05d", i)}, "one", &coding, Worked)
	}
	w.Note(small, "one", &coding, Worked)
	w.Note(small, "one", &coding, Worked)
	w.save(t)
	require.Len(t, w.kept, maxRows)
	require.Equal(t, "small", w.kept[maxRows-1].Route, "what counts most stays")
	require.True(t, slices.IsSortedFunc(w.kept, order))
}

// conversation is a request of these messages.
func conversation(messages ...llm.Message) *llm.Request {
	return &llm.Request{Messages: messages, Tools: []llm.Tool{{Name: "find", Schema: []byte(`{"type":"object",
		"properties":{"name":{"type":"string"},"most":{"type":["integer","null"]},"any":{}},"required":["name"]}`)}}}
}

func says(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Parts: []llm.Part{llm.Text(text)}}
}

func calls(name, arguments string) llm.Message {
	call := &llm.ToolCall{ID: "1", Name: name, Arguments: llm.Plain(arguments)}
	return llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: call}}}
}

// TestTheNextTurnTells: failed tools, calls that do not fit, and the same prompt again.
func TestTheNextTurnTells(t *testing.T) {
	t.Parallel()
	ask := says(llm.RoleUser, "Find it")
	worked, failed := says(llm.RoleTool, "found"), says(llm.RoleTool, "no such file")
	failed.IsError = true
	for name, tc := range map[string]struct {
		next []llm.Message
		want Verdict
	}{
		"an answer":                   {[]llm.Message{ask, says(llm.RoleAssistant, "Here"), says(llm.RoleUser, "Ok")}, None},
		"a tool that worked":          {[]llm.Message{ask, calls("find", `{"name":"a"}`), worked}, None},
		"one that failed":             {[]llm.Message{ask, calls("find", `{"name":"a"}`), worked, failed}, ToolFailed},
		"that failed later":           {[]llm.Message{ask, says(llm.RoleAssistant, "Here"), ask, failed}, None},
		"a required member missing":   {[]llm.Message{ask, calls("find", `{"most":1}`), worked}, Mismatch},
		"a member of another type":    {[]llm.Message{ask, calls("find", `{"name":1}`), worked}, Mismatch},
		"no integer":                  {[]llm.Message{ask, calls("find", `{"name":"a","most":1.5}`), worked}, Mismatch},
		"an integer":                  {[]llm.Message{ask, calls("find", `{"name":"a","most":2.0}`), worked}, None},
		"null where that may be":      {[]llm.Message{ask, calls("find", `{"name":"a","most":null}`), worked}, None},
		"what is not declared":        {[]llm.Message{ask, calls("find", `{"name":"a","more":[],"any":{}}`), worked}, None},
		"no object":                   {[]llm.Message{ask, calls("find", `[]`), worked}, Mismatch},
		"null":                        {[]llm.Message{ask, calls("find", `null`), worked}, Mismatch},
		"nothing at all":              {[]llm.Message{ask, calls("find", ``), worked}, Mismatch},
		"a tool that is not there":    {[]llm.Message{ask, calls("lose", `{}`), worked}, None},
		"the same again":              {[]llm.Message{ask}, Retried},
		"another prompt":              {[]llm.Message{says(llm.RoleUser, "Find another")}, None},
		"the end of what was there":   {[]llm.Message{}, None},
		"the client's own in between": {[]llm.Message{ask, ask, failed}, None},
	} {
		w := newWorld()
		turn := TurnOf(affinity.Key{1}, conversation(ask))
		w.Remember(Request{ID: "req_1", Route: "small", Model: "small-1", Kinds: coding, Turn: turn})
		next := conversation(tc.next...)
		before, verdict := w.Look(TurnOf(affinity.Key{2}, next), next)
		require.Equal(t, None, verdict, "%s: another conversation", name)
		require.Zero(t, before)
		before, verdict = w.Look(TurnOf(affinity.Key{1}, next), next)
		require.Equal(t, tc.want, verdict, name)
		require.Equal(t, "small", before.Route, name)
		_, verdict = w.Look(TurnOf(affinity.Key{1}, next), next)
		require.Equal(t, None, verdict, "%s: it shows once", name)
	}
	w := newWorld()
	turn := TurnOf(affinity.Key{1}, conversation(ask))
	w.Remember(Request{Turn: turn})
	w.at = w.at.Add(retryWithin)
	_, verdict := w.Look(turn, conversation(ask))
	require.Equal(t, None, verdict, "it was long ago")
}

// TestAWrongCallCountsOnce: of a call that was found wrong when it was made the next turn tells nothing again.
func TestAWrongCallCountsOnce(t *testing.T) {
	t.Parallel()
	w, ask := newWorld(), says(llm.RoleUser, "Find it")
	turn := TurnOf(affinity.Key{1}, conversation(ask))
	w.Remember(Request{ID: "req_1", Route: "small", Turn: turn, Judged: true})
	failed := says(llm.RoleTool, "no such file")
	failed.IsError = true
	next := conversation(ask, calls("find", `{}`), failed)
	before, verdict := w.Look(TurnOf(affinity.Key{1}, next), next)
	require.Equal(t, "req_1", before.ID)
	require.Equal(t, None, verdict)
	known, ok := w.Find("req_1")
	require.True(t, ok, "it can be told of, all the same")
	require.Equal(t, "small", known.Route)
}

// TestLongSchemasAreNotLookedAt: nor are those that cannot be read.
func TestLongSchemasAreNotLookedAt(t *testing.T) {
	t.Parallel()
	tool := conversation().Tools[0]
	require.False(t, fits(&tool, `{}`))
	tool.Schema = append(tool.Schema, make([]byte, maxSchema)...)
	require.True(t, fits(&tool, `{}`))
	require.True(t, fits(&llm.Tool{Schema: []byte(`{"required":1}`)}, `{}`))
	require.True(t, fits(&llm.Tool{Schema: []byte(`{"properties":{"a":{"type":{}}}}`)}, `{"a":1}`))
	require.True(t, fits(&llm.Tool{Schema: []byte(`{"properties":{"a":{"type":"boolean"},"b":{"type":"array"}}}`)},
		`{"a":true,"b":[]}`))
	require.False(t, fits(&llm.Tool{Schema: []byte(`{"properties":{"a":{"type":"number"}}}`)}, `{"a":{}}`))
}

// TestRecentIsBounded: in number, and in time.
func TestRecentIsBounded(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	r := newRecent(4, func() time.Time { return at })
	key := func(i int) affinity.Key { return affinity.Key{byte(i)} }
	for i := range 10 {
		r.Remember(Request{ID: fmt.Sprint(i), Turn: Turn{Key: key(i)}, Route: fmt.Sprint(i)})
		require.LessOrEqual(t, len(r.byID), 4)
		require.LessOrEqual(t, len(r.byTurn), 4)
	}
	for i := range 10 {
		known, ok := r.Find(fmt.Sprint(i))
		require.Equal(t, i >= 6, ok)
		before, _ := r.Look(Turn{Key: key(i), Messages: -1}, nil)
		require.Equal(t, known.Route, before.Route)
	}
	for i := range 4 {
		r.Remember(Request{ID: fmt.Sprint("again", i), Turn: Turn{Key: key(9)}, Route: "again"})
	}
	require.Len(t, r.byTurn, 1)
	at = at.Add(Lifetime)
	_, ok := r.Find("again3")
	require.False(t, ok)
	before, _ := r.Look(Turn{Key: key(9)}, nil)
	require.Zero(t, before)
}

// TestTell: the last word about a request counts, once; it moves a quality towards what people say, by half at most.
func TestTell(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, ok := w.Tell("req_1", ToldGood)
	require.False(t, ok)
	w.Remember(Request{ID: "req_1", Route: "small", Model: "small-1", Kinds: coding})
	for _, v := range []Verdict{ToldGood, ToldGood, ToldBad, ToldBad} {
		req, ok := w.Tell("req_1", v)
		require.True(t, ok)
		require.Equal(t, "small", req.Route)
		w.save(t)
	}
	require.Equal(t, []Row{{Route: "small", Model: "small-1", Kind: "code", Bad: 1, At: w.at}}, w.kept)
	for i := range 1000 {
		id := fmt.Sprint(i)
		w.Remember(Request{ID: id, Route: "small", Model: "small-1", Kinds: coding})
		w.Tell(id, ToldBad)
	}
	w.save(t)
	require.InDelta(t, 0.4, w.expected(small), 1e-9)
	heavy := *small
	heavy.QualityWeight = 10_000
	require.InDelta(t, 0.8, w.expected(&heavy), 0.01, "as many observations as the operator says")
	for i := range 1000 {
		w.Tell(fmt.Sprint(i), ToldGood)
	}
	w.save(t)
	require.InDelta(t, 0.9, w.expected(small), 1e-9)
}

// TestKindsOf: as predicted, as before, or as it looks.
func TestKindsOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, halfway, KindsOf(halfway, &Request{Kinds: coding}, true))
	require.Equal(t, coding, KindsOf(Kinds{}, &Request{Kinds: coding}, true))
	require.Equal(t, Kinds{predict.Tools: 1}, KindsOf(Kinds{}, &Request{}, true))
	require.Equal(t, Kinds{predict.Knowledge: 1}, KindsOf(Kinds{}, &Request{}, false))
}

// TestVerdicts: each has a word of its own, and counts.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for _, v := range Verdicts() {
		words[v.String()] = true
		require.NotZero(t, weights[v], v.String())
	}
	require.Len(t, words, int(numVerdicts)-1)
	require.Zero(t, weights[None])
	require.Equal(t, routing.Effect{Reliability: 1}, (&Row{}).Effect())
}
