package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/requestlog"
)

// usage sums settled requests.
func (b *booksAPI) usage(r *http.Request, emit func(any) error) error {
	q, err := b.usageQuery(r)
	if err != nil {
		return err
	}
	return b.books.Usage(r.Context(), q, func(u ledger.UsageRow) error { return emit(viewUsage(u)) })
}

// request shows one request: what the ledger has of it or, where that has nothing, the request log.
func (b *booksAPI) request(r *http.Request) (any, error) {
	id := r.PathValue("request")
	record, err := b.books.Request(r.Context(), id)
	v := ViewRequest(record)
	for i := range v.Attempts {
		v.Attempts[i].Failure = b.failure(r.Context(), v.Attempts[i].ID)
	}
	if errors.Is(err, ledger.ErrNotFound) {
		var logged requestlog.Record
		logged, err = b.logged(r.Context(), id)
		if v = viewLogged(logged); errors.Is(err, requestlog.ErrNotFound) {
			return nil, b.missing(r.Context(), id, "and with it its routes, tokens, prices and key", "")
		}
	}
	if err == nil {
		err = b.nameOwner(r.Context(), &v)
	}
	if err == nil {
		err = b.addShadow(r.Context(), &v)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// addShadow adds the call that was made beside a request for comparison, if there was one.
func (b *booksAPI) addShadow(ctx context.Context, v *Request) error {
	record, err := b.books.Request(ctx, ledger.ShadowID(v.ID))
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	shadow := ViewRequest(record)
	shadow.Account, shadow.Key = v.Account, v.Key
	v.Shadow = &shadow
	return err
}

// nameOwner adds the names of a request's account and key, if they are known.
func (b *booksAPI) nameOwner(ctx context.Context, v *Request) error {
	if v.AccountID == "" {
		return nil
	}
	account, err := b.books.Account(ctx, v.AccountID)
	if err != nil {
		return err
	}
	key, err := b.key(ctx, v.AccountID, v.KeyID)
	if err != nil {
		return err
	}
	v.Account, v.Key = account.Name, key.Name
	return nil
}

// missing says of a request that the ledger does not have that it was pruned, or that there is none.
func (b *booksAPI) missing(ctx context.Context, id, gone, instead string) error {
	if err := b.prunedProblem(ctx, id, gone, instead); err != nil {
		return err
	}
	return problem(http.StatusNotFound, "there is no request %q: its id is in the reply's X-Request-Id and in the access "+
		"line; requests that were refused are found for request_log, on the node that refused them", id)
}

// refundable is the record of a request whose charge is to be given back.
func (b *booksAPI) refundable(r *http.Request, id string) (ledger.RequestRecord, error) {
	record, err := b.books.Request(r.Context(), id)
	if errors.Is(err, ledger.ErrNotFound) {
		return record, b.missing(r.Context(), id, "so that it cannot be refunded",
			"`fareway gateway credit adjust` corrects the account's balance")
	}
	return record, err
}
