package predict

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
)

func ask(text string) *llm.Request {
	return &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}}}
}

// seen is what is left of features when their working memory is used again.
type seen struct {
	stats [numStats]float32
	words []uint32
	chars []uint16
}

func read(f *Features, req *llm.Request) seen {
	f.Read(req)
	s := seen{f.stats, slices.Clone(f.words), slices.Clone(f.chars)}
	slices.Sort(s.words)
	slices.Sort(s.chars)
	return s
}

const question = "A train leaves at 8:30 and goes 120 km in 2 hours. How fast is it, on average?\n" +
	"A. 60 km an hour\nB. 30 km an hour\nC. not at all\n"

func TestFeatures_questionIsWhatIsAsked(t *testing.T) {
	t.Parallel()
	f := NewFeatures()
	plain := read(f, ask(question))
	for name, text := range map[string]string{
		"another mark at its end":   question + "Answer:",
		"an instruction at its end": question + "Print only a single choice without explanation.\nAnswer:",
		"examples before it": "Two and two?\nA. 4\nB. 5\nAnswer:\nA\n\nOne and one?\nA. 1\nB. 2\nAnswer:\nB\n\n" +
			question + "Answer:",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := read(NewFeatures(), ask(text))
			require.Equal(t, plain.words, got.words)
			require.Equal(t, plain.chars, got.chars)
		})
	}
	require.Positive(t, plain.stats[statOptions])
	require.Positive(t, plain.stats[statNumbers])
	require.Positive(t, plain.stats[statNegations])
	require.Zero(t, plain.stats[statShots])
}

func TestFeatures_statistics(t *testing.T) {
	t.Parallel()
	f := NewFeatures()
	code := read(f, ask("def f(x):\n    return x == 2\nprint(f(3));"))
	require.Positive(t, code.stats[statCoding])
	require.Positive(t, code.stats[statCode])
	require.Positive(t, code.stats[statIndented])
	korean := read(f, ask("휴대 전화의 전파 범위를 벗어난 곳"))
	require.Greater(t, korean.stats[statForeign], float32(0.7))
	write := read(f, ask("Write a poem about the sea"))
	require.Positive(t, write.stats[statWriting])
	require.Zero(t, write.stats[statForeign])

	agent := read(f, &llm.Request{
		Tools:  []llm.Tool{{Name: "ls", Schema: json.RawMessage(`{"type":"object"}`)}},
		Format: &llm.Format{Kind: llm.FormatJSONObject},
		Messages: []llm.Message{
			{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("You are an agent.")}},
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Tidy up")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("I look")}},
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Go on")}},
			{Role: llm.RoleTool, CallID: "1", IsError: true, Parts: []llm.Part{llm.Text("no such file")}},
		},
	})
	for _, stat := range []int{statTools, statSchema, statSystem, statTurns, statToolTurn, statToolErrors, statFormat} {
		require.Positive(t, agent.stats[stat], stat)
	}
}

// What is read does not depend on what was read before, nor on whether texts are still in their JSON form.
func TestFeatures_property(t *testing.T) {
	t.Parallel()
	used := NewFeatures()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ToValidUTF8(rapid.StringN(0, 200, 2000).Draw(t, "text"), "")
		want := read(NewFeatures(), ask(text))
		require.Equal(t, want, read(used, ask(text)))
		inside, err := json.Marshal(text)
		require.NoError(t, err)
		if strings.Contains(string(inside), `\ud`) {
			return
		}
		req := ask("")
		req.Messages[0].Parts[0].Text = llm.Quoted(string(inside[1 : len(inside)-1]))
		got := read(used, req)
		require.Equal(t, want.words, got.words)
		require.Equal(t, want.chars, got.chars)
	})
}

func TestFeatures_headAndTail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 50000)
	f := NewFeatures()
	read(f, ask("beginning "+long+" end"))
	require.LessOrEqual(t, len(f.text), maxBytes)
	require.Contains(t, string(f.norm), "beginning")
	require.Contains(t, string(f.norm), "end")
	read(f, &llm.Request{})
	require.Empty(t, f.words)
}

// loop is a user's text, and what was said since.
func loop(text string, since ...llm.Message) *llm.Request {
	req := ask(text)
	req.Messages = append(req.Messages, since...)
	return req
}

