package admin

import (
	"net/http"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func (b *booksAPI) entries(r *http.Request, emit func(any) error) error {
	q, err := b.query(r)
	if err != nil {
		return err
	}
	return b.books.Entries(r.Context(), q, func(e ledger.Entry) error { return emit(Entry{e, e.Hash()}) })
}

func (b *booksAPI) checkpoints(r *http.Request, emit func(any) error) error {
	return b.books.Checkpoints(r.Context(), func(c ledger.Checkpoint) error { return emit(c) })
}

func (b *booksAPI) audit(r *http.Request, emit func(any) error) error {
	q, err := b.query(r)
	if err != nil {
		return err
	}
	return b.books.Audit(r.Context(), q, func(a ledger.Act) error { return emit(viewAct(a)) })
}

func (a *API) makeCheckpoint(r *http.Request) (any, error) {
	return a.engine.Store().MakeCheckpoint(r.Context())
}

func (a *API) prune(r *http.Request) (any, error) {
	in, err := readJSON[Pruning](r)
	if err != nil {
		return nil, err
	}
	if in.Before.IsZero() || in.Before.After(a.engine.Now()) {
		return nil, problem(http.StatusBadRequest, "before %s: name a time in the past", in.Before.Format(time.RFC3339))
	}
	requests, err := a.engine.Store().Prune(r.Context(), in.Before)
	if err != nil {
		return nil, err
	}
	shrunk, err := a.engine.Store().Shrink(r.Context())
	if err != nil {
		return nil, err
	}
	return Pruned{Before: in.Before.UTC(), Requests: requests, FileBefore: shrunk.Before, File: shrunk.After,
		FreeAtStart: shrunk.Waits}, nil
}
