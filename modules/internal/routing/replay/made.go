package replay

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// Routes are four as they are on sale: one that is good with code and tools, one that is good at mathematics, and one
// that writes well, at about one price; and a large one that is the best at all of it and costs four times as much.
// Each is ten times cheaper to read from its cache than to read anew. Their qualities by kind are made up, about as
// far apart as those of models in config/quality.csv.
func Routes() []config.Route {
	route := func(name string, quality float64, by map[string]float64, input, output int64) config.Route {
		const cent = 1_000_000 // microcents
		return config.Route{Name: name, Provider: name, ContextWindow: 1_000_000, MaxOutput: 64_000, Quality: quality,
			QualityBy: by, Tools: true, Price: config.Price{Input: input * cent, CacheRead: input * cent / 10,
				CacheWrite: input * cent * 5 / 4, Output: output * cent}}
	}
	by := func(code, math, tools, writing float64) map[string]float64 {
		return map[string]float64{config.KindCode: code, config.KindMath: math, config.KindTools: tools,
			config.KindWriting: writing}
	}
	return []config.Route{
		route("coder", 0.75, by(0.87, 0.6, 0.85, 0.65), 125, 1000),
		route("mathematician", 0.75, by(0.65, 0.9, 0.7, 0.6), 110, 900),
		route("writer", 0.82, by(0.65, 0.55, 0.7, 0.9), 130, 1000),
		route("large", 0.92, by(0.93, 0.92, 0.92, 0.93), 500, 2500),
	}
}

// theme is a sort of work that an agent is put to: what users ask, from easy to hard, and what tools give back.
type theme struct {
	name    string
	asks    []string
	results []string
}

//go:embed results.txt
var resultsText string

// themes are programming, reading the web, and numbers.
var themes = []theme{
	{"code", []string{
		"What is the name of the file that the tests are in?",
		"Rename the variable n to count in this function.",
		"Explain in one sentence what this module does.",
		"Write a python function that parses a date like 2026-11-03 and returns the day of the week.",
		"Why does the build fail, and which line is it? Fix it and run the tests again.",
		"Refactor the authentication module so that sessions are kept in the store, and add tests for each branch.",
		"Thanks. Summarize what was changed.",
		"Die Tests laufen nur auf meinem Rechner durch. Woran liegt das?",
		"Translate the error message into French.",
	}, results("code")},
	{"web", []string{
		"When does the last boat go back on Sundays in winter?",
		"Find out which museums by the harbour are open on Mondays and write me a short list.",
		"Write a paragraph about the festival for our newsletter, in a friendly tone.",
		"Résume cette page en trois phrases.",
		"Compare what the three sources say about the bridge. Where do they contradict each other, and which is right?",
		"Answer the letter below politely: she cannot come on Saturday.",
	}, results("web")},
	{"data", []string{
		"Which month had the most rain?",
		"Plot revenue by region and month.",
		"Is the difference between weekends and weekdays significant? Give the test and the p-value.",
		"Why did the model get worse after we added the holidays? Check the residuals.",
		"Derive how many observations we need for an error of at most 2% with probability 0.95, and prove the bound.",
		"Let $f(n)$ be the number of ways to tile the board; derive a recurrence and compute f(12) modulo 7.",
		"Prove that the algorithm terminates for every finite graph, and give the bound as a function of n and m.",
	}, results("data")},
}

// results are the texts of a theme, each of which begins with a line "#### THEME NAME".
func results(name string) (list []string) {
	for _, text := range strings.Split("\n"+resultsText, "\n#### ")[1:] {
		head, text, _ := strings.Cut(text, "\n")
		if of, _, _ := strings.Cut(head, " "); of == name {
			list = append(list, text)
		}
	}
	return list
}

// offered are the tools of a made agent.
var offered = func() (list []llm.Tool) {
	for _, t := range [][3]string{
		{"read_file", "Reads a part of a file.", `"path":{"type":"string"},"from":{"type":"integer"},` +
			`"lines":{"type":"integer"}`},
		{"write_file", "Writes a file.", `"path":{"type":"string"},"content":{"type":"string"}`},
		{"edit_file", "Puts a text in the place of another.", `"path":{"type":"string"},"old":{"type":"string"},` +
			`"new":{"type":"string"}`},
		{"list_files", "Lists the files below a folder.", `"path":{"type":"string"},"depth":{"type":"integer"}`},
		{"search", "Searches files for a regular expression.", `"pattern":{"type":"string"},"path":{"type":"string"}`},
		{"run", "Runs a command and returns what it prints.", `"command":{"type":"string"},"seconds":{"type":"integer"}`},
		{"fetch", "Fetches a page of the web as text.", `"url":{"type":"string"}`},
	} {
		list = append(list, llm.Tool{Name: t[0], Description: t[1],
			Schema: []byte(`{"type":"object","properties":{` + t[2] + `}}`)})
	}
	return list
}()

