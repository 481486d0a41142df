package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// waitingRoom is a ledger in which attempts wait, in the order in which they came.
type waitingRoom struct {
	mu      sync.Mutex
	waiting map[string][]string // attempts by provider
	charged map[string]int
	down    error            // what every call returns
	refuse  map[string]error // what AddReceipt returns for an attempt
	closed  []time.Time      // the arguments of CloseUnproven
	ended   int              // calls of EndPeriods
	marked  int              // calls of MakeCheckpoint
}

func newWaitingRoom() *waitingRoom {
	return &waitingRoom{waiting: make(map[string][]string), charged: make(map[string]int), refuse: make(map[string]error)}
}

// enter lets n attempts of a provider wait.
func (r *waitingRoom) enter(provider string, n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for range n {
		ids = append(ids, ledger.AttemptID(fmt.Sprintf("req_%s_%06d", provider, len(r.charged)+len(r.waiting[provider])), 1))
		r.waiting[provider] = append(r.waiting[provider], ids[len(ids)-1])
	}
	return ids
}

func (r *waitingRoom) Waiting(_ context.Context, provider, after string, limit int) ([]ledger.Waiting, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down != nil {
		return nil, r.down
	}
	ids := r.waiting[provider] // sorted: enter counts
	begin, found := slices.BinarySearch(ids, after)
	if found {
		begin++
	}
	var page []ledger.Waiting
	for _, id := range ids[begin:min(begin+limit, len(ids))] {
		page = append(page, ledger.Waiting{Attempt: id, Route: "small", Reference: referenceOf(id)})
	}
	return page, nil
}

func (r *waitingRoom) CountWaiting(context.Context) (map[string]int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := make(map[string]int64)
	for provider, ids := range r.waiting {
		if len(ids) > 0 {
			n[provider] = int64(len(ids))
		}
	}
	return n, r.down
}

func (r *waitingRoom) AddReceipt(_ context.Context, attempt string, _ llm.Usage) (ledger.Charge, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.down, r.refuse[attempt]); err != nil {
		return ledger.Charge{}, false, err
	}
	for provider, ids := range r.waiting {
		if i, found := slices.BinarySearch(ids, attempt); found {
			r.waiting[provider] = slices.Delete(ids, i, i+1)
			r.charged[attempt]++
			return ledger.Charge{}, true, nil
		}
	}
	return ledger.Charge{}, false, nil
}

func (r *waitingRoom) CloseUnproven(_ context.Context, before time.Time) (ledger.Closings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = append(r.closed, before)
	return ledger.Closings{Attempts: 1, Charged: map[string]int64{"small": 7}, Over: map[string]int64{"large": 3}}, r.down
}

func (r *waitingRoom) EndPeriods(context.Context) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended++
	return 0, r.down
}

func (r *waitingRoom) MakeCheckpoint(context.Context) (ledger.Checkpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marked++
	return ledger.Checkpoint{}, r.down
}

// referenceOf is the reference of an attempt that waits.
func referenceOf(attempt string) string { return "gen-" + attempt }

// archive is a backend that gives receipts by references, and remembers what it was asked.
type archive struct {
	mu     sync.Mutex
	asked  [][]string
	answer func(ctx context.Context, attempts []string) ([]host.Receipt, error)
	silent bool // it gives no receipts at all
	away   bool
}

func (a *archive) Ready() bool                               { return !a.away }
func (a *archive) ProvesCancel(context.Context, string) bool { return false }
func (a *archive) GivesReceipts() bool                       { return !a.silent }

func (a *archive) Generate(context.Context, string, *llm.Request) (Stream, error) {
	return nil, llm.Errorf(llm.ErrUpstream, "only receipts here")
}

func (a *archive) Receipts(ctx context.Context, attempts []ledger.Waiting) ([]host.Receipt, error) {
	var ids []string
	for _, asked := range attempts {
		if asked.Reference == referenceOf(asked.Attempt) {
			ids = append(ids, asked.Attempt)
		}
	}
	a.mu.Lock()
	a.asked = append(a.asked, ids)
	a.mu.Unlock()
	return a.answer(ctx, ids)
}

func (a *archive) questions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

var _ Backend = (*archive)(nil)

// proof is a receipt for each attempt.
func proof(_ context.Context, attempts []string) ([]host.Receipt, error) {
	var out []host.Receipt
	for _, id := range attempts {
		out = append(out, host.Receipt{Attempt: id, Usage: llm.Usage{Input: llm.Count(10), Output: llm.Count(5)}})
	}
	return out, nil
}

func nothing(context.Context, []string) ([]host.Receipt, error) { return nil, nil }
