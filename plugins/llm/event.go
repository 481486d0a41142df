package llm

import "slices"

// EventKind says which fields of an Event count.
type EventKind uint8

const (
	// EventAccepted: the upstream has taken the request (its 2xx headers). It comes first, once, before
	// any text; the client's stream opens on it (GAP-63). Model may be set, and ID: what the upstream calls the
	// request, for the operator's log.
	EventAccepted EventKind = iota + 1
	// EventText: Text is a piece of the visible reply. It ends every call that has begun.
	EventText
	// EventReasoning: Text is a piece of hidden reasoning. It is never shown and never matched.
	EventReasoning
	// EventToolCall: a tool call begins. Index, ID and Name are set, and State where the upstream wants something back
	// with the call's result.
	EventToolCall
	// EventToolArguments: Text is a piece of the JSON arguments of the call at Index. Pieces of several
	// calls may be interleaved.
	EventToolArguments
	// EventToolEnd: the call at Index is whole. Optional: without it a call ends with the next text or with
	// the reply. ID and State are set where the upstream said what it wants back since the call began.
	EventToolEnd
	// EventUsage: Usage is what the attempt has used so far. A later one adds to what is known, see Usage.Merge.
	EventUsage
	// EventReference: ID is what the upstream is asked by, later, for what the attempt used, see IsReference. At most
	// once, as soon as it is known: the gateway keeps it with the attempt, and gives it back with the question for a
	// receipt. Only a provider that gives receipts need send it, and only where the attempt's own id does not do.
	EventReference
	// EventFinish: the reply ended by itself; Finish says why. It comes last, once. A reply that fails
	// ends with an error instead. ID may be what the upstream calls its reply, for one that has no name for the request.
	EventFinish
)

// Event is one step of a reply. A legal sequence is: Accepted, then any of Text, Reasoning, ToolCall,
// ToolArguments, ToolEnd, Usage and Reference, then Finish; it may stop at any point with an error instead.
type Event struct {
	Kind  EventKind
	Index int    // tool calls: 0 for the first call of the reply, 1 for the second, ...
	ID    string // EventToolCall, EventToolEnd with State, EventAccepted, EventFinish, EventReference
	Name  string // EventToolCall
	Text  string // EventText, EventReasoning, EventToolArguments: valid UTF-8
	Usage *Usage // EventUsage
	// State is what the upstream wants back with the result of the call, such as a signature of what it thought; up to
	// MaxState bytes of whatever kind. The gateway keeps it for a while, shows it to nobody, and gives it to the route
	// that it came from (Request.States).
	State  []byte // EventToolCall, EventToolEnd
	Finish FinishReason
	Model  string // EventAccepted, EventFinish: what the upstream said it was; may be ""
}

// MaxState is the size in bytes of the largest Event.State.
const MaxState = 256 << 10

// MaxReference is the length in bytes of the longest reference of an attempt.
const MaxReference = 256

// IsReference reports whether an upstream's name of an attempt can be kept: 1 to MaxReference signs of ASCII that can
// be seen. Anything else is no reference, and a codec leaves it out.
func IsReference(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != "" && len(s) <= MaxReference
}

// FinishReason says why a reply ended: one of the reasons below, or another word, which is the upstream's own. The
// gateway looks such a word up in the route's `finish_reasons`; one that is not there is a failure of the upstream,
// for a reply that failed must never look complete (GAP-114).
type FinishReason string

const (
	FinishUnknown   FinishReason = ""               // the upstream did not say
	FinishStop      FinishReason = "stop"           // natural end, or a stop sequence that the upstream honoured
	FinishLength    FinishReason = "length"         // the output allowance was reached
	FinishToolCalls FinishReason = "tool_calls"     // the reply ends in tool calls
	FinishPolicy    FinishReason = "content_filter" // a content policy ended the reply
)

// MaxFinishReason is the length in bytes of the longest word for the end of a reply. A codec cuts longer ones.
const MaxFinishReason = 64

// FinishReasons are the reasons that the gateway knows, but for FinishUnknown.
func FinishReasons() []FinishReason {
	return []FinishReason{FinishStop, FinishLength, FinishToolCalls, FinishPolicy}
}

// Known reports whether the gateway knows the reason; FinishUnknown is known, too.
func (f FinishReason) Known() bool { return f == FinishUnknown || slices.Contains(FinishReasons(), f) }