// Made are conversations that are made up: loops of an agent with tools, conversations of people, and single
// questions. The same seed makes the same ones.
func Made(seed uint64) []Set {
	r := rand.New(rand.NewPCG(seed, 13))
	loops, texts := Set{Name: "agent loops"}, Set{Name: "agent loops without tools"}
	chats, single := Set{Name: "chats"}, Set{Name: "single questions"}
	for range 60 {
		b := agent(r)
		b.user(20 + r.Int64N(200))
		for range 8 + r.IntN(30) {
			b.replies(30 + r.Int64N(200))
			b.add(llm.RoleUser, 100+r.Int64N(3000), llm.Text("["+offered[r.IntN(len(offered))].Name+" result]\n"+b.result()))
			b.after = time.Duration(2+r.IntN(30)) * time.Second
		}
		b.replies(100 + r.Int64N(500))
		texts.Conversations = append(texts.Conversations, b.done())
	}
	for range 60 {
		b := agent(r)
		b.tools = offered
		for range 1 + r.IntN(4) {
			b.user(20 + r.Int64N(200))
			for range 3 + r.IntN(12) {
				b.calls(30+r.Int64N(200), 100+r.Int64N(3000))
			}
			b.replies(100 + r.Int64N(500))
		}
		loops.Conversations = append(loops.Conversations, b.done())
	}
	for range 100 {
		b := builder{r: r, system: 200 + r.Int64N(2000)}
		for range 2 + r.IntN(10) {
			b.user(20 + r.Int64N(150))
			b.replies(100 + r.Int64N(700))
		}
		chats.Conversations = append(chats.Conversations, b.done())
	}
	for range 100 {
		b := builder{r: r, system: r.Int64N(500)}
		b.user(20 + r.Int64N(1000))
		b.replies(50 + r.Int64N(500))
		single.Conversations = append(single.Conversations, b.done())
	}
	return []Set{loops, texts, chats, single}
}

// builder makes a conversation message by message. Tokens are counted, not written: of what is long, the end is there.
type builder struct {
	r        *rand.Rand
	theme    *theme // what it is about, nil for anything
	system   int64
	messages []llm.Message
	tokens   int64
	tools    []llm.Tool
	turns    Conversation
	after    time.Duration
}

// agent begins what an agent does: three of five work on programs.
func agent(r *rand.Rand) builder {
	return builder{r: r, theme: themeOf(r), system: 6000 + r.Int64N(14_000)}
}

func themeOf(r *rand.Rand) *theme { return &themes[[...]int{0, 0, 0, 1, 2}[r.IntN(5)]] }

// about is what a turn is about: of a conversation with a theme, one turn of six is about any.
func (b *builder) about() *theme {
	if b.theme == nil || b.r.IntN(6) == 0 {
		return &themes[b.r.IntN(len(themes))]
	}
	return b.theme
}

// ask is what a user asks.
func (b *builder) ask() string {
	asks := b.about().asks
	return asks[b.r.IntN(len(asks))]
}

// result is the end of what a tool gives back: some lines of a text, half of them at least.
func (b *builder) result() string {
	list := b.about().results
	lines := strings.Split(list[b.r.IntN(len(list))], "\n")
	n := (len(lines) + 1) / 2
	n += b.r.IntN(len(lines) - n + 1)
	from := b.r.IntN(len(lines) - n + 1)
	return strings.Join(lines[from:from+n], "\n")
}

func (b *builder) add(role llm.Role, tokens int64, parts ...llm.Part) {
	b.messages = append(b.messages, llm.Message{Role: role, Parts: parts})
	b.tokens += tokens
}

// user asks.
func (b *builder) user(tokens int64) {
	if len(b.messages) == 0 {
		b.add(llm.RoleSystem, b.system, llm.Text("You help with a project. "+fmt.Sprint(b.r.Uint32())))
	}
	b.add(llm.RoleUser, tokens, llm.Text(b.ask()))
	b.after = time.Duration(20+b.r.IntN(300)) * time.Second // some come back when the cache is cold
}

// turn is a turn that is answered with so many tokens.
func (b *builder) turn(output int64) {
	req := &llm.Request{Messages: b.messages[:len(b.messages):len(b.messages)], Tools: b.tools}
	b.turns = append(b.turns, Turn{Request: req, Input: b.tokens, Output: output, After: b.after})
	b.after = time.Duration(2+b.r.IntN(30)) * time.Second
}

// calls is a turn that calls a tool, and what the tool says.
func (b *builder) calls(output, result int64) {
	b.turn(output)
	id := fmt.Sprint(len(b.messages))
	b.add(llm.RoleAssistant, output, llm.Part{Call: &llm.ToolCall{ID: id, Name: "run"}})
	b.add(llm.RoleTool, result, llm.Text(b.result()))
	b.messages[len(b.messages)-1].CallID = id
}

// replies is a turn that is answered with a text.
func (b *builder) replies(output int64) {
	b.turn(output)
	b.add(llm.RoleAssistant, output, llm.Text("Done."))
}

func (b *builder) done() Conversation { return b.turns }
