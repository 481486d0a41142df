package exchange

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// receiptWait is the longest that the end of a stream waits for what the reply used (GAP-57).
	receiptWait = 30 * time.Second
	// The pauses between two questions for a receipt: the first one, doubled each time up to the longest.
	firstReceiptPause = 50 * time.Millisecond
	maxReceiptPause   = 2 * time.Second
)

// awaitReceipt waits for what the current attempt used, whose reply is whole and which has not said: the end of a
// stream says that the charge is final. Only a provider that gives receipts is waited for, and only as long as
// somebody reads. The error is the provider's last one.
func (w *work) awaitReceipt() error {
	a := w.current
	backend := w.gen.Backend(a.route.Provider)
	if !backend.GivesReceipts() {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, receiptWait)
	defer cancel()
	var usage *llm.Usage
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		usage, err = receiptOf(ctx, backend, ledger.Waiting{Attempt: a.id, Reference: a.reference, Key: a.key})
	}()
	select {
	case <-answered:
		a.usage = usage
		return err
	case <-w.delivery.connectionBroken():
	case <-w.request.Context().Done():
		w.delivery.markGone() // what it gets must not look whole
	}
	return nil
}

// receiptOf asks for the receipt of an attempt until it is there or ctx ends.
func receiptOf(ctx context.Context, b engine.Backend, attempt ledger.Waiting) (*llm.Usage, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var last error
	for next := firstReceiptPause; ; next = min(2*next, maxReceiptPause) {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), last)
		}
		receipts, err := b.Receipts(ctx, []ledger.Waiting{attempt})
		for _, r := range receipts {
			if r.Usage.Complete() { // half of it is none (GAP-111)
				return &r.Usage, nil
			}
		}
		if ctx.Err() == nil {
			last = err
		}
		pause.Reset(next)
	}
}

// proveUsage makes sure of what the reply used. The end of a stream must not come before (GAP-57); usage that cannot
// be priced is no usage at all.
func (w *work) proveUsage() *failure {
	a := w.current
	var err error
	if w.req.Stream && !a.usage.Known() && !w.delivery.clientLeft() {
		err = w.awaitReceipt()
	}
	var f *failure
	switch {
	case a.proven() != nil:
		return nil
	case a.usage.Known():
		_, err = ledger.Cost(*a.usage, a.route.Price)
		f = &failure{kind: llm.ErrProtocol, err: err}
	case errors.Is(err, engine.ErrShutdown):
		f = interrupted(w.ctx)
	case w.req.Stream && !w.delivery.clientLeft():
		f = &failure{kind: noUsage, err: cmp.Or(err, errors.New(a.route.Unmetered()))}
	default:
		return nil
	}
	w.noteFailed(a, f)
	return f
}

// usageOfReply is what the reply says that it used: the work of all its steps (GAP-13).
func (w *work) usageOfReply() *llm.Usage {
	if !w.several {
		return w.current.usage
	}
	var sum llm.Usage
	for _, a := range w.attempts[w.from:] {
		if u := a.proven(); u != nil {
			sum = sum.Plus(u)
		}
	}
	return &sum
}

// results is what the settlement gets of the attempts, see attempt.result.
func (w *work) results(final bool) []ledger.Result {
	results := make([]ledger.Result, len(w.attempts))
	for i, a := range w.attempts {
		results[i] = a.result(final)
	}
	return results
}

// resultsOfFailure are those of a request that ended with f, with what its last attempt is taken to have used.
func (w *work) resultsOfFailure(f *failure) []ledger.Result {
	w.current.failure = cmp.Or(w.current.failure, f.kind)
	estimate := w.estimateUnproven(f)
	results := w.results(false)
	results[slices.Index(w.attempts, w.current)].Estimate = estimate
	return results
}

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
	limited := f.kind == timeLimit || f.kind == attemptTimeout
	if !limited || !w.delivery.hasShown() || a.outcome == ledger.NotMade || a.proven() != nil {
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
