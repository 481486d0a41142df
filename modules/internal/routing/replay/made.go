package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// Routes are four as they are on sale: one that is good with code and tools, one that is good at mathematics, and one
// that writes well, at about one price; and a large one that is the best at all of it and costs four times as much.
// Each is ten times cheaper to read from its cache than to read anew. Their qualities by kind are made up, about as far
// apart as those of models in config/quality.csv.
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

// What users ask, from easy to hard, and how a made conversation goes on.
var (
	asks = []string{
		"What is the name of the file that the tests are in?",
		"Rename the variable n to count in this function.",
		"Explain in one sentence what this module does.",
		"Write a python function that parses a date like 2026-11-03 and returns the day of the week.",
		"Why does the build fail, and which line is it? Fix it and run the tests again.",
		"Prove that the algorithm terminates for every finite graph, and give the bound as a function of n and m.",
		"Let $f(n)$ be the number of ways to tile the board; derive a recurrence and compute f(12) modulo 7.",
		"Refactor the authentication module so that sessions are kept in the store, and add tests for each branch.",
		"Thanks. Summarize what was changed.",
		"Translate the error message into French.",
	}
	// What an agent that has no tools of the protocol's gets back as texts of the user's, by turns.
	returned = []string{
		"[read_file result]\nfunc (s *Store) Get(key string) ([]byte, error) {\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n" +
			"\tvalue, ok := s.data[key]\n\tif !ok {\n\t\treturn nil, ErrNotFound\n\t}\n\treturn value, nil\n}",
		"[execute_command result]\n--- FAIL: TestGet (0.00s)\n    store_test.go:41: expected 3, got 4\nFAIL\nexit status 1",
		"The plan for the release notes is below. Write a short introduction in plain words for people who have not " +
			"followed the project, then a paragraph about each change.",
		"[search result]\nIf $a_n = 3a_{n-1} - 2a_{n-2}$ with $a_0 = 1$ and $a_1 = 5$, compute $a_{12}$ modulo 1000 and " +
			"check the table of sums: 1, 5, 13, 29, 61, 125.",
		"[list_files result]\nREADME.md\ngo.mod\ninternal/store/store.go\ninternal/store/store_test.go\ndocs/notes.md",
		"The user answered: yes, go on, and keep it short.",
	}
	tool = []llm.Tool{{Name: "run", Description: "Runs a command.", Schema: []byte(`{"type":"object"}`)}}
)

// Made are conversations that are made up: loops of an agent with tools, conversations of people, and single questions.
// The same seed makes the same ones.
func Made(seed uint64) []Set {
	r := rand.New(rand.NewPCG(seed, 13))
	loops, texts := Set{Name: "agent loops"}, Set{Name: "agent loops without tools"}
	chats, single := Set{Name: "chats"}, Set{Name: "single questions"}
	for range 60 {
		b := builder{r: r, system: 6000 + r.Int64N(14_000)}
		b.user(20 + r.Int64N(200))
		for range 8 + r.IntN(30) {
			b.replies(30 + r.Int64N(200))
			b.add(llm.RoleUser, 100+r.Int64N(3000), llm.Text(returned[r.IntN(len(returned))]))
			b.after = time.Duration(2+r.IntN(30)) * time.Second
		}
		b.replies(100 + r.Int64N(500))
		texts.Conversations = append(texts.Conversations, b.done())
	}
	for range 60 {
		b := builder{r: r, system: 6000 + r.Int64N(14_000)}
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

// builder makes a conversation message by message. Tokens are counted, not written: what is long would only be so.
type builder struct {
	r        *rand.Rand
	system   int64
	messages []llm.Message
	tokens   int64
	tools    bool
	turns    Conversation
	after    time.Duration
	asked    int
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
	b.asked++
	b.add(llm.RoleUser, tokens, llm.Text(asks[b.r.IntN(len(asks))]))
	b.after = time.Duration(20+b.r.IntN(300)) * time.Second // some come back when the cache is cold
}

// turn is a turn that is answered with so many tokens.
func (b *builder) turn(output int64) {
	req := &llm.Request{Messages: b.messages[:len(b.messages):len(b.messages)]}
	if b.tools {
		req.Tools = tool
	}
	b.turns = append(b.turns, Turn{Request: req, Input: b.tokens, Output: output, After: b.after})
	b.after = time.Duration(2+b.r.IntN(30)) * time.Second
}

// calls is a turn that calls a tool, and what the tool says.
func (b *builder) calls(output, result int64) {
	b.tools = true
	b.turn(output)
	id := fmt.Sprint(len(b.messages))
	b.add(llm.RoleAssistant, output, llm.Part{Call: &llm.ToolCall{ID: id, Name: "run"}})
	b.add(llm.RoleTool, result, llm.Text(strings.Repeat("ok ", 10)))
	b.messages[len(b.messages)-1].CallID = id
}

// replies is a turn that is answered with a text.
func (b *builder) replies(output int64) {
	b.turn(output)
	b.add(llm.RoleAssistant, output, llm.Text("Done."))
}

func (b *builder) done() Conversation { return b.turns }
