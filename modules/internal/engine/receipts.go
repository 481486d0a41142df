package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// receiptsEvery is how often the reconciler looks for attempts to ask about.
	receiptsEvery = 5 * time.Second
	// receiptBatch bounds the attempts of one question, and receiptBatches the questions of one provider in a row.
	receiptBatch   = 100
	receiptBatches = 20
	// receiptTimeout bounds one question. A provider that hangs delays the others by it, once for each of its pauses.
	receiptTimeout = 10 * time.Second
	// maxQuietPause is the longest pause while a provider answers and has nothing to say, and so the longest that a
	// fresh attempt waits for the first question; maxFailedPause the longest while it fails.
	maxQuietPause  = time.Minute
	maxFailedPause = 5 * time.Minute
	// maxRemembered bounds the attempts of a provider whose receipts are known to be no use.
	maxRemembered = 1000
)

// receiptLedger is where attempts wait for receipts.
type receiptLedger interface {
	Waiting(ctx context.Context, provider, after string, limit int) ([]ledger.Waiting, error)
	AddReceipt(ctx context.Context, attempt string, usage llm.Usage) (c ledger.Charge, applied bool, err error)
}

// reconciler asks providers what attempts have used that ended without proof, and charges what comes back
// (GAP-56). The ledger alone knows what waits, so that a restart or a reload forgets nothing; attempts of a
// provider that the configuration no longer has wait for it until receipt_age.
//
// A provider's waiting attempts are asked about from the oldest to the newest, a batch at a time: the next batch
// follows at once while receipts come, and at the next look otherwise. After the newest comes a pause, which
// grows as long as nothing comes.
type reconciler struct {
	ledger  receiptLedger
	acquire func() (*Generation, func()) // the current configuration
	metrics *Metrics
	log     *slog.Logger
	now     func() time.Time
	claim   claimer // of each provider's receipts: nodes may have different ones

	walks map[string]*walk // by provider; each is used by one goroutine at a time
}

// walk is how far the questions to one provider have come.
type walk struct {
	after    string // the last attempt asked about; "": begin with the oldest
	size     int    // attempts of the next question
	proved   bool   // a receipt has come since the oldest
	quiet    int    // walks to the newest without a receipt
	failures int    // questions in a row without an answer
	next     time.Time
	useless  map[string]bool // attempts whose receipts cannot be priced, and are in the log
}

