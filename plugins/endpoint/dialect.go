package endpoint

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/gemini"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
)

// Dialect is a wire format that upstreams speak.
type Dialect string

// The dialects that calls can be made in: those that there is a client codec for.
const (
	Chat      Dialect = "chat"
	Responses Dialect = "responses"
	Messages  Dialect = "messages"
	// Gemini is Google's streamed generateContent: the address names the model, and always asks for a stream.
	Gemini Dialect = "gemini"
)

// codec is the client direction of a dialect.
type codec struct {
	path    string // of its endpoint, below the address of an API; "" where that is not all there is to it
	encode  func(b []byte, req *llm.Request, e *Endpoint) ([]byte, error)
	decoder func(send func(llm.Event) error, e *Endpoint) decoder
	// refuses is what upstreams of the dialect refuse, see llm.Restrictions.
	refuses func(e *Endpoint, model string) []string
	id      string // the member of a reply in one piece that has its id
	// least is the smallest allowance that the API takes: of a smaller one the reply is cut here.
	least int64
}

// decoder reads a reply: the events of a stream, or a whole one.
type decoder interface {
	Data(data []byte) error
	Done() bool
	Close() error
	Whole(body []byte) error
	ID() string
	// Allowance bounds what the total alone says of the output, in tokens; 0 is no bound.
	Allowance(tokens int64)
}

var dialects = map[Dialect]*codec{
	Chat: {
		path: "/chat/completions", id: "id",
		refuses: func(e *Endpoint, _ string) []string {
			if e.StrictTools {
				return chatRefuses[1:]
			}
			return chatRefuses
		},
		encode: func(b []byte, req *llm.Request, e *Endpoint) ([]byte, error) {
			return chat.EncodeFor(b, req, chat.Service{ReturnReasoning: e.ReturnReasoning, LostCall: e.LostCall,
				Timings: e.Timings})
		},
		decoder: func(send func(llm.Event) error, e *Endpoint) decoder {
			d := chat.NewDecoder(send)
			if e.ReturnReasoning {
				d.ReturnReasoning()
			}
			return d
		},
	},
	Responses: {
		path: "/responses", id: "id", least: responses.LeastAllowance, encode: plainly(responses.EncodeRequest),
		refuses: whatever(responses.Refuses()),
		decoder: func(send func(llm.Event) error, _ *Endpoint) decoder { return responses.NewDecoder(send) },
	},
	Messages: {
		path: "/messages", id: "id", refuses: whatever(messages.Refuses()),
		encode: func(b []byte, req *llm.Request, e *Endpoint) ([]byte, error) {
			return messages.EncodeWith(b, req, messages.Options{Keep: e.CacheControl, ThinkingBudget: e.ThinkingBudget,
				Effort: e.ThinkingLevel})
		},
		decoder: func(send func(llm.Event) error, _ *Endpoint) decoder { return messages.NewDecoder(send) },
	},
	Gemini: {
		id:      "responseId",
		refuses: func(_ *Endpoint, model string) []string { return gemini.Refuses(model) },
		encode: func(b []byte, req *llm.Request, e *Endpoint) ([]byte, error) {
			return gemini.EncodeRequest(b, req, gemini.Options{ThinkingBudget: e.ThinkingBudget, ThinkingLevel: e.ThinkingLevel})
		},
		decoder: func(send func(llm.Event) error, _ *Endpoint) decoder { return gemini.NewDecoder(send) },
	},
}

// chatRefuses is what chat upstreams refuse that do not know strict tools.
var chatRefuses = append([]string{"strict"}, chat.Refuses()...)

// whatever is what is refused whatever the endpoint.
func whatever(refused []string) func(*Endpoint, string) []string {
	return func(*Endpoint, string) []string { return refused }
}

// plainly is an encoder that nothing of an endpoint changes.
func plainly(encode func([]byte, *llm.Request) ([]byte, error)) func([]byte, *llm.Request, *Endpoint) ([]byte, error) {
	return func(b []byte, req *llm.Request, _ *Endpoint) ([]byte, error) { return encode(b, req) }
}

// codec is the codec of the endpoint's dialect, which Check found to be one. What has none is read as most services
// write.
func (e *Endpoint) codec() *codec { return dialects[cmp.Or(e.Dialect, Chat)] }

// Dialects lists the dialects by name, sorted.
func Dialects() []string {
	var names []string
	for _, d := range slices.Sorted(maps.Keys(dialects)) {
		names = append(names, string(d))
	}
	return names
}
