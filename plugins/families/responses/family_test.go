package responses_test

import (
	"testing"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
)

// family is this family as the tests that all families share see it.
var family = familytest.Family{
	Server:        responses.Server{},
	EncodeRequest: responses.EncodeRequest,
	NewDecoder:    func(send func(llm.Event) error) familytest.Decoder { return responses.NewDecoder(send) },
	DecodeReply:   responses.DecodeReply,
	Asked:         families.Request{Stream: true},
	Ending:        "event: response.completed",
}

// Short names, for the tables of the tests.
var (
	decoded, accepted = family.Decoded, family.Accepted
	stream, whole     = family.Stream, family.Whole
	read, readWhole   = family.Read, family.ReadWhole

	text, say, thought    = familytest.Text, familytest.Say, familytest.Think
	begin, arguments, end = familytest.Begin, familytest.Arguments, familytest.End
	used, spending        = familytest.Used, familytest.Spent
)

func finished(reason llm.FinishReason) llm.Event {
	return llm.Event{Kind: llm.EventFinish, Finish: reason, Model: "m-1"}
}

func BenchmarkDecode(b *testing.B) { familytest.BenchmarkDecode(b, family) }

func BenchmarkText(b *testing.B) { familytest.BenchmarkText(b, family) }
