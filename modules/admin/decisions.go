package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
)

// decisionsAPI is for what an operator has to decide about the ledger: what becomes of what the spool had and the
// ledger does not have, and whether it goes on without what it has lost.
type decisionsAPI struct {
	aside func() *engine.Aside
	books *booksAPI
	// acceptLoss is the engine's, or the store's without one.
	acceptLoss func(ctx context.Context, reason string) (ledger.Loss, error)
}

func (a *decisionsAPI) routes(change func(func(*http.Request) (any, error)) caddy.AdminHandler) []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "POST /fareway/ledger/accept-loss", Handler: change(a.handleAcceptLoss)},
		{Pattern: "POST /fareway/ledger/spool/{id}/apply", Handler: change(a.decide((*engine.Aside).Apply))},
		{Pattern: "POST /fareway/ledger/spool/{id}/discard", Handler: change(a.decide((*engine.Aside).Discard))},
	}
}

// decision is Apply or Discard.
type decision func(a *engine.Aside, ctx context.Context, id, reason string) (spool.Item, error)

func (a *decisionsAPI) decide(how decision) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		reason, err := readReason(r)
		if err != nil {
			return nil, err
		}
		id := r.PathValue("id")
		item, err := how(a.aside(), r.Context(), id, reason)
		switch {
		case errors.Is(err, spool.ErrUnknown):
			return nil, problem(http.StatusNotFound,
				"nothing was kept aside under the id %q: `fareway gateway ledger spool list --all` shows all", id)
		case errors.Is(err, spool.ErrDecided):
			return nil, problem(http.StatusConflict, "%w; nothing was changed", err)
		case errors.Is(err, ledger.ErrUnavailable) && !errors.Is(err, ledger.ErrLost):
			return nil, problem(http.StatusServiceUnavailable, "%w; it can be repeated as it is", err)
		case err != nil:
			return nil, err
		}
		state, _, err := a.books.spool()
		return a.books.viewAside(r.Context(), item, state.Aside), err
	}
}

// readReason reads why a decision is made.
func readReason(r *http.Request) (string, error) {
	in, err := readJSON[Decision](r)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(in.Reason) == "" {
		return "", problem(http.StatusBadRequest, "the reason is missing: a decision says why it was made")
	}
	return in.Reason, checkTexts("", in.Reason)
}

// handleAcceptLoss accepts what the ledger has lost.
func (a *decisionsAPI) handleAcceptLoss(r *http.Request) (any, error) {
	reason, err := readReason(r)
	if err != nil {
		return nil, err
	}
	loss, err := a.acceptLoss(r.Context(), reason)
	if errors.Is(err, ledger.ErrInvalid) {
		return nil, problem(http.StatusConflict, "nothing of the ledger is known to be missing: there is nothing to accept")
	}
	if err != nil {
		return nil, err
	}
	return AcceptedLoss{loss, loss.String()}, nil
}
