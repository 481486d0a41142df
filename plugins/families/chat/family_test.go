package chat_test

import (
	"testing"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

// family is this family as the tests that all families share see it.
var family = familytest.Family{
	Server:        chat.Server{},
	EncodeRequest: chat.EncodeRequest,
	Refuses:       chat.Refuses,
	NewDecoder:    func(send func(llm.Event) error) familytest.Decoder { return chat.NewDecoder(send) },
	DecodeReply:   chat.DecodeReply,
	Asked:         families.Request{Stream: true, IncludeUsage: true, OneText: true},
	Ending:        `"finish_reason":"`,
	Seen:          textThenCalls,
}

// textThenCalls is a reply as a message of this family holds it: its text joined, then its calls.
func textThenCalls(items []llm.Item) []llm.Item {
	var text string
	var calls []llm.Item
	for _, item := range items {
		if text += item.Text; item.Call != nil {
			calls = append(calls, item)
		}
	}
	return append([]llm.Item{{Text: text}}, calls...)
}

// Short names, for the tables of the tests.
var (
	decoded, accepted = family.Decoded, family.Accepted
	stream, whole     = familytest.Stream, family.Whole
	read, readWhole   = family.Read, family.ReadWhole

	begin, arguments, end = familytest.Begin, familytest.Arguments, familytest.End
	used, usage           = familytest.Used, familytest.Spent
)

func text(s string) llm.Event { return llm.Event{Kind: llm.EventText, Text: s} }

func finished(reason llm.FinishReason) llm.Event {
	return llm.Event{Kind: llm.EventFinish, Finish: reason}
}

func BenchmarkDecode(b *testing.B) { familytest.BenchmarkDecode(b, family) }

func BenchmarkText(b *testing.B) { familytest.BenchmarkText(b, family) }
