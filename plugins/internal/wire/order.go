package wire

import (
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/llm"
)

// Order checks that the events of one reply come in the order that provider.proto gives for Generate. The
// SDK checks what a provider sends, so that its author hears of a mistake where it was made; the host checks
// what it receives, for a plugin need not use the SDK. The zero value is ready to use.
type Order struct {
	accepted   bool
	referenced bool
	finished   bool
	ended      []bool // by the index of the call
}

// Finished reports whether the reply's EventFinish has been seen.
func (o *Order) Finished() bool { return o.finished }

// Check takes the next event, and answers an error of kind ErrProtocol when it must not come now.
func (o *Order) Check(ev llm.Event) error {
	if ev.Kind < llm.EventAccepted || ev.Kind > llm.EventFinish {
		return llm.Errorf(llm.ErrProtocol, "an event has the unknown kind %d", ev.Kind)
	}
	if o.finished {
		return llm.Errorf(llm.ErrProtocol, "an event came after the reply's finish; finish must be the last one")
	}
	if ev.Kind == llm.EventAccepted {
		if o.accepted {
			return llm.Errorf(llm.ErrProtocol, "accepted came twice; it must be sent once")
		}
		o.accepted = true
		return nil
	}
	if !o.accepted {
		return llm.Errorf(llm.ErrProtocol, "an event came before accepted; accepted must be the first one")
	}
	switch ev.Kind {
	case llm.EventText:
		if ev.Text != "" {
			for i := range o.ended {
				o.ended[i] = true
			}
		}
		return text(ev)
	case llm.EventReasoning:
		return text(ev)
	case llm.EventToolCall:
		if ev.Index != len(o.ended) {
			return llm.Errorf(llm.ErrProtocol, "tool call %d began where call %d was due", ev.Index, len(o.ended))
		}
		if ev.Name == "" || ev.ID == "" {
			return llm.Errorf(llm.ErrProtocol, "tool call %d began without a name or without an id", ev.Index)
		}
		if len(ev.State) > llm.MaxState {
			return llm.Errorf(llm.ErrProtocol, "tool call %d began with a state of more than %d bytes", ev.Index, llm.MaxState)
		}
		o.ended = append(o.ended, false)
	case llm.EventToolArguments:
		if !o.open(ev.Index) {
			return llm.Errorf(llm.ErrProtocol, "arguments came for tool call %d, which is not open", ev.Index)
		}
		return text(ev)
	case llm.EventToolEnd:
		if !o.open(ev.Index) {
			return llm.Errorf(llm.ErrProtocol, "tool call %d ended, which is not open", ev.Index)
		}
		if len(ev.State) > llm.MaxState || len(ev.State) > 0 && ev.ID == "" {
			return llm.Errorf(llm.ErrProtocol, "tool call %d ended with a state of more than %d bytes, or without its id",
				ev.Index, llm.MaxState)
		}
		o.ended[ev.Index] = true
	case llm.EventUsage:
		return CheckUsage(ev.Usage)
	case llm.EventReference:
		if o.referenced {
			return llm.Errorf(llm.ErrProtocol, "a reference came twice; it must be sent once, when it is known")
		}
		if !llm.IsReference(ev.ID) {
			return llm.Errorf(llm.ErrProtocol, "a reference is not 1 to %d signs of ASCII that can be seen", llm.MaxReference)
		}
		o.referenced = true
	case llm.EventFinish:
		o.finished = true
	}
	return nil
}

// CheckUsage refuses usage that is missing, negative or beyond any number of tokens, with an error of kind
// ErrProtocol: accounts are charged by it.
func CheckUsage(u *llm.Usage) error {
	if u == nil {
		return llm.Errorf(llm.ErrProtocol, "usage came empty")
	}
	for _, count := range []*int64{u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning} {
		if llm.Tokens(count) < 0 {
			return llm.Errorf(llm.ErrProtocol, "usage came with a negative count")
		}
		if llm.Tokens(count) > llm.MaxCount {
			return llm.Errorf(llm.ErrProtocol, "usage came with a count above 2^53")
		}
	}
	return nil
}

func (o *Order) open(index int) bool {
	return index >= 0 && index < len(o.ended) && !o.ended[index]
}

func text(ev llm.Event) error {
	if !utf8.ValidString(ev.Text) {
		return llm.Errorf(llm.ErrProtocol,
			"a piece of text is not valid UTF-8; keep the bytes of an unfinished character for the next piece")
	}
	return nil
}
