package gateway

import (
	"errors"
	"net/http"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// usage sums settled requests.
func (b *booksAPI) usage(r *http.Request, emit func(any) error) error {
	q, err := b.usageQuery(r)
	if err != nil {
		return err
	}
	return b.books.Usage(r.Context(), q, func(u ledger.UsageRow) error { return emit(viewUsage(u)) })
}

// request shows one request.
func (b *booksAPI) request(r *http.Request) (any, error) {
	record, err := b.record(r, r.PathValue("request"))
	if err != nil {
		return nil, err
	}
	v := viewRequest(record)
	account, err := b.books.Account(r.Context(), record.Account)
	if err != nil {
		return nil, err
	}
	v.Account = account.Name
	key, err := b.key(r.Context(), record.Account, record.Key)
	if err != nil {
		return nil, err
	}
	v.Key = key.Name
	return v, nil
}

func (b *booksAPI) record(r *http.Request, id string) (ledger.RequestRecord, error) {
	record, err := b.books.Request(r.Context(), id)
	if errors.Is(err, ledger.ErrNotFound) {
		return record, problem(http.StatusNotFound,
			"there is no request %q: its id is in the reply's X-Request-Id and in the access line; the detail of old requests may have been pruned, the journal still has their charges", id)
	}
	return record, err
}
