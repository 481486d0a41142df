package admin

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/modules/internal/spool"
)

// booksAPI is the half of the admin API that only reads the ledger. It needs no engine: a command serves it to
// itself from the database file when no gateway runs.
type booksAPI struct {
	books ledger.Books
	now   func() time.Time
	// config is what runs, or would; nil when that is not known.
	config func() *config.Config
	// spool is the state of the spool beside the ledger, and what was kept aside of it.
	spool func() (engine.SpoolState, []spool.Item, error)
	// logged finds a request that the ledger has nothing about, or requestlog.ErrNotFound.
	logged func(ctx context.Context, id string) (requestlog.Record, error)
	// failure is why an attempt failed, "" where nobody remembers.
	failure func(ctx context.Context, attempt string) string
}

func (b *booksAPI) routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "GET /fareway/accounts", Handler: list(b.listAccounts)},
		{Pattern: "GET /fareway/accounts/{name}", Handler: reply(b.showAccount)},
		{Pattern: "GET /fareway/accounts/{name}/statement", Handler: reply(b.statement)},
		{Pattern: "GET /fareway/plans", Handler: reply(b.accountPlans)},
		{Pattern: "GET /fareway/keys", Handler: list(b.listKeys)},
		{Pattern: "GET /fareway/keys/{id}", Handler: reply(b.showKey)},
		{Pattern: "GET /fareway/usage", Handler: list(b.usage)},
		{Pattern: "GET /fareway/usage/{request}", Handler: reply(b.request)},
		{Pattern: "GET /fareway/ledger/pruned", Handler: reply(b.prunedBefore)},
		{Pattern: "GET /fareway/ledger/entries", Handler: list(b.entries)},
		{Pattern: "GET /fareway/ledger/latest", Handler: reply(b.latest)},
		{Pattern: "GET /fareway/ledger/checkpoints", Handler: list(b.checkpoints)},
		{Pattern: "GET /fareway/ledger/audit", Handler: list(b.audit)},
		{Pattern: "GET /fareway/ledger/spool", Handler: list(b.listAside)},
		{Pattern: "POST /fareway/ledger/verify", Handler: lines(b.verify)},
	}
}

// listAccounts reads what narrows it: search (a name or an id), plan (a name, "none" for those on none, as setPlan has
// it), after (an id: those that were made after that one) and limit.
func (b *booksAPI) listAccounts(r *http.Request, emit func(any) error) error {
	q := r.URL.Query()
	if name := q.Get("search"); name != "" {
		account, err := b.books.Account(r.Context(), name)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return emit(b.view(account))
	}
	most, err := readMost(r)
	if err != nil {
		return err
	}
	after, each := q.Get("after"), upTo(most, func(a ledger.Account) error { return emit(b.view(a)) })
	if q.Has("plan") {
		on, all := b.planNamed(q.Get("plan")), each
		each = func(a ledger.Account) error {
			if a.Plan != on {
				return nil
			}
			return all(a)
		}
	}
	err = b.books.Accounts(r.Context(), after, each)
	if errors.Is(err, ledger.ErrNotFound) {
		return problem(http.StatusBadRequest, "after %q: it is the id of the last account of the page before", after)
	}
	return ignoreFound(err)
}

// readMost reads how much a list has at most.
func readMost(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return math.MaxInt, nil
	}
	most, err := strconv.Atoi(text)
	if err != nil || most < 1 {
		return 0, problem(http.StatusBadRequest, "limit %q: write how many are listed at most, as in 100", text)
	}
	return most, nil
}

// upTo is each for so many, and then ends the list with errFound.
func upTo[T any](most int, each func(T) error) func(T) error {
	return func(v T) error {
		if most == 0 {
			return errFound
		}
		most--
		return each(v)
	}
}

func ignoreFound(err error) error {
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

func (b *booksAPI) showAccount(r *http.Request) (any, error) {
	account, err := b.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return b.view(account), nil
}

// view is an account with what holds for it.
func (b *booksAPI) view(a ledger.Account) Account {
	v := viewAccount(a)
	cfg := b.config()
	v.Requires = requiresOf(cfg, a)
	if cfg != nil {
		v.Limits = viewLimits(cfg, a)
	}
	return v
}

// account finds an account by name or id.
func (b *booksAPI) account(ctx context.Context, name string) (ledger.Account, error) {
	if name == "" {
		return ledger.Account{}, problem(http.StatusBadRequest, "the account is missing")
	}
	account, err := b.books.Account(ctx, name)
	if errors.Is(err, ledger.ErrNotFound) {
		return account, problem(http.StatusNotFound, "there is no account %q: `fareway gateway account list` shows all", name)
	}
	return account, err
}

// listKeys reads what narrows it: account, after (an id: those behind that one), newest (1: the newest first) and
// limit.
func (b *booksAPI) listKeys(r *http.Request, emit func(any) error) error {
	v := r.URL.Query()
	q := ledger.KeyQuery{After: v.Get("after"), Newest: v.Get("newest") == "1"}
	if name := v.Get("account"); name != "" {
		account, err := b.account(r.Context(), name)
		if err != nil {
			return err
		}
		q.Account = account.ID
	}
	most, err := readMost(r)
	if err != nil {
		return err
	}
	err = b.books.Keys(r.Context(), q, upTo(most, func(k ledger.Key) error {
		return emit(viewKey(k, k.AccountName, b.now()))
	}))
	if errors.Is(err, ledger.ErrNotFound) && q.After != "" {
		return problem(http.StatusBadRequest, "after %q: it is the id of the last key of the page before", q.After)
	}
	return ignoreFound(err)
}

// showKey finds a key by its id, or by its name where the account is given.
func (b *booksAPI) showKey(r *http.Request) (any, error) {
	account := ""
	if name := r.URL.Query().Get("account"); name != "" {
		is, err := b.account(r.Context(), name)
		if err != nil {
			return nil, err
		}
		account = is.ID
	}
	key, err := b.key(r.Context(), account, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return viewKey(key, key.AccountName, b.now()), nil
}

// errFound ends a list when what was looked for has come.
var errFound = errors.New("found")

// key finds a key by its id or, in an account (an id, "" for all), by its name.
func (b *booksAPI) key(ctx context.Context, account, name string) (ledger.Key, error) {
	var found ledger.Key
	err := b.books.Keys(ctx, ledger.KeyQuery{Account: account, Named: name}, func(k ledger.Key) error {
		found = k
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return found, nil
	case err != nil:
		return found, err
	case account == "":
		return found, problem(http.StatusNotFound, "there is no key with the id %q: `fareway gateway key list` shows all; "+
			"with an account, the key's name will do", name)
	}
	return found, problem(http.StatusNotFound, "the account has no key %q: `fareway gateway key list --account NAME` "+
		"shows them", name)
}
