package upstream

import "time"

// StepKind says what a Step does, and so which of its fields count.
type StepKind string

const (
	// Pieces of the reply.
	StepText      StepKind = "text"      // Text; Times and Every repeat it
	StepReasoning StepKind = "reasoning" // Text, as reasoning_content, a summary of reasoning, or thinking
	StepToolCall  StepKind = "tool_call" // Index, ID, Name: the first piece of a call
	StepArguments StepKind = "arguments" // Index, Text: a further piece of a call
	StepFinish    StepKind = "finish"    // Text is the finish reason, in the chat family's words or the family's own
	StepUsage     StepKind = "usage"     // Usage, or what was counted when nil, as Reply.Usage says
	StepDone      StepKind = "done"      // the end marker of a stream; the body of a reply that is not one
	// Text, as an event-stream comment, in the messages family a ping; nothing when not streamed
	StepComment StepKind = "comment"
	StepRaw     StepKind = "raw" // Text, these bytes as they are

	// When.
	StepHeaders StepKind = "headers" // sends status and header now, not with the first piece
	StepWait    StepKind = "wait"    // until the gate Gate, or a Go channel, opens
	StepSleep   StepKind = "sleep"   // for the time Every
	StepSilence StepKind = "silence" // until the client leaves

	// Ends. Nothing after them is done.
	StepError StepKind = "error" // Error as a status, or in the stream when its header was sent
	StepCut   StepKind = "cut"   // the connection closes in the middle of the body
	StepReset StepKind = "reset" // the same with a TCP reset

	// stepCallEnd says that nothing of the call at Index follows. No script has it: markCallEnds finds it out.
	stepCallEnd StepKind = "call_end"
)

// Step is one step of a Reply.
type Step struct {
	Do    StepKind `json:"do"`
	Text  string   `json:"text,omitempty"`
	Index int      `json:"index,omitempty"`
	ID    string   `json:"id,omitempty"`
	Name  string   `json:"name,omitempty"`
	Usage *Usage   `json:"usage,omitempty"`
	Error *Error   `json:"error,omitempty"`
	Gate  string   `json:"gate,omitempty"`
	// Stop is the stop sequence that ended the reply, for a finish; the messages family says it.
	Stop string `json:"stop,omitempty"`
	// Times repeats a text; Every is the time between.
	Times int      `json:"times,omitempty"`
	Every Duration `json:"every,omitempty"`

	open <-chan struct{}
}

// Usage is what a service says a reply used, in tokens. Cached and Written, what was read from a cache and
// written to one, are parts of Prompt, Reasoning is a part of Completion; nil leaves a field out.
type Usage struct {
	Prompt     int64  `json:"prompt"`
	Completion int64  `json:"completion"`
	Cached     *int64 `json:"cached,omitempty"`
	Written    *int64 `json:"written,omitempty"`
	Reasoning  *int64 `json:"reasoning,omitempty"`
	// Raw stands in the place of the usage object, as JSON text in the family's own words: what a service sends that
	// cannot count. The counts then say what is written down as reported.
	Raw string `json:"raw,omitempty"`
}

// Text makes a piece of the visible reply.
func Text(s string) Step { return Step{Do: StepText, Text: s} }

// Reasoning makes a piece of hidden reasoning.
func Reasoning(s string) Step { return Step{Do: StepReasoning, Text: s} }

// ToolCall makes the first piece of a call: the only one with its id and name.
func ToolCall(index int, id, name string) Step {
	return Step{Do: StepToolCall, Index: index, ID: id, Name: name}
}

// Arguments makes a further piece of the call at index. Pieces of several calls may be interleaved.
func Arguments(index int, s string) Step { return Step{Do: StepArguments, Index: index, Text: s} }

// Finish makes the piece that says why the reply ends.
func Finish(reason string) Step { return Step{Do: StepFinish, Text: reason} }

// ReportUsage reports the usage that was counted.
func ReportUsage() Step { return Step{Do: StepUsage} }

// ReportTokens reports this usage, whatever the reply is.
func ReportTokens(u Usage) Step { return Step{Do: StepUsage, Usage: &u} }

// ReportRaw reports this usage object, whatever it is: JSON text in the words of the request's family.
func ReportRaw(object string) Step { return ReportTokens(Usage{Raw: object}) }

// Done ends the reply as a whole one.
func Done() Step { return Step{Do: StepDone} }

// Comment makes an event-stream comment, which services send to keep a connection alive.
func Comment(s string) Step { return Step{Do: StepComment, Text: s} }

// Raw sends bytes as they are.
func Raw(s string) Step { return Step{Do: StepRaw, Text: s} }

// Headers sends the status and the header now. With a Wait before it headers are slow, with one after it
// the first token is.
func Headers() Step { return Step{Do: StepHeaders} }

// Wait waits until Server.Open opens the gate of this name. Everything before it has been written then.
func Wait(gate string) Step { return Step{Do: StepWait, Gate: gate} }

// WaitFor waits until ch is closed or gives a value.
func WaitFor(ch <-chan struct{}) Step { return Step{Do: StepWait, open: ch} }

// Sleep waits for d. Tests use Wait; this is for benchmarks and demonstrations.
func Sleep(d time.Duration) Step { return Step{Do: StepSleep, Every: Duration(d)} }

// Silence sends nothing more until the client leaves.
func Silence() Step { return Step{Do: StepSilence} }

// Fail ends the reply with an error.
func Fail(e Error) Step { return Step{Do: StepError, Error: &e} }

// Cut closes the connection in the middle of the body.
func Cut() Step { return Step{Do: StepCut} }

// Reset closes the connection with a TCP reset.
func Reset() Step { return Step{Do: StepReset} }
