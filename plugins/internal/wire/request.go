package wire

import (
	"math"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// RequestToProto translates a request. The result shares the request's strings and schemas.
func RequestToProto(r *llm.Request) *proto.GenerateRequest {
	out := &proto.GenerateRequest{
		Attempt:       r.Attempt,
		Model:         r.Model,
		MaxTokens:     r.MaxTokens,
		Temperature:   r.Temperature,
		Stop:          r.Stop,
		Unsupported:   r.Unsupported,
		EstimateUsage: r.EstimateUsage,

		BillsPastAllowance: r.BillsPastAllowance,
		Whole:              r.Whole,
		States:             r.States,
		Window:             r.Window,
	}
	for _, m := range r.Messages {
		out.Messages = append(out.Messages, messageToProto(m))
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, &proto.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema,
			Strict: t.Strict})
	}
	if r.ToolChoice != (llm.ToolChoice{}) {
		out.ToolChoice = &proto.ToolChoice{Mode: string(r.ToolChoice.Mode), Name: r.ToolChoice.Name}
	}
	if f := r.Format; f != nil {
		out.Format = &proto.Format{
			Kind: string(f.Kind), Name: f.Name, Description: f.Description, Schema: f.Schema, Strict: f.Strict,
		}
	}
	return out
}

func messageToProto(m llm.Message) *proto.Message {
	out := &proto.Message{Role: string(m.Role), CallId: m.CallID, IsError: m.IsError, Changing: uint32(m.Changing)}
	for _, p := range m.Parts {
		if c := p.Call; c != nil {
			out.Parts = append(out.Parts, &proto.Part{Kind: &proto.Part_Call{
				Call: &proto.PastToolCall{Id: c.ID, Name: c.Name, Arguments: c.Arguments.String()},
			}})
			continue
		}
		out.Parts = append(out.Parts, &proto.Part{Kind: &proto.Part_Text{Text: p.Text.String()}})
	}
	return out
}

// RequestFromProto translates a request back. A part of a kind that this version does not know is left out.
func RequestFromProto(r *proto.GenerateRequest) *llm.Request {
	out := &llm.Request{
		Attempt:       r.GetAttempt(),
		Model:         r.GetModel(),
		MaxTokens:     r.GetMaxTokens(),
		Temperature:   r.Temperature,
		Stop:          r.GetStop(),
		Unsupported:   r.GetUnsupported(),
		EstimateUsage: r.GetEstimateUsage(),

		BillsPastAllowance: r.GetBillsPastAllowance(),
		Whole:              r.GetWhole(),
		States:             r.GetStates(),
		Window:             r.GetWindow(),
		ToolChoice: llm.ToolChoice{
			Mode: llm.ToolMode(r.GetToolChoice().GetMode()),
			Name: r.GetToolChoice().GetName(),
		},
	}
	for _, m := range r.GetMessages() {
		out.Messages = append(out.Messages, messageFromProto(m))
	}
	for _, t := range r.GetTools() {
		out.Tools = append(out.Tools, llm.Tool{Name: t.GetName(), Description: t.GetDescription(), Schema: t.GetSchema(),
			Strict: t.GetStrict()})
	}
	if f := r.GetFormat(); f != nil {
		out.Format = &llm.Format{
			Kind: llm.FormatKind(f.GetKind()), Name: f.GetName(), Description: f.GetDescription(),
			Schema: f.GetSchema(), Strict: f.Strict,
		}
	}
	return out
}

func messageFromProto(m *proto.Message) llm.Message {
	out := llm.Message{Role: llm.Role(m.GetRole()), CallID: m.GetCallId(), IsError: m.GetIsError(),
		Changing: changing(uint64(m.GetChanging()))}
	for _, p := range m.GetParts() {
		switch kind := p.GetKind().(type) {
		case *proto.Part_Text:
			out.Parts = append(out.Parts, llm.Text(kind.Text))
		case *proto.Part_Quoted:
			out.Parts = append(out.Parts, llm.Part{Text: llm.Quoted(kind.Quoted)})
		case *proto.Part_Call:
			call := &llm.ToolCall{
				ID: kind.Call.GetId(), Name: kind.Call.GetName(), Arguments: llm.Plain(kind.Call.GetArguments()),
			}
			if quoted := kind.Call.GetQuotedArguments(); quoted != "" {
				call.Arguments = llm.Quoted(quoted)
			}
			out.Parts = append(out.Parts, llm.Part{Call: call})
		}
	}
	return out
}

// changing is a count of lines, which nobody believes that is absurd.
func changing(n uint64) uint16 { return uint16(min(n, math.MaxUint16)) }
