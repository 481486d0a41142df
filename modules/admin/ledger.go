package admin

import (
	"cmp"
	"net/http"
	"strconv"
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

// checkpoints lists all, the oldest first, or with limit so many, the newest first; before (a number) has the next page.
func (b *booksAPI) checkpoints(r *http.Request, emit func(any) error) error {
	q := r.URL.Query()
	if q.Has("limit") || q.Has("before") {
		limit, err := strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(usualLatest)))
		before, wrong := strconv.ParseInt(cmp.Or(q.Get("before"), "0"), 10, 64)
		if err != nil || wrong != nil || limit < 1 || limit > mostLatest || before < 0 {
			return problem(http.StatusBadRequest, "limit %q, before %q: limit is 1 to %d, before the number of a checkpoint",
				q.Get("limit"), q.Get("before"), mostLatest)
		}
		return b.books.LatestCheckpoints(r.Context(), before, limit, func(c ledger.Checkpoint) error { return emit(c) })
	}
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
