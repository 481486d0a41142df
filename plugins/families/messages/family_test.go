package messages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/llm"
)

// family is this family as the tests that all families share see it.
var family = familytest.Family{
	Server:        messages.Server{},
	EncodeRequest: messages.EncodeRequest,
	Refuses:       messages.Refuses,
	NewDecoder:    func(send func(llm.Event) error) familytest.Decoder { return messages.NewDecoder(send) },
	DecodeReply:   messages.DecodeReply,
	Asked:         families.Request{Stream: true},
	Ending:        "event: message_stop",
	Arguments:     anObject,
}

// anObject is what this family has for a call's arguments: an object, and nothing where they are none.
func anObject(arguments string) string {
	if object := strings.Trim(arguments, " \t\r\n"); strings.HasPrefix(object, "{") && json.Valid([]byte(object)) {
		return object
	}
	return "{}"
}

// Short names, for the tables of the tests.
var (
	decoded, accepted = family.Decoded, family.Accepted
	stream, whole     = family.Stream, family.Whole
	read, readWhole   = family.Read, family.ReadWhole

	text, say, thought    = familytest.Text, familytest.Say, familytest.Think
	begin, arguments, end = familytest.Begin, familytest.Arguments, familytest.End
	used, usage           = familytest.Used, familytest.Spent
	frames                = familytest.Frames
)

func finished(reason llm.FinishReason) llm.Event {
	return llm.Event{Kind: llm.EventFinish, Finish: reason, Model: "m-1"}
}

func BenchmarkDecode(b *testing.B) { familytest.BenchmarkDecode(b, family) }

func BenchmarkText(b *testing.B) { familytest.BenchmarkText(b, family) }
