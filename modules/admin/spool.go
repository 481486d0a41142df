package admin

import (
	"context"
	"net/http"

	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
)

// listAside lists what the spool had and the ledger does not have; with ?all=true also what is decided.
func (b *booksAPI) listAside(r *http.Request, emit func(any) error) error {
	state, items, err := b.spool()
	if err != nil {
		return err
	}
	all := r.URL.Query().Get("all") == "true"
	for _, item := range append(items, state.Damaged...) {
		if item.Decision != nil && !all {
			continue
		}
		if err := emit(b.viewAside(r.Context(), item, state.Aside)); err != nil {
			return err
		}
	}
	return nil
}

// viewAside is an item with its account's name, where the ledger knows the account.
func (b *booksAPI) viewAside(ctx context.Context, item spool.Item, file string) Aside {
	v := newAsideView(item, file)
	if v.AccountID != "" {
		if account, err := b.books.Account(ctx, v.AccountID); err == nil {
			v.Account = account.Name
		}
	}
	return v
}

// verify recomputes the ledger, and looks beside it: money that waits for an operator is not in order. The body may
// be empty.
func (b *booksAPI) verify(r *http.Request, out *lineWriter) error {
	var in Verification
	if r.ContentLength != 0 {
		var err error
		if in, err = readJSON[Verification](r); err != nil {
			return err
		}
	}
	how := ledger.Verification{Kept: in.Checkpoints, From: in.From}
	if in.Progress {
		how.Progress = func(done, of int64) {
			// A client that is gone ends the verification by its context.
			if out.emit(VerifyLine{Done: done, Of: of}) == nil && out.flush() == nil {
				_ = out.control.Flush() // what cannot (a test's recorder) keeps it
			}
		}
	}
	report, err := b.books.VerifyAs(r.Context(), how)
	if err != nil {
		return err
	}
	v := b.besideReport(report)
	if in.Progress {
		return out.emit(VerifyLine{Verified: &v})
	}
	out.w.Header().Set("Content-Type", "application/json")
	return out.emit(v)
}

// besideReport adds what waits beside the ledger.
func (b *booksAPI) besideReport(report ledger.Report) Verified {
	v := Verified{Report: report}
	state, _, err := b.spool()
	v.Spool = viewSpool(state)
	switch {
	case !report.OK:
	case err != nil:
		v.OK, v.Entry, v.Problem = false, "spool", err.Error()
	case state.Wrong != nil:
		v.OK, v.Entry, v.Problem = false, "spool", state.Wrong.Error()
	case v.Spool.Undecided > 0:
		v.OK, v.Entry = false, "spool"
		v.Problem = human.Count(v.Spool.Undecided, "item") + " of " + v.Spool.Aside + " could not be applied or read; " +
			"an operator has to decide: `fareway gateway ledger spool list` shows what, `apply` and `discard` decide"
	}
	return v
}
