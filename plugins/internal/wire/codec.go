package wire

import (
	"errors"
	"slices"
	"sync"
	"unsafe"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec below
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	goproto "google.golang.org/protobuf/proto"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// Codec is gRPC's codec for protobuf that also takes *Request and *Events, and reads and writes what these have many
// of without a Go message for each. What travels is the same.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(interface {
		guess() int
		append(b []byte) ([]byte, error)
	})
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	room := sent.Get(m.guess())
	b, err := m.append((*room)[:0])
	*room = b
	return mem.BufferSlice{mem.NewBuffer(room, sent)}, err // gRPC gives it back when it is sent
}

// sent is the memory of messages that are sent. That of gRPC's own pool is cleared each time.
var sent = new(rooms)

type rooms struct{ pool sync.Pool }

// What is kept for the next message, in bytes: gRPC gives nothing smaller back. Nearly all messages are small, and one
// that was large is not to leave its memory to each of them.
const (
	leastRoom = 2 << 10
	mostRoom  = 128 << 10
)

// Get implements mem.BufferPool.
func (r *rooms) Get(length int) *[]byte {
	b, _ := r.pool.Get().(*[]byte)
	if b == nil || cap(*b) < length {
		b = new(make([]byte, max(length, leastRoom)))
	}
	*b = (*b)[:length]
	return b
}

// Put implements mem.BufferPool.
func (r *rooms) Put(b *[]byte) {
	if cap(*b) <= mostRoom {
		r.pool.Put(b)
	}
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *Request:
		return v.read(data.Materialize())
	case *Events:
		return v.read(data.Materialize())
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Request is a proto.GenerateRequest. It is written with its texts quoted, where they are; what is read aliases the
// message.
type Request struct{ *llm.Request }

// The numbers of the fields that are read and written here, in GenerateRequest, Message, Part, PastToolCall and Event.
const (
	requestMessages = 3

	messageRole     = 1
	messageParts    = 2
	messageCallID   = 3
	messageIsError  = 4
	messageChanging = 5

	partText   = 1
	partCall   = 2
	partQuoted = 3

	callID              = 1
	callName            = 2
	callArguments       = 3
	callQuotedArguments = 4

	eventsEvent    = 1
	eventText      = 2
	eventReasoning = 3
)

// guess is about how long the message will be, nearly always enough.
func (r *Request) guess() int {
	const base, turn, call = 512, 32, 64
	n := base + 64*len(r.Tools)
	for i := range r.Messages {
		n += turn + len(r.Messages[i].CallID)
		for j := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[j]
			n += 8 + p.Text.Size()
			if p.Call != nil {
				n += call + len(p.Call.ID) + len(p.Call.Name) + p.Call.Arguments.Size()
			}
		}
	}
	for i := range r.Tools {
		n += len(r.Tools[i].Name) + len(r.Tools[i].Description) + len(r.Tools[i].Schema)
	}
	return n
}

func (r *Request) append(b []byte) ([]byte, error) {
	head := *r.Request
	head.Messages = nil
	b, err := goproto.MarshalOptions{}.MarshalAppend(b, RequestToProto(&head))
	if err != nil {
		return nil, err
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		b = appendNested(b, requestMessages, func(b []byte) []byte { return appendMessage(b, m) })
	}
	return b, nil
}

