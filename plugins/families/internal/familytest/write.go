package familytest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// Text is a message of these texts.
func Text(role llm.Role, texts ...string) llm.Message {
	m := llm.Message{Role: role}
	for _, s := range texts {
		m.Parts = append(m.Parts, llm.Text(s))
	}
	return m
}

// Plain are messages with the same texts, none of them in another form than plain, so that they can be compared.
func Plain(messages []llm.Message) []llm.Message {
	messages = slices.Clone(messages)
	for i := range messages {
		parts := slices.Clone(messages[i].Parts)
		for j := range parts {
			p := &parts[j]
			p.Text = llm.Plain(p.Text.String())
			if p.Call != nil {
				call := *p.Call
				call.Arguments = llm.Plain(call.Arguments.String())
				p.Call = &call
			}
		}
		messages[i].Parts = parts
	}
	return messages
}

// Say is visible text in these pieces.
func Say(pieces ...string) []llm.Event {
	var events []llm.Event
	for _, p := range pieces {
		events = append(events, llm.Event{Kind: llm.EventText, Text: p})
	}
	return events
}

// Think is a piece of hidden reasoning.
func Think(piece string) llm.Event { return llm.Event{Kind: llm.EventReasoning, Text: piece} }

// Begin begins a call.
func Begin(index int, id, name string) llm.Event {
	return llm.Event{Kind: llm.EventToolCall, Index: index, ID: id, Name: name}
}

// Arguments is a piece of a call's arguments.
func Arguments(index int, piece string) llm.Event {
	return llm.Event{Kind: llm.EventToolArguments, Index: index, Text: piece}
}

// End ends a call.
func End(index int) llm.Event { return llm.Event{Kind: llm.EventToolEnd, Index: index} }

// Spent reports what a reply has used.
func Spent(u llm.Usage) llm.Event { return llm.Event{Kind: llm.EventUsage, Usage: &u} }

// Used is the usage of a reply of which only the two counts that all families have are known.
func Used(input, output int64) *llm.Usage {
	return &llm.Usage{Input: llm.Count(input), Output: llm.Count(output)}
}

// Frame is one event of a stream of typed events, as it was written.
type Frame struct{ Name, Data string }

// Frames splits a stream of typed events: each is a line with its name and a line with its data, in which the type
// is that name.
func Frames(t require.TestingT, stream string) []Frame {
	require.True(t, strings.HasSuffix(stream, "\n\n"))
	var all []Frame
	for frame := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		first, second, ok := strings.Cut(frame, "\n")
		require.True(t, ok, frame)
		name, isEvent := strings.CutPrefix(first, "event: ")
		data, isData := strings.CutPrefix(second, "data: ")
		require.True(t, isEvent && isData, frame)
		var typed struct{ Type string }
		require.NoError(t, json.Unmarshal([]byte(data), &typed), data)
		require.Equal(t, name, typed.Type)
		all = append(all, Frame{name, data})
	}
	return all
}

// Understood reads a request body into params, the official library's type for it, and fails for what that type
// does not have, but for the members named in beyond.
func Understood(t testing.TB, body []byte, params any, beyond ...string) {
	t.Helper()
	require.NoError(t, json.Unmarshal(body, params), string(body))
	again, err := json.Marshal(params)
	require.NoError(t, err)
	var sent, understood map[string]any
	require.NoError(t, json.Unmarshal(body, &sent))
	require.NoError(t, json.Unmarshal(again, &understood))
	if sent["model"] == "" {
		delete(sent, "model") // libraries leave an empty one out
	}
	for _, name := range beyond {
		delete(sent, name)
		delete(understood, name)
	}
	require.Equal(t, sent, understood)
}
