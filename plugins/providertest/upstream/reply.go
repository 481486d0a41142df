package upstream

import (
	"fmt"
	"strings"
	"time"
)

// Reply is the script of one reply. The same script answers streamed requests and others: a reply that is
// not streamed is what its Steps add up to.
type Reply struct {
	// Model is what the service says it ran. Empty: the request's model.
	Model string `json:"model,omitempty"`
	// Header is added to the reply's HTTP header.
	Header map[string]string `json:"header,omitempty"`
	// Usage says in which chunks of a stream usage stands.
	Usage UsageMode `json:"usage,omitempty"`
	// Honour says which limits of the request shape the reply. A scripted reply ignores both unless told.
	Honour Honour `json:"honour,omitzero"`
	// Wire shapes the bytes.
	Wire Wire `json:"wire,omitzero"`
	// Steps are done in order. A reply whose steps run out ends as it stands: without StepDone a stream
	// closes cleanly but has no end marker, and a reply that is not streamed has no body.
	Steps []Step `json:"steps"`
}

// UsageMode says which chunks of a stream carry usage. A reply that is not streamed carries it in every
// mode but UsageNever. The modes are the chat family's. A stream of the responses family has usage in its last
// event, one of the messages family in its first and its last but one, or, with UsageWithFinish, only there;
// UsageNever leaves it out of both.
type UsageMode string

const (
	// UsageAsAsked: in a chunk of its own where StepUsage stands, if the request asked for it with
	// stream_options.include_usage. What the official service does.
	UsageAsAsked UsageMode = ""
	// UsageAlways: in a chunk of its own, asked or not.
	UsageAlways UsageMode = "always"
	// UsageEveryChunk: what was used so far in every chunk, and the whole in a chunk of its own.
	UsageEveryChunk UsageMode = "every_chunk"
	// UsageWithFinish: only in the chunk that has the finish reason.
	UsageWithFinish UsageMode = "with_finish"
	// UsageNever: nowhere, asked or not.
	UsageNever UsageMode = "never"
)

// Honour says which of a request's limits a reply observes.
type Honour struct {
	Stop      bool `json:"stop,omitempty"`       // text ends before the first stop sequence
	MaxTokens bool `json:"max_tokens,omitempty"` // the reply ends after that many tokens, with "length"
}

// Wire shapes the bytes of a reply.
type Wire struct {
	// LineEnd ends the lines of a stream: "lf" (also ""), "crlf" or "cr".
	LineEnd string `json:"line_end,omitempty"`
	// Piece is how many bytes each write to the connection has, wherever events begin and end; what is
	// left of them is written at the next pause. 0: each event in a write of its own.
	Piece int `json:"piece,omitempty"`
	// Break ends the reply early. nil: it does not.
	Break *Break `json:"break,omitempty"`
}

// Break ends a reply after At bytes of its body.
type Break struct {
	At  int64 `json:"at"`
	How End   `json:"how,omitempty"`
}

// End is how a connection ends early.
type End string

const (
	// EndAbort closes the connection in the middle of the body (HTTP/2: resets the stream).
	EndAbort End = ""
	// EndReset closes it with a TCP reset; bytes that are still on their way may be lost.
	EndReset End = "reset"
	// EndClean ends the body as if it were whole.
	EndClean End = "clean"
)

// Say makes the reply that a healthy service gives with this text: a chunk for each word.
func Say(text string) Reply {
	return Reply{Steps: append(Words(text), Finish("stop"), ReportUsage(), Done())}
}

// Call makes the reply that a healthy service gives when its model calls one function; arguments come in two
// pieces.
func Call(id, name, arguments string) Reply {
	half := len(arguments) / 2
	for half < len(arguments) && arguments[half]&0xC0 == 0x80 { // not within a character
		half++
	}
	return Reply{Steps: []Step{
		ToolCall(0, id, name),
		Arguments(0, arguments[:half]), Arguments(0, arguments[half:]),
		Finish("tool_calls"), ReportUsage(), Done(),
	}}
}

// Refuse makes the reply of a service that fails before it sends anything.
func Refuse(e Error) Reply { return Reply{Steps: []Step{Fail(e)}} }

// Answer is the built-in reply: it says the last user message again and honours the request's limits.
func Answer(req *Request) Reply {
	r := Say(fmt.Sprintf("You said: %s", req.LastUser()))
	r.Honour = Honour{Stop: true, MaxTokens: true}
	return r
}

// Words cuts text into a step for each word; a word keeps the white space before it.
func Words(text string) []Step {
	var steps []Step
	for text != "" {
		start := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
		end := len(text)
		if i := strings.IndexAny(text[start:], " \t\r\n"); i >= 0 && start < len(text) {
			end = start + i
		}
		steps = append(steps, Text(text[:end]))
		text = text[end:]
	}
	return steps
}

// Duration is a time.Duration that is written like "10ms" in JSON.
type Duration time.Duration

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("reading a duration such as \"10ms\": %w", err)
	}
	*d = Duration(v)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }
