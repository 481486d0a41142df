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
func (x *exchange) clientHeldUp() bool {
	return x.delivery.gaveUp() || x.current.reader != nil && time.Duration(x.current.reader.held.Load()) >= heldUpFrom
}

// estimateUnproven finds what an attempt is taken to have used which a limit of the service ended after text was
// delivered, and which proved nothing (GAP-113): about what its prompt has and what it delivered. Where no receipt can
// come, that is its usage; otherwise it is what the ledger falls back on.
func (x *exchange) estimateUnproven(f *failure) (fallback *llm.Usage) {
	a := x.current
	switch f.kind {
	case timeLimit, attemptTimeout:
	default:
		return nil
	}
	if !x.delivery.shown || a.outcome == ledger.NotMade || a.proven() != nil {
		return nil
	}
	output, _ := a.output.Count()
	input := x.estimate()
	usage := a.countedUsage(&llm.Usage{Input: &input, Output: &output, Estimated: true})
	if x.gen.Backend(a.route.Provider).GivesReceipts() {
		return usage
	}
	a.usage = usage
	return nil
}

// noteStall tells the operator of a client that was given up.
func (x *exchange) noteStall() {
	if x.delivery.gaveUp() {
		x.engine.Metrics().ClientStalled()
		x.engine.Logger().Info("a client took nothing for too long; its connection is broken", "request_id", x.call.ID,
			"account", x.call.Principal.Account.Name)
	}
}
