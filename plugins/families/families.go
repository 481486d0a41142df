// Package families defines what a request family is: the wire shape of requests, replies, streams and
// errors of one API that clients speak (chat, responses, messages). Each family is a folder below this one
// and knows the canonical model (package llm) and itself, never another family, never HTTP and never money
// beyond the two numbers that a reply shows.
//
// The gateway uses the server direction (Server, Encoder). Provider plugins use the client direction, which
// each family's package offers in its own terms.
//
// A family more is one folder here, which runs the suites of internal/familytest, and one guest module in
// modules/families; the README of this folder goes through it.
package families

import (
	"strconv"

	"github.com/fareway/fareway/plugins/llm"
)

// Kind says what an endpoint of a family does.
type Kind uint8

const (
	Generate    Kind = iota + 1 // answers the request; charged
	CountTokens                 // answers {"input_tokens": n}; free
)

// Endpoint is a POST path of a family. Exact and case-sensitive.
type Endpoint struct {
	Path string
	Kind Kind
}

// Server is the server direction of one family: it reads what clients of the family send and writes what
// they expect. It holds no state; methods may be called concurrently.
type Server interface {
	// Name is the family's name: "chat", "responses", "messages".
	Name() string
	// Endpoints lists the family's paths, versioned and not.
	Endpoints() []Endpoint
	// APIKeyHeader reports whether the family's endpoints also accept the header x-api-key.
	APIKeyHeader() bool

	// Decode reads a request that Parse accepted: media (GAP-01 step 12), fields and tools that are not
	// offered (13), all other rules (14). Model and profile (10, 11) are not its business.
	Decode(doc *Document, rules Rules) (*Request, *Error)
	// NewEncoder makes the encoder of one reply to a request that Decode returned.
	NewEncoder(req *Request, head Head) Encoder
	// AppendError appends the JSON body of an error reply.
	AppendError(b []byte, e *Error) []byte
}

// Rules are the parts of the contract that an operator switches on. The zero value is the contract as it is
// without them.
type Rules struct {
	// StructuredOutput turns structured outputs (STRUCT-08 to STRUCT-34) on, whole: while it is off, the fields for it
	// are refused or ignored (GAP-76).
	StructuredOutput bool
}

// Request is a decoded client request.
type Request struct {
	// LLM is the canonical request. Model, Attempt and the route's settings are unset, MaxTokens is 0
	// when none was given, Stop holds all stop sequences as sent but for empty and repeated ones.
	LLM *llm.Request

	// Stream asks for server-sent events; IncludeUsage for usage in a chat stream.
	Stream       bool
	IncludeUsage bool
	// Effort is the valid reasoning_effort that was sent: "low", "medium", "high", or "".
	Effort string
	// OneText says that a reply in one piece shows its texts as one, and its calls beside it, in whatever order they
	// came.
	OneText bool

	// Echo is what the family repeats in its reply; nobody else looks into it.
	Echo any
}

// Head is what a reply says of itself.
type Head struct {
	ID      string // without the family's prefix: the encoder adds "chatcmpl-", "resp_" or "msg_"
	Created int64  // Unix seconds
	Model   string // what the client sent, echoed (MODEL-15)
	// InputEstimate is the service's estimate of the input tokens, which message_start shows (GAP-66). It is asked for
	// by AppendStart, if at all: counting takes its time.
	InputEstimate func() int64
}

// End is how a reply ended.
type End struct {
	Finish llm.FinishReason
	// StopSequence is the stop sequence that the service matched, nil when it matched none. What an
	// upstream says of stop sequences is never shown (MSG-19).
	StopSequence *string
	Usage        *llm.Usage
	// Billed is the charge in microcents; Pending says that it is not yet final (USE-01, USE-02).
	Billed  int64
	Pending bool
	// At is when the reply ended, in Unix seconds.
	At int64
}

// AppendBill ends a usage object with what the reply was charged, in every family the same (USE-01, USE-02).
func AppendBill(b []byte, end *End) []byte {
	b = append(b, `,"billed_microcents":`...)
	b = strconv.AppendInt(b, end.Billed, 10)
	b = append(b, `,"billing_pending":`...)
	b = strconv.AppendBool(b, end.Pending)
	return append(b, '}')
}

// AppendUnsettled ends the usage object of an error frame, which has no amount (GAP-58).
func AppendUnsettled(b []byte) []byte { return append(b, `,"billing_pending":true}`...) }

// Used is what the reply used, nothing where nobody has said.
func (e *End) Used() (u llm.Usage) {
	if e.Usage != nil {
		u = *e.Usage
	}
	return u
}

// Encoder writes one reply, either as a stream (AppendStart, AppendEvent..., then AppendEnd or AppendError)
// or as one JSON body (AppendReply). Each method appends to b and returns it; what is appended is whole
// SSE frames, ready to be flushed. It is used by one goroutine, but for AppendKeepAlive.
type Encoder interface {
	// AppendStart appends the first events of the stream (SSE-21).
	AppendStart(b []byte) []byte
	// AppendEvent appends the frames of a Text, ToolCall, ToolArguments or ToolEnd event. It may append
	// nothing, and ignores all other kinds. It closes what the event ends (a text block before a call).
	AppendEvent(b []byte, ev llm.Event) []byte
	// AppendEnd appends everything up to and including the end marker.
	AppendEnd(b []byte, end End) []byte
	// AppendError appends the error frame. It may be called before AppendStart (GAP-68), and after an AppendEnd
	// whose frames were not sent.
	AppendError(b []byte, e *Error) []byte
	// AppendKeepAlive appends a keep-alive. It may be called before AppendStart (GAP-64), and by any goroutine: it
	// looks at nothing that the other methods change.
	AppendKeepAlive(b []byte) []byte
	// AppendReply appends the JSON body of a whole reply.
	AppendReply(b []byte, reply *llm.Reply, end End) []byte
}
