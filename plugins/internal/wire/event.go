package wire

import (
	"fmt"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// EventToProto translates an event. It panics on a kind that does not exist: Order refuses those first.
func EventToProto(ev llm.Event) *proto.Event {
	switch ev.Kind {
	case llm.EventAccepted:
		return &proto.Event{Kind: &proto.Event_Accepted{Accepted: &proto.Accepted{Model: ev.Model, RequestId: Clip(ev.ID)}}}
	case llm.EventText:
		return &proto.Event{Kind: &proto.Event_Text{Text: ev.Text}}
	case llm.EventReasoning:
		return &proto.Event{Kind: &proto.Event_Reasoning{Reasoning: ev.Text}}
	case llm.EventToolCall:
		return &proto.Event{Kind: &proto.Event_ToolCall{
			ToolCall: &proto.ToolCall{Index: int32(ev.Index), Id: ev.ID, Name: ev.Name, State: ev.State},
		}}
	case llm.EventToolArguments:
		return &proto.Event{Kind: &proto.Event_ToolArguments{
			ToolArguments: &proto.ToolArguments{Index: int32(ev.Index), Text: ev.Text},
		}}
	case llm.EventToolEnd:
		return &proto.Event{Kind: &proto.Event_ToolEnd{
			ToolEnd: &proto.ToolEnd{Index: int32(ev.Index), Id: ev.ID, State: ev.State},
		}}
	case llm.EventUsage:
		return &proto.Event{Kind: &proto.Event_Usage{Usage: UsageToProto(ev.Usage)}}
	case llm.EventReference:
		return &proto.Event{Kind: &proto.Event_Reference{Reference: ev.ID}}
	case llm.EventFinish:
		return &proto.Event{Kind: &proto.Event_Finish{
			Finish: &proto.Finish{Reason: string(ev.Finish), Model: ev.Model, ReplyId: Clip(ev.ID)},
		}}
	}
	panic(fmt.Sprintf("translating an event of unknown kind %d", ev.Kind))
}

// EventFromProto translates an event back. The kind is 0 for a failure, which is not an event of the model
// (see FailureFromProto), and for a kind that this version does not know, which is to be ignored.
func EventFromProto(ev *proto.Event) llm.Event {
	switch kind := ev.GetKind().(type) {
	case *proto.Event_Accepted:
		return llm.Event{Kind: llm.EventAccepted, Model: Clip(kind.Accepted.GetModel()),
			ID: Clip(kind.Accepted.GetRequestId())}
	case *proto.Event_Text:
		return llm.Event{Kind: llm.EventText, Text: kind.Text}
	case *proto.Event_Reasoning:
		return llm.Event{Kind: llm.EventReasoning, Text: kind.Reasoning}
	case *proto.Event_ToolCall:
		c := kind.ToolCall
		return llm.Event{Kind: llm.EventToolCall, Index: int(c.GetIndex()), ID: c.GetId(), Name: c.GetName(),
			State: c.GetState()}
	case *proto.Event_ToolArguments:
		a := kind.ToolArguments
		return llm.Event{Kind: llm.EventToolArguments, Index: int(a.GetIndex()), Text: a.GetText()}
	case *proto.Event_ToolEnd:
		e := kind.ToolEnd
		return llm.Event{Kind: llm.EventToolEnd, Index: int(e.GetIndex()), ID: e.GetId(), State: e.GetState()}
	case *proto.Event_Usage:
		return llm.Event{Kind: llm.EventUsage, Usage: UsageFromProto(kind.Usage)}
	case *proto.Event_Reference:
		return llm.Event{Kind: llm.EventReference, ID: kind.Reference}
	case *proto.Event_Finish:
		f := kind.Finish
		return llm.Event{Kind: llm.EventFinish, Finish: llm.FinishReason(f.GetReason()), Model: Clip(f.GetModel()),
			ID: Clip(f.GetReplyId())}
	}
	return llm.Event{}
}

// UsageToProto translates usage; nil stays nil.
func UsageToProto(u *llm.Usage) *proto.Usage {
	if u == nil {
		return nil
	}
	return &proto.Usage{
		Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Output: u.Output, Reasoning: u.Reasoning, Estimated: u.Estimated, Flaw: Clip(u.Flaw),
		Doubt: Clip(u.Doubt),
	}
}

// UsageFromProto translates usage back; nil stays nil.
func UsageFromProto(u *proto.Usage) *llm.Usage {
	if u == nil {
		return nil
	}
	return &llm.Usage{
		Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Output: u.Output, Reasoning: u.Reasoning, Estimated: u.GetEstimated(), Flaw: Clip(u.GetFlaw()),
		Doubt: Clip(u.GetDoubt()),
	}
}