func result(text string) llm.Message {
	return llm.Message{Role: llm.RoleTool, CallID: "1", Parts: []llm.Part{llm.Text(text)}}
}

// TestFeatures_end is issue 13: the tail of the conversation is read whoever wrote it, and apart from what users did.
func TestFeatures_end(t *testing.T) {
	t.Parallel()
	f := NewFeatures()
	alone := read(f, ask(question))
	require.False(t, f.ended)
	call := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "1", Name: "f"}}}}
	long := strings.Repeat("x ", 50000)
	for name, tc := range map[string]struct {
		since []llm.Message
		want  string // the end of what is read
		n     int    // its length, 0 for as long as it is
	}{
		"a result":               {[]llm.Message{call, result("--- FAIL: TestGet")}, "--- FAIL: TestGet\n", 0},
		"results of calls":       {[]llm.Message{call, result("one"), result("two")}, "one\ntwo\n", 0},
		"a long result":          {[]llm.Message{call, result("begin"), result(long + "end")}, "x end\n", endBytes},
		"a long and a short one": {[]llm.Message{call, result(long), result("end")}, "x \nend\n", endBytes},
		"just enough":            {[]llm.Message{result("no"), result(long[:endBytes-1])}, "x\n", endBytes},
		"one more":               {[]llm.Message{result("no"), result(long[:endBytes-2])}, "x \n", endBytes},
		"what the model began":   {[]llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("So,")}}}, "So,\n", 0},
		"instructions are none": {[]llm.Message{result("two"), {Role: llm.RoleSystem, Parts: []llm.Part{llm.Text(long)}}},
			"two\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewFeatures()
			got := read(f, loop(question, tc.since...))
			require.True(t, f.ended)
			require.Equal(t, alone.words, got.words, "what users wrote is as it was")
			require.True(t, strings.HasSuffix(string(f.end.text), tc.want), "%q", f.end.text)
			if tc.n == 0 {
				tc.n = len(tc.want)
			}
			require.Len(t, f.end.text, tc.n)
			require.InDelta(t, got.stats[statLength], f.end.stats[statLength], 0)
			read(f, ask(question))
			require.False(t, f.ended, "nothing is left of it")
		})
	}
	for _, since := range [][]llm.Message{nil, {call}, {call, result("")}, {result(" \n")}} {
		read(f, loop(question, since...))
		require.False(t, f.ended)
	}
}

// TestLook_end: what a tool says makes a conversation harder or easier, and does not change what it is about.
func TestLook_end(t *testing.T) {
	t.Parallel()
	m, f := Default(), NewFeatures()
	look := func(req *llm.Request) *Signal {
		f.Read(req)
		s := new(Signal)
		m.Look(f, s)
		return s
	}
	const order = "Write a poem about the sea."
	const hard = "Let $f$ be a polynomial of degree 5 with integer coefficients such that f(n) is divisible by 7 for " +
		"all integers n. Compute the number of such f modulo 7."
	alone, end := look(ask(order)), look(&llm.Request{Messages: []llm.Message{result(hard)}})
	both := look(loop(order, result(hard)))
	require.Equal(t, look(loop(order, result(""))).Kinds, both.Kinds)
	require.Greater(t, m.Ease(alone), m.Ease(end))
	require.InDelta(t, m.Ease(alone)+(m.Ease(end)-m.Ease(alone))/3, m.Ease(both), 0.1)
	require.InDelta(t, alone.Trust+(end.Trust-alone.Trust)/3, both.Trust, 0.01)
	require.Greater(t, end.Kinds[Math], float32(0.2), "where nothing else is, that is what it is about")
	strange := result(strings.Repeat("qzx vkj wqp ", 40))
	end = look(&llm.Request{Messages: []llm.Message{strange}})
	require.Greater(t, alone.Trust-end.Trust, float32(0.5))
	require.InDelta(t, alone.Trust+(end.Trust-alone.Trust)/3, look(loop(order, strange)).Trust, 1e-5, "a third")
	kept := new(Signal)
	require.True(t, m.Unpack(m.Pack(nil, both), kept))
	require.InDelta(t, m.Ease(both), m.Ease(kept), 0.05)
}

