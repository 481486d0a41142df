package responses_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
)

// item is one of a response's output: of a kind, with a text that is what was said, or a call's arguments.
type item struct{ kind, text string }

func (it item) whole(i int, ids bool) map[string]any {
	m := map[string]any{"type": it.kind, "status": "completed"}
	if ids {
		m["id"] = fmt.Sprint("item_", i)
	}
	switch it.kind {
	case "message":
		m["role"], m["content"] = "assistant", []any{map[string]any{"type": "output_text", "text": it.text}}
	case "reasoning":
		m["summary"] = []any{map[string]any{"type": "summary_text", "text": it.text}}
	default:
		m["call_id"], m["name"], m["arguments"] = fmt.Sprint("call_", i), fmt.Sprint("f", i), it.text
	}
	return m
}

// streamed makes the events of a response in one of the ways that upstreams have, which choose decides: choose(n) is
// below n. Items are told apart by ids, by indexes, by both, by neither, or by ids where all have one index, and may
// have another id where they end (GAP-84).
func streamed(items []item, choose func(n int) int) (events []map[string]any) {
	style := choose(8)
	ids, indexes := style != 1 && style != 3, style != 2 && style != 3 && style != 6
	end := func(i int) map[string]any {
		whole := items[i].whole(i, ids && style != 5)
		if style == 7 {
			whole["id"] = fmt.Sprint("end_", i)
		}
		return whole
	}
	said := len(items) // that are said before the end; the others stand only in what the response ends with
	if choose(3) == 0 {
		said = choose(len(items) + 1)
	}
	for i, it := range items[:said] {
		send := func(kind string, members map[string]any) {
			members["type"] = kind
			if indexes {
				members["output_index"] = i
				if style == 4 {
					members["output_index"] = 0
				}
			}
			if _, whole := members["item"]; ids && !whole {
				members["item_id"] = fmt.Sprint("item_", i)
				if style == 6 && it.kind == "function_call" {
					members["item_id"] = fmt.Sprint("call_", i)
				}
				if style == 5 {
					members["item_id"] = fmt.Sprint("other_", len(events)) // of some proxies: new in each event
				}
			}
			events = append(events, members)
		}
		name := map[string]string{"message": "output_text", "reasoning": "reasoning_summary_text",
			"function_call": "function_call_arguments"}[it.kind]
		way := choose(4) // all of it; no deltas; only its end; no ends
		if way == 3 && !ids && !indexes {
			way = 0 // nobody could say of which item the next end is
		}
		if way != 2 {
			begin := it.whole(i, ids && style != 5)
			delete(begin, "content")
			delete(begin, "summary")
			if it.kind == "function_call" {
				begin["arguments"] = []any{"", "{}", nil}[choose(3)]
			}
			send("response.output_item.added", map[string]any{"item": begin})
		}
		if way == 0 || way == 3 {
			for text := it.text; text != ""; {
				n := 1 + choose(len(text))
				send("response."+name+".delta", map[string]any{"delta": text[:n]})
				text = text[n:]
			}
		}
		if way == 0 || way == 1 && choose(2) == 0 {
			member := map[string]string{"function_call": "arguments"}[it.kind]
			if member == "" {
				member = "text"
			}
			send("response."+name+".done", map[string]any{member: it.text})
		}
		if way != 3 {
			send("response.output_item.done", map[string]any{"item": end(i)})
		}
	}
	output := []any{}
	if said < len(items) || choose(3) > 0 {
		for i := range items {
			output = append(output, end(i))
		}
	}
	return append(
		events,
		map[string]any{
			"type": []string{"response.completed", "response.done"}[choose(2)],
			"response": map[string]any{"id": "r",
				"status": "completed", "output": output, "usage": map[string]any{"input_tokens": 1, "output_tokens": 1}},
		},
	)
}

// requireItems checks that a response's events fold to its items.
func requireItems(t require.TestingT, items []item, events []map[string]any) {
	var want, got []string
	var thought, reasoned string
	for i, it := range items {
		switch it.kind {
		case "message":
			if n := len(want); n > 0 && want[n-1][0] == 't' {
				want[n-1] += it.text
				continue
			}
			want = append(want, "text "+it.text)
		case "reasoning":
			thought += it.text
		default:
			want = append(want, fmt.Sprintf("f%d(call_%d) %s", i, i, it.text))
		}
	}
	var folded llm.Reply
	d := responses.NewDecoder(func(ev llm.Event) error {
		if ev.Kind == llm.EventReasoning {
			reasoned += ev.Text
		}
		folded.Add(ev)
		return nil
	})
	var sent []byte
	for _, event := range events {
		raw, err := json.Marshal(event)
		require.NoError(t, err)
		sent = append(append(sent, raw...), '\n')
		require.NoError(t, d.Data(raw), "%s", sent)
	}
	require.NoError(t, d.Close(), "%s", sent)
	folded.Close()
	for _, it := range folded.Items {
		if it.Call == nil {
			got = append(got, "text "+it.Text)
			continue
		}
		got = append(got, fmt.Sprintf("%s(%s) %s", it.Call.Name, it.Call.ID, it.Call.Arguments.String()))
	}
	require.Equal(t, want, got, "%s", sent)
	require.Equal(t, thought, reasoned, "%s", sent)
}

func itemsOf(choose func(n int) int) (items []item) {
	for i := range 1 + choose(4) {
		it := item{[]string{"message", "function_call", "reasoning"}[choose(3)], fmt.Sprint("said ", i)}
		if it.kind == "function_call" {
			it.text = []string{`{"q":1}`, `{"a":{"b":[{"c":"}\""}]}}`}[choose(2)]
		}
		items = append(items, it)
	}
	return items
}

// TestItemsFoldToTheSame: a response that is cut in any admissible way is the same response.
func TestItemsFoldToTheSame(t *testing.T) {
	t.Parallel()
	t.Run("GAP-84", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			choose := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
			items := itemsOf(choose)
			requireItems(t, items, streamed(items, choose))
		})
	})
}

func FuzzItemsFoldToTheSame(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{3, 1, 0, 0, 1, 2, 0, 4, 1, 1, 0})
	f.Fuzz(func(t *testing.T, choices []byte) {
		choose := func(n int) int {
			if len(choices) == 0 || n < 2 {
				return 0
			}
			c := int(choices[0]) % n
			choices = choices[1:]
			return c
		}
		items := itemsOf(choose)
		requireItems(t, items, streamed(items, choose))
	})
}