// look asks all providers that it is time for, at the same time, and returns when they have answered. Its error
// is the ledger's: those of providers are theirs alone.
func (r *reconciler) look(ctx context.Context) error {
	g, release := r.acquire()
	defer release()
	if g == nil {
		return nil
	}
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		errs   []error
	)
	walks := make(map[string]*walk, len(g.backends))
	for name, backend := range g.backends {
		if !backend.GivesReceipts() {
			continue
		}
		w := r.walks[name]
		if w == nil {
			w = &walk{size: receiptBatch, useless: make(map[string]bool)}
		}
		walks[name] = w
		// A longer pause than there is means that the clock has been turned back.
		if wait := w.next.Sub(r.now()); !backend.Ready() || wait > 0 && wait <= maxFailedPause {
			continue
		}
		asking.Go(func() {
			ours, err := r.claim.isOurs(ctx, "receipts of "+name, receiptsEvery)
			if ours && err == nil {
				err = r.ask(ctx, name, backend, w)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	asking.Wait()
	r.walks = walks
	return errors.Join(errs...)
}

// ask goes on with a provider's walk.
func (r *reconciler) ask(ctx context.Context, provider string, b Backend, w *walk) error {
	for range receiptBatches {
		page, err := r.ledger.Waiting(ctx, provider, w.after, w.size)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			w.end(r.now())
			return nil
		}
		proved, failure, err := r.question(ctx, provider, b, page, w)
		if err != nil || ctx.Err() != nil {
			return err // the same page again at the next look
		}
		w.proved = w.proved || proved > 0
		last := len(page) < w.size
		// Also after a failure the next question is about others: one attempt that a provider stumbles over must
		// not keep the rest from theirs. Nor those of its own page: the pages become smaller.
		w.after = page[len(page)-1].Attempt
		if failure != nil {
			r.failed(provider, w, failure)
			return nil
		}
		r.answered(provider, w)
		if last {
			w.end(r.now())
			return nil
		}
		if proved == 0 {
			return nil
		}
	}
	return nil
}

// question asks about one page and records what comes back. failure is the provider's, err the ledger's.
func (r *reconciler) question(ctx context.Context, provider string, b Backend, page []ledger.Waiting,
	w *walk) (proved int, failure, err error) {
	routes := make(map[string]string, len(page))
	for i := range page {
		routes[page[i].Attempt] = page[i].Route
	}
	bounded, cancel := context.WithTimeout(ctx, receiptTimeout)
	receipts, failure := b.Receipts(bounded, page)
	cancel()
	for i := range receipts {
		receipt := &receipts[i]
		result, c, err := r.record(ctx, provider, receipt, w)
		if err != nil {
			return proved, failure, err
		}
		r.metrics.receipt(provider, result)
		if result == receiptCharged {
			proved++
			route := routes[receipt.Attempt]
			r.metrics.Tokens(route, &receipt.Usage)
			r.metrics.lateCost(route, receipt.Usage, r.now())
			r.metrics.Charged(route, c.Added)
			if c.OverAdded > 0 {
				r.metrics.Over(route, c.OverAdded)
				r.log.Warn("a receipt reports more than was held for its attempt: the rest is not charged and the operator's",
					"provider", provider, "attempt", receipt.Attempt, "route", route, "over_microcents", c.OverAdded)
			}
		}
	}
	return proved, failure, nil
}

// What came of a receipt, as the metric has it.
const (
	receiptCharged  = "charged"
	receiptRepeated = "repeated" // the attempt did not wait any more
	receiptEmpty    = "empty"    // it says nothing of the input or of the output
	receiptRefused  = "refused"  // its numbers make no sense: the ledger cannot price them
)

// record adds a receipt to the ledger, which sees to it that an attempt is charged once.
func (r *reconciler) record(ctx context.Context, provider string, receipt *host.Receipt, w *walk) (
	result string, c ledger.Charge, err error,
) {
	if !receipt.Usage.Complete() {
		if receipt.Usage.Known() && w.once(receipt.Attempt) { // it would give the other half away (GAP-111)
			r.log.Warn("a receipt says only half of what was used; the attempt goes on waiting",
				"provider", provider, "attempt", receipt.Attempt)
		}
		return receiptEmpty, c, nil
	}
	c, applied, err := r.ledger.AddReceipt(ctx, receipt.Attempt, receipt.Usage)
	switch {
	case err == nil && applied:
		return receiptCharged, c, nil
	case err == nil, errors.Is(err, ledger.ErrNotFound): // or closed and its detail removed while the provider was asked
		return receiptRepeated, c, nil
	case errors.Is(err, ledger.ErrUnavailable), ctx.Err() != nil:
		return "", c, err
	}
	if w.once(receipt.Attempt) {
		r.log.Error("a receipt cannot be charged; the attempt goes on waiting", "provider", provider, "attempt",
			receipt.Attempt, "error", err)
	}
	return receiptRefused, c, nil
}

// once reports whether nothing was said yet of a receipt of the attempt that is no use.
func (w *walk) once(attempt string) bool {
	if w.useless[attempt] {
		return false
	}
	if len(w.useless) >= maxRemembered {
		clear(w.useless)
	}
	w.useless[attempt] = true
	return true
}

// end is for when the newest attempt has been asked about, or none waits.
func (w *walk) end(now time.Time) {
	if w.proved || w.after == "" {
		w.quiet = 0
	} else {
		w.quiet++
	}
	w.after, w.proved = "", false
	w.next = now.Add(pause(w.quiet, maxQuietPause))
}

// failed notes a question without an answer, and says so once in a row of them.
func (r *reconciler) failed(provider string, w *walk, failure error) {
	w.size = max(w.size/2, 1)
	w.failures++
	w.next = r.now().Add(pause(w.failures, maxFailedPause))
	if w.failures == 1 {
		r.log.Warn("a provider does not give receipts; it is asked again, in growing intervals", "provider", provider,
			"error", failure)
	}
}

func (r *reconciler) answered(provider string, w *walk) {
	if w.failures > 0 {
		r.log.Info("a provider gives receipts again", "provider", provider)
	}
	w.failures, w.size = 0, min(2*w.size, receiptBatch)
}

// pause is nothing for n = 0 and else receiptsEvery, doubled for each further one, up to most.
func pause(n int, most time.Duration) time.Duration {
	if n == 0 {
		return 0
	}
	return min(receiptsEvery<<min(n-1, 16), most)
}
