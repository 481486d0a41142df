package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
)

// Backlog is what a log has that the ledger's file does not have.
type Backlog struct {
	Settlements int64
	Since       time.Time // when the first of them was decided: the file has all that was settled before
	Wrong       error     // about one that does not come to what it says; nil: all do
}

// MeasureBacklog finds which records of a log wait to be taken up into a ledger, and recomputes them.
func MeasureBacklog(ctx context.Context, books ledger.Books, records []spool.Record) (w Backlog, err error) {
	for i := range records {
		r := &records[i]
		isSettled, err := isOnRecord(ctx, books, r.Settlement.Request)
		if err != nil {
			return w, err
		}
		if isSettled {
			continue
		}
		w.Settlements++
		if w.Since.IsZero() || r.Time.Before(w.Since) {
			w.Since = r.Time
		}
		if _, _, err := CourseOf(r); err != nil && w.Wrong == nil {
			w.Wrong = fmt.Errorf("the settlement of request %q: %w", r.Settlement.Request, err)
		}
	}
	return w, nil
}

// isOnRecord reports whether a request is settled, whether or not its record was removed since.
func isOnRecord(ctx context.Context, books ledger.Books, id string) (bool, error) {
	r, err := books.Request(ctx, id)
	if !errors.Is(err, ledger.ErrNotFound) {
		return err == nil && !r.Running, err
	}
	_, err = books.Pruned(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
