package predict

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestFeatures_stayWhatTheModelKnows: the model was trained on these features: what is read of a text stays the same,
// or the model is to be trained anew.
func TestFeatures_stayWhatTheModelKnows(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("All work and no play makes a dull boy. ", 300)
	requests := []struct {
		name string
		req  *llm.Request
	}{
		{"nothing", ask("")},
		{"a question", ask(question)},
		{"examples", ask(
			"Two and two?\nA. 4\nB. 5\nAnswer:\nA\n\nOne and one?\nA. 1\nB. 2\nAnswer:\nB\n\n" + question + "Answer:",
		)},
		{"one example", ask("Two and two?\nA. 4\nB. 5\nAnswer:\nA\n\n" + question + "Answer:")},
		{"short marks", ask("a\nx:\nb\nx:\nc\nx:\nd\nxy:\ne\nxy:\nf\nxy:")},
		{"a long mark", ask(strings.Repeat("What would your answer be:\nit\n\n", 3) + "What would your answer be:")},
		{"examples without options", ask("Q: Who?\nA: I\n\nAnswer:\nyes\n\nAnswer:\nno\n\nWhat is it?\nAnswer:")},
		{"options of numbers", ask("How much?\n(a) -3\n(b) $4\n(c) 5.25\n(d) x\n\nSay one letter.")},
		{"options and a long rest", ask("Which?\nA) one\nB) three\n" + strings.Repeat("Because of that. ", 30))},
		{"years and decimals", ask("In 1999, 2100, 2101, 999 and 12345: 3.14, 0.5 and v1.2.3; 7")},
		{"code", ask("def f(x):\n    return x == 2\n" +
			"\tif a != b { c[0] = d(1); }\n__init__ = x_y_ #a `b` ``c`` <b></b> **d**")},
		{"marks", ask("\"Why?\" he said... No! Really?! (a+b)*c^2 = d/e ≤ ∑ & € § 50% ~ ____ fill _ in: \nthis:")},
		{"Korean", ask("휴대 전화의 전파 범위를 벗어난 곳")},
		{"words", ask("Write a poem about misunderstandings; do not explain, prove, translate or summarize THE STORY.")},
		{"head and tail", ask("beginning " + long + " end 42")},
		{"an agent", &llm.Request{
			Tools:     []llm.Tool{{Name: "ls", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "cat"}},
			Format:    &llm.Format{Kind: llm.FormatJSONSchema},
			MaxTokens: 4096,
			Messages: []llm.Message{
				{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("You are an agent.")}},
				{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Tidy up"), llm.Text("all 3 of them")}},
				{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("I look"),
					{Call: &llm.ToolCall{ID: "1", Name: "ls", Arguments: llm.Plain(`{"path":"."}`)}}}},
				{Role: llm.RoleTool, CallID: "1", IsError: true, Parts: []llm.Part{llm.Text("no such file")}},
				{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "2", Name: "cat"}}}},
				{Role: llm.RoleTool, CallID: "2", Parts: []llm.Part{llm.Text("a\nb")}},
			},
		}},
		{"a conversation", &llm.Request{Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Hello, what is 2+2?")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("4")}},
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("And 3 times that? Are you sure?")}},
		}}},
	}
	var b strings.Builder
	f := NewFeatures()
	for _, r := range requests {
		got := read(f, r.req)
		fmt.Fprintf(&b, "%s:", r.name)
		for stat, v := range got.stats {
			if v != 0 {
				fmt.Fprintf(&b, " %d=%.4g", stat, v)
			}
		}
		sum := fnv.New32a()
		_, _ = fmt.Fprint(sum, got.words, got.chars)
		fmt.Fprintf(&b, " words=%d chars=%d sum=%08x\n", len(got.words), len(got.chars), sum.Sum32())
	}
	for hash, want := range map[uint32]int{
		0: 0, 1<<32 - 1: 1<<bucketBits - 1, 1 << (32 - bucketBits): 1, 1 << 31: 1 << (bucketBits - 1),
	} {
		require.Equal(t, want, Bucket(hash))
	}
	const golden = "testdata/features.golden"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}
