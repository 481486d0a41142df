package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	// periodsEvery: an account whose period is over gets its credits at its next request; the others may wait.
	periodsEvery = time.Minute
	// closeEvery is also how long after the start attempts are closed first: whoever comes back after a long time
	// asks the providers before.
	closeEvery = time.Minute
	// checkpointEvery bounds what an attacker who rewrites the ledger can hide from whoever keeps checkpoints.
	checkpointEvery = 10 * time.Minute
	unprovenEvery   = 30 * time.Second
	// recoverEvery is how often a node looks for others whose lease has lapsed.
	recoverEvery = 5 * time.Second
	// claimFor is how much longer a chore is a node's than until it does it again.
	claimFor = 15 * time.Second
)

// claimer makes a chore this node's for a duration, where several nodes have the ledger; false where it is another's.
type claimer func(ctx context.Context, name string, d time.Duration) (bool, error)

// isOurs claims a chore that is done each so often. Without other nodes each is ours.
func (c claimer) isOurs(ctx context.Context, name string, every time.Duration) (bool, error) {
	if c == nil {
		return true, nil
	}
	return c(ctx, name, every+claimFor)
}

// once is a chore that one node does for all.
func (c claimer) once(of *chore) *chore {
	do := of.do
	of.do = func(ctx context.Context) error {
		ours, err := c.isOurs(ctx, of.name, of.every)
		if err != nil || !ours {
			return err
		}
		return do(ctx)
	}
	return of
}

// upkeep is the part of the ledger that asks for time by itself.
type upkeep interface {
	EndPeriods(ctx context.Context) (accounts int64, err error)
	CloseUnproven(ctx context.Context, before time.Time) (ledger.Closings, error)
	MakeCheckpoint(ctx context.Context) (ledger.Checkpoint, error)
	CountWaiting(ctx context.Context) (map[string]int64, error)
}

// housekeeper keeps the ledger in order over time.
type housekeeper struct {
	ledger  upkeep
	acquire func() (*Generation, func()) // the current configuration
	metrics *Metrics
	log     *slog.Logger
	now     func() time.Time
	claim   claimer

	counted map[string]int64 // providers whose attempts the metric has
}

func (h *housekeeper) chores() []*chore {
	return []*chore{
		h.claim.once(&chore{name: "ending periods", every: periodsEvery, do: h.endPeriods}),
		h.claim.once(&chore{name: "closing unproven attempts", every: closeEvery, first: closeEvery, do: h.closeUnproven}),
		h.claim.once(&chore{name: "recording a checkpoint of the ledger", every: checkpointEvery, first: checkpointEvery,
			do: h.makeCheckpoint}),
		{name: "counting unproven attempts", every: unprovenEvery, do: h.countUnproven},
	}
}

func (h *housekeeper) endPeriods(ctx context.Context) error {
	_, err := h.ledger.EndPeriods(ctx)
	return err
}

// closeUnproven closes at its estimate, or at zero, what has waited for receipt_age (GAP-56).
func (h *housekeeper) closeUnproven(ctx context.Context) error {
	g, release := h.acquire()
	defer release()
	if g == nil {
		return nil
	}
	age := g.Config.Gateway.ReceiptAge
	closed, err := h.ledger.CloseUnproven(ctx, h.now().Add(-age))
	var charged int64
	for route, microcents := range closed.Charged {
		h.metrics.Charged(route, microcents)
		charged += microcents
	}
	for route, microcents := range closed.Over {
		h.metrics.Over(route, microcents)
	}
	if closed.Attempts > 0 {
		h.log.Warn("attempts are closed at their estimates or at zero, for no receipt came",
			"attempts", closed.Attempts, "charged_microcents", charged, "receipt_age", age)
	}
	return err
}

func (h *housekeeper) makeCheckpoint(ctx context.Context) error {
	_, err := h.ledger.MakeCheckpoint(ctx)
	return err
}

// countUnproven shows how many attempts of each provider wait for a receipt: of those of the configuration, and of
// others for which some still do.
func (h *housekeeper) countUnproven(ctx context.Context) error {
	g, release := h.acquire()
	defer release()
	if g == nil {
		return nil
	}
	waiting, err := h.ledger.CountWaiting(ctx)
	if err != nil {
		return err
	}
	for _, p := range g.Config.Providers {
		waiting[p.Name] += 0
	}
	for name, attempts := range waiting {
		h.metrics.setUnproven(name, attempts)
	}
	for name := range h.counted {
		if _, ok := waiting[name]; !ok {
			h.metrics.forgetUnproven(name)
		}
	}
	h.counted = waiting
	return nil
}
