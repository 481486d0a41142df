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
)

// upkeep is the part of the ledger that asks for time by itself.
type upkeep interface {
	EndPeriods(ctx context.Context) (accounts int64, err error)
	CloseUnproven(ctx context.Context, before time.Time) (attempts int64, err error)
	MakeCheckpoint(ctx context.Context) (ledger.Checkpoint, error)
	Waiting(ctx context.Context, provider, after string, limit int) ([]ledger.Waiting, error)
}

// housekeeper keeps the ledger in order over time.
type housekeeper struct {
	ledger  upkeep
	borrow  func() (*Generation, func())
	metrics *Metrics
	log     *slog.Logger
	now     func() time.Time

	counted map[string]bool // providers whose attempts the metric has
}

func (h *housekeeper) chores() []*chore {
	return []*chore{
		{name: "ending periods", every: periodsEvery, do: h.endPeriods},
		{name: "closing unproven attempts", every: closeEvery, first: closeEvery, do: h.closeUnproven},
		{name: "recording a checkpoint of the ledger", every: checkpointEvery, first: checkpointEvery, do: h.makeCheckpoint},
		{name: "counting unproven attempts", every: unprovenEvery, do: h.countUnproven},
	}
}

func (h *housekeeper) endPeriods(ctx context.Context) error {
	_, err := h.ledger.EndPeriods(ctx)
	return err
}

// closeUnproven closes at zero what has waited for receipt_age (GAP-56).
func (h *housekeeper) closeUnproven(ctx context.Context) error {
	g, giveBack := h.borrow()
	defer giveBack()
	if g == nil {
		return nil
	}
	age := g.Config.Gateway.ReceiptAge
	closed, err := h.ledger.CloseUnproven(ctx, h.now().Add(-age))
	if closed > 0 {
		h.log.Warn("attempts are closed at zero, for no receipt came", "attempts", closed, "receipt_age", age)
	}
	return err
}

func (h *housekeeper) makeCheckpoint(ctx context.Context) error {
	_, err := h.ledger.MakeCheckpoint(ctx)
	return err
}

const (
	countPage = 1000
	// maxCounted bounds the work of counting; that many unproven attempts of a provider need a person in any case.
	maxCounted = 10 * countPage
)

// countUnproven shows how many attempts of each provider wait for a receipt.
func (h *housekeeper) countUnproven(ctx context.Context) error {
	g, giveBack := h.borrow()
	defer giveBack()
	if g == nil {
		return nil
	}
	counted := make(map[string]bool, len(g.Config.Providers))
	for _, p := range g.Config.Providers {
		after, n := "", 0
		for n < maxCounted {
			page, err := h.ledger.Waiting(ctx, p.Name, after, countPage)
			if err != nil {
				return err
			}
			n += len(page)
			if len(page) < countPage {
				break
			}
			after = page[len(page)-1].Attempt
		}
		h.metrics.setUnproven(p.Name, n)
		counted[p.Name] = true
	}
	for name := range h.counted {
		if !counted[name] {
			h.metrics.forgetUnproven(name)
		}
	}
	h.counted = counted
	return nil
}