func FuzzFeatures(f *testing.F) {
	f.Add(question, true)
	f.Add(`\u00e4 \\ \"quoted\" \`, false)
	f.Add("A) a\nA) b\n\n(c) \x80\xff:", true)
	features := NewFeatures()
	f.Fuzz(func(t *testing.T, text string, plain bool) {
		req := ask(text)
		if !plain {
			req.Messages[0].Parts[0].Text = llm.Quoted(text)
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, Parts: req.Messages[0].Parts})
		features.Read(req)
		require.LessOrEqual(t, len(features.end.text), endBytes+4) // an escape can be longer than it was
		for i, v := range features.stats {
			require.False(t, v != v || v < 0, "statistic %d is %v", i, v)
		}
		for _, b := range features.words {
			require.Less(t, Bucket(b), buckets)
		}
	})
}

// TestLexicon: a word that stands in several lists counts for the first of their statistics, in whatever order a map
// gives the lists, so that training is the same in each process.
func TestLexicon(t *testing.T) {
	t.Parallel()
	lists := map[uint8]string{statCoding: "a b let c", statFormal: "let d", statAsking: "e let", statPeople: "let f let"}
	once := newLexicon(lists)
	for range 50 {
		require.Equal(t, once, newLexicon(lists))
	}
	read := func(text string) []float32 {
		f := NewFeatures()
		f.Read(ask(text))
		return f.stats[:]
	}
	require.Positive(t, read("python")[statCoding])
	require.Positive(t, read("function")[statFormal])
	require.Zero(t, read("function")[statCoding], "it counts once")
}

// TestKinds: what a request is plainly not, it is not taken for.
func TestKinds(t *testing.T) {
	t.Parallel()
	m, f, s := Default(), NewFeatures(), new(Signal)
	look := func(req *llm.Request) *Signal {
		f.Read(req)
		m.Look(f, s)
		return s
	}
	require.Zero(t, look(ask("What is the capital of France?")).Kinds[Math])
	require.Zero(t, s.Kinds[Code])
	require.Zero(t, s.Kinds[Tools])
	require.Greater(t, s.Kinds[Knowledge], float32(0.5))
	require.Greater(t, look(ask("Write me a poem about the sea.")).Kinds[Writing], float32(0.5))
	require.Greater(t, look(ask("What is 17 times 23 minus 5?")).Kinds[Math], float32(0.5))
	with := ask("What is the capital of France?")
	with.Tools = []llm.Tool{{Name: "f"}}
	require.Greater(t, look(with).Kinds[Tools], float32(0.4))
	require.Greater(t, look(&llm.Request{Messages: []llm.Message{{Role: llm.RoleTool}}}).Kinds[Tools], float32(0.4))
}

// TestOutput: how much will be written is of the request, and what is usual where nothing is known.
func TestOutput(t *testing.T) {
	t.Parallel()
	m, f, s := Default(), NewFeatures(), new(Signal)
	o, none := m.Output(), (&Model{}).Output()
	of := func(text string) float64 {
		f.Read(ask(text))
		m.Look(f, s)
		require.InDelta(t, UsualOutput, none.Of(s), 0)
		return o.Of(s)
	}
	require.Less(t, of("What is the capital of France?"), 100.0)
	require.InDelta(t, UsualOutput, of(strings.Repeat("qzx vkj wqp ", 40)), 120)
}

// TestMarginFor is keep_quality's margin for routes that are of no pool.
func TestMarginFor(t *testing.T) {
	t.Parallel()
	m := &Model{Pools: []Pool{{Rows: 300, Margins: []Margin{{0.9, 0.01}, {0.98, -0.1}}},
		{Rows: 100, Margins: []Margin{{0.95, 0.2}}}, {Rows: 1000}}}
	require.InDelta(t, (3*0.01+0.2)/4, m.MarginFor(0.9), 1e-6)
	require.Zero(t, m.MarginFor(0.98), "never less than none")
	require.InDelta(t, 0.05, m.MarginFor(1), 1e-6, "nobody has calibrated so much")
	require.InDelta(t, 0.05, (&Model{}).MarginFor(0.5), 1e-6)
	for _, share := range []float64{0.9, 0.95, 0.98} {
		require.LessOrEqual(t, Default().MarginFor(share), 0.01, "the built-in model is calibrated")
	}
}
