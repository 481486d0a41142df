package exchange

import (
	"context"
	"errors"
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

// noteReference keeps what the upstream of an attempt is asked by for its receipt, in the ledger too: after a crash of
// this process or of the provider's somebody else asks.
func (t *transport) noteReference(a *attempt, reference string) {
	if t.gen.Backend(a.route.Provider).GivesReceipts() {
		a.reference = reference
		t.engine.Ledger().Refer(a.id, reference)
	}
}

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
	type answer struct {
		usage *llm.Usage
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		usage, err := receiptOf(ctx, backend, ledger.Waiting{Attempt: a.id, Reference: a.reference, Key: a.key})
		answers <- answer{usage, err}
	}()
	select {
	case r := <-answers:
		a.usage = r.usage
		return r.err
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
