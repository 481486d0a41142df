package responses_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
)

// family is this family as the tests that all families share see it.
var family = familytest.Family{
	Server:        responses.Server{},
	EncodeRequest: responses.EncodeRequest,
	Refuses:       responses.Refuses,
	NewDecoder:    func(send func(llm.Event) error) familytest.Decoder { return responses.NewDecoder(send) },
	DecodeReply:   responses.DecodeReply,
	Asked:         families.Request{Stream: true},
	Ending:        "event: response.completed",
	Repeated:      repeated,
}

// repeated is the response in the last event of a stream, before the end marker.
func repeated(t require.TestingT, stream string) string {
	events := strings.Split(strings.TrimSuffix(stream, "\n\ndata: [DONE]\n\n"), "\n\n")
	_, response, ok := strings.Cut(events[len(events)-1], `,"response":`)
	require.True(t, ok)
	return strings.TrimSuffix(response, "}")
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
