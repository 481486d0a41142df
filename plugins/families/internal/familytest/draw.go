package familytest

import (
	"strconv"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// Draws are what the property tests draw for a family: only what its wire can express, for that is what has to
// come back as it was.
type Draws struct {
	Requests *rapid.Generator[*llm.Request]
	Formats  *rapid.Generator[*llm.Format]
	// Arguments are the JSON text of a call's arguments; "" counts as {} (GAP-84).
	Arguments *rapid.Generator[string]
	Usage     *rapid.Generator[*llm.Usage]
}

// Texts draws text of valid UTF-8 that is not empty.
func Texts() *rapid.Generator[string] {
	return rapid.Map(rapid.StringN(1, 12, -1), func(s string) string { return string([]rune(s)) })
}

// DrawTools draws tools f0, f1, ... with these schemas, and a choice among them.
func DrawTools(t *rapid.T, req *llm.Request, schemas ...string) {
	for i := range rapid.IntRange(0, 3).Draw(t, "tools") {
		req.Tools = append(req.Tools, llm.Tool{Name: "f" + strconv.Itoa(i),
			Description: rapid.String().Draw(t, "description"),
			Schema:      []byte(rapid.SampledFrom(schemas).Draw(t, "schema"))})
	}
	if len(req.Tools) > 0 {
		req.ToolChoice = rapid.SampledFrom([]llm.ToolChoice{{}, {Mode: llm.ToolNone}, {Mode: llm.ToolRequired},
			{Mode: llm.ToolNamed, Name: "f0"}}).Draw(t, "choice")
	}
}

// DrawStop draws up to four stop sequences.
func DrawStop(t *rapid.T, texts *rapid.Generator[string]) []string {
	stop := rapid.SliceOfNDistinct(texts, 0, 4, rapid.ID).Draw(t, "stop")
	if len(stop) == 0 {
		return nil
	}
	return stop
}

// DrawTemperature draws a temperature, or none.
func DrawTemperature(t *rapid.T, highest float64) *float64 {
	if !rapid.Bool().Draw(t, "has temperature") {
		return nil
	}
	temperature := rapid.Float64Range(0, highest).Draw(t, "temperature")
	return &temperature
}

// DrawCount draws a count of tokens.
func DrawCount(t *rapid.T, label string) *int64 {
	return llm.Count(rapid.Int64Range(0, 99).Draw(t, label))
}

// Formats draws every format that there is.
func Formats() *rapid.Generator[*llm.Format] {
	return rapid.Custom(func(t *rapid.T) *llm.Format {
		kind := rapid.SampledFrom([]llm.FormatKind{llm.FormatJSONObject, llm.FormatJSONSchema}).Draw(t, "kind")
		if kind == llm.FormatJSONObject {
			return &llm.Format{Kind: kind}
		}
		format := &llm.Format{Kind: kind, Name: rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "name"),
			Description: rapid.String().Draw(t, "description"), Schema: DrawSchema(t)}
		if rapid.Bool().Draw(t, "has strict") {
			strict := rapid.Bool().Draw(t, "strict")
			format.Strict = &strict
		}
		return format
	})
}

// DrawSchema draws a schema.
func DrawSchema(t *rapid.T) []byte {
	return []byte(rapid.SampledFrom([]string{`{}`, `{"type":"object"}`}).Draw(t, "schema"))
}

// DrawReply draws the events of a reply: text, calls and the pieces of their arguments, mixed in any order that is
// allowed. Text ends the calls before it, so what they still have to say comes first.
func DrawReply(t *rapid.T, whole *rapid.Generator[string]) []llm.Event {
	var events []llm.Event
	var left [][]llm.Event // what open calls still have to say
	calls := 0
	for range rapid.IntRange(0, 20).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"text", "call", "piece", "piece"}).Draw(t, "step") {
		case "text":
			for _, rest := range left {
				events = append(events, rest...)
			}
			left = nil
			events = append(events, Say(rapid.String().Draw(t, "text"))...)
		case "call":
			events = append(events, Begin(calls, "call_"+strconv.Itoa(calls), Texts().Draw(t, "name")))
			left = append(left, drawArguments(t, calls, whole.Draw(t, "arguments")))
			calls++
		case "piece":
			if len(left) > 0 {
				i := rapid.IntRange(0, len(left)-1).Draw(t, "call")
				if len(left[i]) > 0 {
					events, left[i] = append(events, left[i][0]), left[i][1:]
				}
			}
		}
	}
	for _, rest := range left {
		events = append(events, rest...)
	}
	return events
}

// drawArguments cuts the arguments of a call into pieces, empty ones among them, and may end the call.
func drawArguments(t *rapid.T, index int, whole string) []llm.Event {
	var events []llm.Event
	if rapid.Bool().Draw(t, "begins with nothing") {
		events = append(events, Arguments(index, ""))
	}
	for len(whole) > 0 {
		n := rapid.IntRange(1, len(whole)).Draw(t, "piece")
		for n < len(whole) && !utf8.RuneStart(whole[n]) {
			n++
		}
		events, whole = append(events, Arguments(index, whole[:n])), whole[n:]
	}
	if rapid.Bool().Draw(t, "ends") {
		events = append(events, End(index))
	}
	return events
}

// drawEnd draws how a reply ended. A natural end after a call is one in calls (GAP-82).
func drawEnd(t *rapid.T, items []llm.Item, usage *rapid.Generator[*llm.Usage]) families.End {
	end := families.End{Usage: usage.Draw(t, "usage"),
		Finish: rapid.SampledFrom([]llm.FinishReason{llm.FinishStop, llm.FinishLength, llm.FinishPolicy}).Draw(t, "finish")}
	for _, item := range items {
		if item.Call != nil && end.Finish == llm.FinishStop {
			end.Finish = llm.FinishToolCalls
		}
	}
	return end
}
