package verify

import (
	"context"
	"strings"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// performRest makes the checks again that the deployment gave no way to see, on a gateway of the run's own whose
// model does as it is told. Where that shows something, it takes the place of the finding.
func performRest(ctx context.Context, findings []finding) error {
	var unseen []*finding
	var checks []opsCheck
	for i := range findings {
		f := &findings[i]
		if f.status != Pending {
			continue
		}
		unseen = append(unseen, f)
		checks = append(checks, opsCheck{strings.Join(f.check.IDs, " "), f.check.Does, standardGate, func(o *ops) {
			o.answersBy(obliging)
			o.Notef("seen on a gateway of the run's own, for at the deployment %s", f.detail)
			f.check.Run(o.T)
		}})
	}
	if len(checks) == 0 {
		return nil
	}
	found, err := performOn(ctx, standardGate, checks)
	if err != nil {
		return err
	}
	for i := range unseen { // the last finding is of the gateway's ledger
		if f := found[i]; f.status != Pending {
			*unseen[i] = f
		}
	}
	return nil
}

// obliging is a model that calls the tool it is offered, says what it is told, and reports so much usage that some
// requests fill a whole credit and some do not.
func obliging(r *upstream.Request) upstream.Reply {
	used := upstream.ReportTokens(upstream.Usage{Prompt: 1000, Completion: 300})
	reply := upstream.Answer(r)
	if len(r.Tools) > 0 && r.Messages[len(r.Messages)-1].Role != "tool" {
		reply = upstream.Call("call_1", r.Tools[0].Name, `{"city":"Oslo"}`)
	}
	for i, s := range reply.Steps {
		if s.Do == upstream.StepUsage {
			reply.Steps[i] = used
		}
	}
	return reply
}
