// Package familytest is what the tests of all families share: the laws that hold for each of them, as suites
// (RoundTrips, Streams, Captures, FuzzDecode, FuzzDecoder, FuzzEncoder, FuzzEncodeRequest), and the helpers with which
// a family's own tests are written. It is for the tests of families.
//
// A family's tests describe it once as a Family and run the suites; what is written in their own files is what
// only that family does.
package familytest

import (
	"errors"
	"io"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/schema"
	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
)

// Head is what the replies of a Family's encoders say of themselves.
var Head = families.Head{ID: "1", Created: 1, Model: "auto", InputEstimate: func() int64 { return 9 }}

// Decoder reads an upstream's stream, in the client direction.
type Decoder interface {
	Data(data []byte) error
	Done() bool
	Close() error
}

// Family is a family under test, in both directions.
type Family struct {
	Server families.Server

	EncodeRequest func(b []byte, req *llm.Request) ([]byte, error)
	// Refuses is what upstreams of the family refuse.
	Refuses     func() []string
	NewDecoder  func(send func(llm.Event) error) Decoder
	DecodeReply func(body []byte, send func(llm.Event) error) error

	// Asked is what a request that EncodeRequest wrote asks for when Server reads it, but for LLM and Echo.
	Asked families.Request
	// Ending is a piece of the event with which a reply is whole: a stream that is cut before that event's
	// end is broken, one that is cut after it is not.
	Ending string
	// Seen is what the family leaves of the order of a reply's items; nil for a family that keeps it.
	Seen func([]llm.Item) []llm.Item
	// Arguments is what a reply in one piece makes of a call's arguments; nil for a family that keeps them.
	Arguments func(string) string
	// Repeated is the reply in one piece as the end of a stream repeats it; nil for a family that does not.
	Repeated func(t require.TestingT, stream string) string
}

// Conformed writes a request as those who call upstreams do: what upstreams of the family refuse is mapped before.
func (f Family) Conformed(b []byte, req *llm.Request) ([]byte, error) {
	req, _, err := conform.Request(req, f.Refuses())
	if err != nil {
		return nil, err
	}
	return f.EncodeRequest(b, req)
}

// Decode reads a body as the gateway does.
func (f Family) Decode(t require.TestingT, body string, rules families.Rules) (*families.Request, *families.Error) {
	doc, err := families.Parse([]byte(body))
	require.Nil(t, err, "parsing %s", body)
	return f.Server.Decode(doc, rules)
}

// Decoded reads a body while nothing that an operator may switch on is on.
func (f Family) Decoded(t require.TestingT, body string) (*families.Request, *families.Error) {
	return f.Decode(t, body, families.Rules{})
}

// Accepted is Decoded for a body that has to be good.
func (f Family) Accepted(t require.TestingT, body string) *families.Request {
	req, err := f.Decoded(t, body)
	require.Nil(t, err, "decoding %s", body)
	return req
}

// NewEncoder makes the encoder of a reply to a request that says nothing but Asked.
func (f Family) NewEncoder() families.Encoder { return f.Server.NewEncoder(&f.Asked, Head) }

// Stream encodes a whole stream. It panics where that does not keep the family's schema (GAP-116).
func (f Family) Stream(events []llm.Event, end families.End) string {
	stream := Stream(f.NewEncoder(), events, end)
	if err := f.schema().Stream([]byte(stream)); err != nil {
		panic(err)
	}
	return stream
}

// Whole encodes the same events as one JSON body. It panics where that does not keep the family's schema.
func (f Family) Whole(events []llm.Event, end families.End) string {
	body := f.NewEncoder().AppendReply(nil, fold(events), end)
	if err := f.schema().Body(body); err != nil {
		panic(err)
	}
	return string(body)
}

func (f Family) schema() *schema.Family { return schema.Of(f.Server.Name()) }

// Stream encodes a whole stream with e.
func Stream(e families.Encoder, events []llm.Event, end families.End) string {
	b := e.AppendStart(nil)
	for _, ev := range events {
		b = e.AppendEvent(b, ev)
	}
	return string(e.AppendEnd(b, end))
}

// Read decodes the data of a stream's events into what a reader sees.
func (f Family) Read(data ...string) ([]llm.Event, error) {
	return f.read(func(d Decoder) error {
		for _, s := range data {
			if err := d.Data([]byte(s)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadStream reads a stream as a provider does, to its end or where it breaks off.
func (f Family) ReadStream(stream string) ([]llm.Event, error) {
	return f.read(func(d Decoder) error {
		reader := sse.NewReader(strings.NewReader(stream), 1<<20)
		for {
			ev, err := reader.Next()
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := d.Data(ev.Data); err != nil {
				return err
			}
		}
	})
}

func (f Family) read(feed func(Decoder) error) ([]llm.Event, error) {
	var events []llm.Event
	d := f.NewDecoder(func(ev llm.Event) error { events = append(events, ev); return nil })
	if err := feed(d); err != nil {
		return events, err
	}
	return events, d.Close()
}

// ReadWhole decodes a reply in one piece.
func (f Family) ReadWhole(body string) ([]llm.Event, error) {
	var events []llm.Event
	err := f.DecodeReply([]byte(body), func(ev llm.Event) error { events = append(events, ev); return nil })
	return events, err
}

// data is what the events of a stream hold.
func data(t require.TestingT, stream string) []string {
	var all []string
	reader := sse.NewReader(strings.NewReader(stream), 1<<20)
	for {
		ev, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, string(ev.Data))
	}
}
