package host

import (
	"context"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

// Attempt is an attempt whose receipt is wanted.
type Attempt struct {
	ID        string
	Reference string // what its llm.EventReference said, "" where none came
}

// Receipt proves what an attempt used.
type Receipt struct {
	Attempt string // its id
	Usage   llm.Usage
}

// CountTokens counts the prompt tokens of a request as the provider's upstream would. It needs the
// capability CountTokens. The error is an *llm.Error.
func (p *Plugin) CountTokens(ctx context.Context, req *llm.Request) (int64, error) {
	proc, err := p.lease()
	if err != nil {
		return 0, err
	}
	defer p.returned(proc)
	counted, err := proc.rpc.CountTokens(ctx, &proto.CountTokensRequest{Request: wire.RequestToProto(req)})
	if err != nil {
		return 0, p.unaryError(ctx, proc, err)
	}
	if f := proc.failure(counted.GetFailure()); f != nil {
		return 0, f
	}
	if counted.GetTokens() < 0 {
		return 0, p.countViolation(proc,
			llm.Errorf(llm.ErrProtocol, "provider %q counted a negative number of tokens", p.spec.Name))
	}
	return counted.GetTokens(), nil
}

// Receipts asks what earlier attempts used. It needs the capability Receipts. What the upstream has no
// record of is left out. The receipts count also when there is an error, an *llm.Error: they may then be
// incomplete. A plugin of before December 2026, which takes references by Attempted, is told of them first.
func (p *Plugin) Receipts(ctx context.Context, attempts []Attempt) ([]Receipt, error) {
	proc, err := p.lease()
	if err != nil {
		return nil, err
	}
	defer p.returned(proc)
	asked := make(map[string]bool, len(attempts))
	question := &proto.ReceiptsRequest{References: make(map[string]string)}
	var made []*proto.CarriedAttempt
	for _, a := range attempts {
		asked[a.ID] = true
		question.Attempts = append(question.Attempts, a.ID)
		if a.Reference != "" {
			question.References[a.ID] = a.Reference
			made = append(made, &proto.CarriedAttempt{Attempt: a.ID, ReplyId: a.Reference})
		}
	}
	if proc.about.GetCapabilities().GetAttempted() && len(made) > 0 {
		if _, err := proc.rpc.Attempted(ctx, &proto.AttemptedRequest{Attempts: made}); err != nil {
			return nil, p.unaryError(ctx, proc, err)
		}
	}
	answer, err := proc.rpc.Receipts(ctx, question)
	if err != nil {
		return nil, p.unaryError(ctx, proc, err)
	}
	var receipts []Receipt
	for _, r := range answer.GetReceipts() {
		usage := wire.UsageFromProto(r.GetUsage())
		if err := wire.CheckUsage(usage); err != nil {
			return receipts, p.countViolation(proc, err)
		}
		if !asked[r.GetAttempt()] {
			return receipts, p.countViolation(proc, llm.Errorf(llm.ErrProtocol,
				"provider %q sent a receipt that nobody asked for, or sent it twice", p.spec.Name))
		}
		delete(asked, r.GetAttempt())
		receipts = append(receipts, Receipt{Attempt: r.GetAttempt(), Usage: *usage})
	}
	if f := proc.failure(answer.GetFailure()); f != nil {
		return receipts, f
	}
	return receipts, nil
}

// Screen has the provider judge a request by what a model would read of it. It needs the capability Screen. The error
// is an *llm.Error.
func (p *Plugin) Screen(ctx context.Context, texts []llm.ScreenText) (llm.Verdict, error) {
	proc, err := p.lease()
	if err != nil {
		return llm.Verdict{}, err
	}
	defer p.returned(proc)
	answer, err := proc.rpc.Screen(ctx, &proto.ScreenRequest{Texts: wire.TextsToProto(texts)})
	if err != nil {
		return llm.Verdict{}, p.unaryError(ctx, proc, err)
	}
	if f := proc.failure(answer.GetFailure()); f != nil {
		return llm.Verdict{}, f
	}
	verdict := wire.VerdictFromProto(answer)
	if err := wire.CheckVerdict(verdict); err != nil {
		return llm.Verdict{}, p.countViolation(proc, err)
	}
	return verdict, nil
}

// Predict has the provider compare the routes of requests, and returns a prediction for each. It needs the capability
// Predict. The error is an *llm.Error.
func (p *Plugin) Predict(ctx context.Context, requests []llm.PredictRequest) ([]llm.Prediction, error) {
	proc, err := p.lease()
	if err != nil {
		return nil, err
	}
	defer p.returned(proc)
	answer, err := proc.rpc.Predict(ctx, wire.PredictRequestsToProto(requests))
	if err != nil {
		return nil, p.unaryError(ctx, proc, err)
	}
	if f := proc.failure(answer.GetFailure()); f != nil {
		return nil, f
	}
	predictions := wire.PredictionsFromProto(answer)
	if err := wire.CheckPredictions(requests, predictions); err != nil {
		return nil, p.countViolation(proc, err)
	}
	return predictions, nil
}

// countViolation counts an answer that cannot be one.
func (p *Plugin) countViolation(proc *process, err error) error {
	p.violated(proc, ViolationAnswer, err)
	return err
}

// Models lists what the provider's upstream offers. It needs the capability Models. The models count also when there
// is an error, an *llm.Error.
func (p *Plugin) Models(ctx context.Context) ([]llm.Model, error) {
	proc, err := p.lease()
	if err != nil {
		return nil, err
	}
	defer p.returned(proc)
	answer, err := proc.rpc.Models(ctx, &proto.ModelsRequest{})
	if err != nil {
		return nil, p.unaryError(ctx, proc, err)
	}
	models := wire.ModelsFromProto(answer.GetModels())
	if f := proc.failure(answer.GetFailure()); f != nil {
		return models, f
	}
	return models, nil
}

// unaryError is the error of a call that did not come back.
func (p *Plugin) unaryError(ctx context.Context, proc *process, err error) error {
	switch {
	case timedOut(ctx, err):
		err := llm.Errorf(llm.ErrUpstream, "provider %q did not answer in time", p.spec.Name)
		p.violated(proc, ViolationLate, err)
		return err
	case ctx.Err() != nil:
		return llm.Errorf(llm.ErrCanceled, "the caller left")
	}
	return p.callFailure(proc, err)
}
