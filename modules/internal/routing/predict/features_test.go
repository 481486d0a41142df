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

// TestFeatures_dress is GAP-131: what programs put around a question, and what was said before and since, is not read.
func TestFeatures_dress(t *testing.T) {
	t.Parallel()
	alone := read(NewFeatures(), ask(question))
	system := llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("You are an agent. Prove everything.")}}
	asked := ask(question).Messages[0]
	reminder := "<system-reminder>\nThe todo list is empty.\n</system-reminder>"
	in := func(text string) *llm.Request { return ask(text) }
	with := func(messages ...llm.Message) *llm.Request { return &llm.Request{Messages: messages} }
	parts := ask(reminder)
	parts.Messages[0].Parts = append(parts.Messages[0].Parts, asked.Parts[0])
	tools := ask(question)
	tools.Tools = []llm.Tool{{Name: "ls", Schema: json.RawMessage(`{"type":"object"}`)}}
	tools.Format = &llm.Format{Kind: llm.FormatJSONObject}
	for name, req := range map[string]*llm.Request{
		"tools that are declared":        tools,
		"a system text":                  with(system, asked),
		"a reminder before":              in(reminder + "\n" + question),
		"a reminder behind":              in(question + "\n" + reminder),
		"a reminder in a part":           parts,
		"a reminder in a message before": with(ask(reminder).Messages[0], asked),
		"a reminder in a message behind": with(asked, ask(reminder).Messages[0]),
		"an environment":                 in("<environment_context>\n  <cwd>/x</cwd>\n</environment_context>\n" + question),
		"a tag around it":                in("<user_query>\n" + question + "</user_query>"),
		"a result":                       loop(question, result("--- FAIL: TestGet")),
		"a conversation before":          with(ask("Write a poem.").Messages[0], result("a poem"), asked),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, alone, read(NewFeatures(), req))
		})
	}
	only := read(NewFeatures(), in(reminder))
	require.NotEmpty(t, only.words, "where there is nothing else, it is read")
	require.NotEmpty(t, read(NewFeatures(), with(system, result("one two three"))).words)
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
		require.LessOrEqual(t, len(features.text), maxBytes+2)
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
	require.Less(t, look(ask("What is the capital of France?")).Kinds[Math], float32(0.01))
	require.Less(t, s.Kinds[Code], float32(0.01))
	require.Zero(t, s.Kinds[Tools])
	require.Greater(t, s.Kinds[Knowledge], float32(0.5))
	require.Greater(t, look(ask("Write me a poem about the sea.")).Kinds[Writing], float32(0.5))
	require.Greater(t, look(ask("What is 17 times 23 minus 5?")).Kinds[Math], float32(0.5))
	with := ask("What is the capital of France?")
	with.Tools = []llm.Tool{{Name: "f"}}
	require.Less(t, look(with).Kinds[Tools], float32(0.5), "tools that are declared are no reason to call one")
	with = ask("Turn off the lights in the kitchen and set an alarm for six.")
	with.Tools = []llm.Tool{{Name: "f"}}
	require.Greater(t, look(with).Kinds[Tools], float32(0.5))
	require.Zero(t, look(ask("Turn off the lights in the kitchen.")).Kinds[Tools], "there is none to be called")
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
