package engine

import (
	"context"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// Backend is a running provider, as an exchange sees it.
type Backend interface {
	// Ready reports whether it takes requests at the moment.
	Ready() bool
	// ProvesCancel reports whether it can prove usage of a model after a cancel (GAP-47). It may have to ask for that.
	ProvesCancel(ctx context.Context, model string) bool
	// GivesReceipts reports whether it can tell later what an attempt used: the attempt that ended without proof
	// is worth asking about (GAP-56).
	GivesReceipts() bool
	// Generate calls the upstream for a request of an account. Errors are *llm.Error.
	Generate(ctx context.Context, account string, req *llm.Request) (Stream, error)
	// Receipts asks what attempts have used, by their ids, references and keys. What it has no record of is left out.
	// Receipts count also beside an error, an *llm.Error; they may then be incomplete.
	Receipts(ctx context.Context, attempts []ledger.Waiting) ([]host.Receipt, error)
}

// Stream is the reply of one attempt.
type Stream interface {
	// Recv returns the next events, several when several were waiting. With the last ones, or after them, comes the
	// end: io.EOF behind EventFinish, otherwise an *llm.Error.
	Recv() ([]llm.Event, error)
	// Cancel asks a backend that proves usage after a cancel to stop; the stream goes on to its end.
	Cancel(ctx context.Context) error
	// Close abandons the stream; a Recv that waits returns. It may be called more than once.
	Close()
}

// refuser is a Backend that may know, before it is called, what the upstream of a model refuses.
type refuser interface {
	refuses(model, restriction string) bool
}

// hosted is a plugin as a Backend: calls are made in its process.
type hosted struct{ plugin *host.Plugin }

func (h hosted) Ready() bool     { return h.plugin.Ready() }
func (h hosted) info() host.Info { return h.plugin.Info() }
func (h hosted) ProvesCancel(ctx context.Context, model string) bool {
	return h.plugin.Proves(ctx, model)
}

func (h hosted) GivesReceipts() bool { return h.plugin.Capabilities().Receipts }

func (h hosted) Receipts(ctx context.Context, attempts []ledger.Waiting) ([]host.Receipt, error) {
	asked := make([]host.Attempt, len(attempts))
	for i, a := range attempts {
		asked[i] = host.Attempt{ID: a.Attempt, Reference: a.Reference}
	}
	return h.plugin.Receipts(ctx, asked)
}

func (h hosted) Generate(ctx context.Context, _ string, req *llm.Request) (Stream, error) {
	s, err := h.plugin.Generate(ctx, req)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// carried is a plugin that says where calls go, as a Backend: they are made in this process.
type carried struct{ hosted }

func (c carried) Ready() bool { return c.plugin.Carrying() }

func (c carried) refuses(model, restriction string) bool { return c.plugin.Refuses(model, restriction) }

func (c carried) Generate(ctx context.Context, _ string, req *llm.Request) (Stream, error) {
	s, err := c.plugin.Carry(ctx, req)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// backendOf is a plugin as a Backend, by what it can do and how the operator wants its traffic carried.
func backendOf(p *host.Plugin, carry config.Carry) Backend {
	if carry != config.CarryProcess && p.Carries() {
		return carried{hosted{p}}
	}
	return hosted{p}
}

var (
	_ Backend = hosted{}
	_ Backend = carried{}
	_ refuser = carried{}
	_ refuser = (*pool)(nil)
	_ Stream  = (*host.Stream)(nil)
	_ Stream  = (*host.Carried)(nil)
)
