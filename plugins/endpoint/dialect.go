package endpoint

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
)

// Dialect is a wire format that upstreams speak.
type Dialect string

// The dialects that calls can be made in: those whose families have a client codec.
const (
	Chat      Dialect = "chat"
	Responses Dialect = "responses"
	Messages  Dialect = "messages"
)

// codec is the client direction of a family.
type codec struct {
	path    string // of its endpoint, below the address of an API
	encode  func(b []byte, req *llm.Request) ([]byte, error)
	decoder func(send func(llm.Event) error) decoder
	refusal func(status int, retryAfter string, body []byte) *llm.Error
}

// decoder reads a reply: the events of a stream, or a whole one.
type decoder interface {
	Data(data []byte) error
	Done() bool
	Close() error
	Whole(body []byte) error
	ID() string
}

var dialects = map[Dialect]*codec{
	Chat: {
		path: "/chat/completions", encode: chat.EncodeRequest, refusal: chat.DecodeError,
		decoder: func(send func(llm.Event) error) decoder { return chat.NewDecoder(send) },
	},
	Responses: {
		path: "/responses", encode: responses.EncodeRequest, refusal: responses.DecodeError,
		decoder: func(send func(llm.Event) error) decoder { return responses.NewDecoder(send) },
	},
	Messages: {
		path: "/messages", encode: messages.EncodeRequest, refusal: messages.DecodeError,
		decoder: func(send func(llm.Event) error) decoder { return messages.NewDecoder(send) },
	},
}

// marking are the codecs of the messages dialect that mark what the upstream is to keep, by how long.
var marking = map[string]*codec{"5m": marked("5m"), "1h": marked("1h")}

func marked(ttl string) *codec {
	c := *dialects[Messages]
	c.encode = func(b []byte, req *llm.Request) ([]byte, error) { return messages.EncodeMarked(b, req, ttl) }
	return &c
}

// codec is the codec of the endpoint's dialect, which Check found to be one. What has none is read as most services
// write.
func (e *Endpoint) codec() *codec {
	if c := marking[e.CacheControl]; c != nil && e.Dialect == Messages {
		return c
	}
	return dialects[cmp.Or(e.Dialect, Chat)]
}

// Dialects lists the dialects by name, sorted.
func Dialects() []string {
	var names []string
	for _, d := range slices.Sorted(maps.Keys(dialects)) {
		names = append(names, string(d))
	}
	return names
}