func appendMessage(b []byte, m *llm.Message) []byte {
	b = appendString(b, messageRole, string(m.Role))
	for i := range m.Parts {
		p := &m.Parts[i]
		b = appendNested(b, messageParts, func(b []byte) []byte { return appendPart(b, p) })
	}
	b = appendString(b, messageCallID, m.CallID)
	if m.IsError {
		b = protowire.AppendTag(b, messageIsError, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	if m.Changing > 0 {
		b = protowire.AppendTag(b, messageChanging, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(m.Changing))
	}
	return b
}

func appendPart(b []byte, p *llm.Part) []byte {
	if c := p.Call; c != nil {
		return appendNested(b, partCall, func(b []byte) []byte {
			b = appendString(b, callID, c.ID)
			b = appendString(b, callName, c.Name)
			if quoted, ok := c.Arguments.Quoted(); ok {
				return appendString(b, callQuotedArguments, quoted)
			}
			return appendString(b, callArguments, c.Arguments.String())
		})
	}
	quoted, ok := p.Text.Quoted()
	if ok {
		b = protowire.AppendTag(b, partQuoted, protowire.BytesType)
		return protowire.AppendString(b, quoted)
	}
	b = protowire.AppendTag(b, partText, protowire.BytesType)
	return protowire.AppendString(b, p.Text.String())
}

// appendString appends a field that is left out when it is empty.
func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

// appendNested appends a field whose length is known when it has been written.
func appendNested(b []byte, field protowire.Number, value func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	start := len(b) + 1 // one byte is enough for most lengths
	b = value(append(b, 0))
	n := len(b) - start
	if n < 1<<7 {
		b[start-1] = byte(n)
		return b
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	b = slices.Grow(b, more)[:len(b)+more]
	copy(b[start+more:], b[start:])
	protowire.AppendVarint(b[:start-1], uint64(n))
	return b
}

func (r *Request) read(b []byte) error {
	count := 0
	err := eachField(b, func(field protowire.Number, _, _ []byte) error {
		if field == requestMessages {
			count++
		}
		return nil
	})
	if err != nil {
		return err
	}
	messages := slices.Grow([]llm.Message(nil), count)
	var rest []byte // all but the messages
	err = eachField(b, func(field protowire.Number, value, whole []byte) error {
		if field != requestMessages || value == nil {
			rest = append(rest, whole...)
			return nil
		}
		messages = append(messages, llm.Message{})
		return readMessage(value, &messages[len(messages)-1])
	})
	if err != nil {
		return err
	}
	var head proto.GenerateRequest
	if err := goproto.Unmarshal(rest, &head); err != nil {
		return err
	}
	r.Request = RequestFromProto(&head)
	r.Messages = messages
	return nil
}

func readMessage(b []byte, m *llm.Message) error {
	return eachField(b, func(field protowire.Number, value, whole []byte) error {
		switch {
		case field == messageIsError && value == nil:
			m.IsError = varint(whole) != 0
		case field == messageChanging && value == nil:
			m.Changing = changing(varint(whole))
		case value == nil:
		case field == messageRole:
			m.Role = llm.Role(alias(value))
		case field == messageCallID:
			m.CallID = alias(value)
		case field == messageParts:
			part, known, err := readPart(value)
			if known {
				m.Parts = append(m.Parts, part)
			}
			return err
		}
		return nil
	})
}

// varint is the value of a field that is a number.
func varint(field []byte) uint64 {
	_, _, tag := protowire.ConsumeTag(field)
	n, _ := protowire.ConsumeVarint(field[tag:])
	return n
}

func readPart(b []byte) (part llm.Part, known bool, err error) {
	err = eachField(b, func(field protowire.Number, value, _ []byte) error {
		if value == nil {
			return nil
		}
		switch field {
		case partText:
			part, known = llm.Text(alias(value)), true
		case partQuoted:
			part, known = llm.Part{Text: llm.Quoted(alias(value))}, true
		case partCall:
			part, known = llm.Part{Call: &llm.ToolCall{}}, true
			return readCall(value, part.Call)
		}
		return nil
	})
	return part, known, err
}

func readCall(b []byte, c *llm.ToolCall) error {
	return eachField(b, func(field protowire.Number, value, _ []byte) error {
		if value == nil {
			return nil
		}
		switch field {
		case callID:
			c.ID = alias(value)
		case callName:
			c.Name = alias(value)
		case callArguments:
			c.Arguments = llm.Plain(alias(value))
		case callQuotedArguments:
			c.Arguments = llm.Quoted(alias(value))
		}
		return nil
	})
}

// eachField walks the fields of a message. value is that of a field of type bytes, and nil for other types.
func eachField(b []byte, take func(field protowire.Number, value, whole []byte) error) error {
	for len(b) > 0 {
		field, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		if field > protowire.MaxValidNumber {
			return errors.New("reading a message: a field has a number that none may have")
		}
		n := protowire.ConsumeFieldValue(field, kind, b[tag:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b[tag:])
		}
		if err := take(field, value, b[:tag+n]); err != nil {
			return err
		}
		b = b[tag+n:]
	}
	return nil
}

// alias is a string that is a piece of a message, which is not changed any more.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Said is what a provider says: an event, or that the attempt has failed.
type Said struct {
	llm.Event
	Failure *proto.Failure // nil for an event
}

// Events is a proto.Events.
type Events struct{ List []Said }

// guess is about how long the message will be.
func (e *Events) guess() int {
	n := 64 * min(len(e.List), 4)
	for i := range e.List {
		n += 8 + len(e.List[i].Text)
	}
	return n
}

func (e *Events) append(b []byte) ([]byte, error) {
	var err error
	for i := range e.List {
		s := &e.List[i]
		b = appendNested(b, eventsEvent, func(b []byte) []byte {
			switch {
			case s.Failure == nil && s.Kind == llm.EventText:
				b = protowire.AppendTag(b, eventText, protowire.BytesType)
				return protowire.AppendString(b, s.Text)
			case s.Failure == nil && s.Kind == llm.EventReasoning:
				b = protowire.AppendTag(b, eventReasoning, protowire.BytesType)
				return protowire.AppendString(b, s.Text)
			}
			whole, wrong := goproto.MarshalOptions{}.MarshalAppend(b, s.toProto())
			if wrong != nil {
				err = wrong
				return b
			}
			return whole
		})
	}
	return b, err
}

func (s *Said) toProto() *proto.Event {
	if s.Failure != nil {
		return &proto.Event{Kind: &proto.Event_Failure{Failure: s.Failure}}
	}
	return EventToProto(s.Event)
}

// read leaves out events of kinds that this version does not know.
func (e *Events) read(b []byte) error {
	e.List = e.List[:0]
	return eachField(b, func(field protowire.Number, value, _ []byte) error {
		if field != eventsEvent || value == nil {
			return nil
		}
		if kind, text, ok := onlyText(value); ok {
			e.List = append(e.List, Said{Event: llm.Event{Kind: kind, Text: alias(text)}})
			return nil
		}
		var event proto.Event
		if err := goproto.Unmarshal(value, &event); err != nil {
			return err
		}
		if f := event.GetFailure(); f != nil {
			e.List = append(e.List, Said{Failure: f})
		} else if ev := EventFromProto(&event); ev.Kind != 0 {
			e.List = append(e.List, Said{Event: ev})
		}
		return nil
	})
}

// onlyText reads an event that consists of a text. That it is valid UTF-8 is Order's business.
func onlyText(b []byte) (kind llm.EventKind, text []byte, ok bool) {
	field, wireType, tag := protowire.ConsumeTag(b)
	switch {
	case tag < 0 || wireType != protowire.BytesType:
		return 0, nil, false
	case field == eventText:
		kind = llm.EventText
	case field == eventReasoning:
		kind = llm.EventReasoning
	default:
		return 0, nil, false
	}
	text, n := protowire.ConsumeBytes(b[tag:])
	return kind, text, n >= 0 && tag+n == len(b)
}
