package exchange

import (
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// heldUpFrom is for how long a client keeps its reply waiting before the end of the time is its own doing: more than a
// busy machine does.
const heldUpFrom = time.Second

// clientHeldUp reports whether the client kept the current attempt waiting (GAP-112).
func (w *work) clientHeldUp() bool {
	return w.delivery.gaveUp() || w.current.reader != nil && time.Duration(w.current.reader.held.Load()) >= heldUpFrom
}

// estimateUnproven finds what an attempt is taken to have used which a limit of the service ended after text was
// delivered, and which proved nothing (GAP-113): about what its prompt has and what it delivered. Where no receipt can
// come, that is its usage; otherwise it is what the ledger falls back on.
func (w *work) estimateUnproven(f *failure) (fallback *llm.Usage) {
	a := w.current
	switch f.kind {
	case timeLimit, attemptTimeout:
	default:
		return nil
	}
	if !w.delivery.hasShown() || a.outcome == ledger.NotMade || a.proven() != nil {
		return nil
	}
	output, _ := a.output.Count()
	input := w.prompt.estimate()
	usage := a.countedUsage(&llm.Usage{Input: &input, Output: &output, Estimated: true})
	if w.gen.Backend(a.route.Provider).GivesReceipts() {
		return usage
	}
	a.usage = usage
	return nil
}

// noteStall tells the operator of a client that was given up.
func (t *transport) noteStall() {
	if t.delivery.gaveUp() {
		t.engine.Metrics().ClientStalled()
		t.engine.Logger().Info("a client took nothing for too long; its connection is broken", "request_id", t.call.ID,
			"account", t.call.Principal.Account.Name)
	}
}

// serviceLimit reports whether a limit of the service's own ended the request: the total time limit, the route's after
// text was delivered (GAP-113), or an output limit that was not the client's (GAP-54). Below it the client's own
// counts, raised or not. A client that kept its reply waiting has itself to thank for the end of the time (GAP-112).
func (w *work) serviceLimit(f *failure) bool {
	switch f.kind {
	case timeLimit:
		return !w.clientHeldUp()
	case attemptTimeout:
		return w.delivery.hasShown() && !w.clientHeldUp()
	case noVisibleText:
		own := w.req.LLM.MaxTokens
		return w.current.reply.finish == llm.FinishLength && (own == 0 || w.current.allowance < own)
	}
	return false
}
