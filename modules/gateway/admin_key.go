package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func (a *AdminAPI) createKey(r *http.Request) (any, error) {
	in, err := readJSON[newKey](r)
	if err != nil {
		return nil, err
	}
	account, err := a.account(r.Context(), in.Account)
	if err != nil {
		return nil, err
	}
	key, text, err := createKey(r.Context(), a.engine, account, in.Name)
	if err != nil {
		return nil, err
	}
	v := viewKey(key, account.Name)
	v.Key = text
	return v, nil
}

// createKey makes a key of an account. Its text is returned here and stored nowhere.
func createKey(ctx context.Context, e *engine.Engine, account ledger.Account, name string) (ledger.Key, string, error) {
	if err := checkName("key", name); err != nil {
		return ledger.Key{}, "", err
	}
	text, hash, err := ledger.NewKey(rand.Reader)
	if err != nil {
		return ledger.Key{}, "", err
	}
	key, err := e.Store().CreateKey(ctx, account.ID, name, hash, ledger.Last4(text))
	if errors.Is(err, ledger.ErrExists) {
		return key, "", problem(http.StatusConflict, "account %q has a key %q already: choose another name; a revoked key keeps its name", account.Name, name)
	}
	if err != nil {
		return key, "", err
	}
	e.ForgetKeys()
	return key, text, nil
}

func (a *AdminAPI) listKeys(r *http.Request) (any, error) {
	var id string
	if name := r.URL.Query().Get("account"); name != "" {
		account, err := a.account(r.Context(), name)
		if err != nil {
			return nil, err
		}
		id = account.ID
	}
	keys, err := a.engine.Store().Keys(r.Context(), id)
	if err != nil {
		return nil, err
	}
	accounts, err := a.engine.Store().Accounts(r.Context())
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(accounts))
	for _, account := range accounts {
		names[account.ID] = account.Name
	}
	views := make([]keyView, len(keys))
	for i, key := range keys {
		views[i] = viewKey(key, names[key.Account])
	}
	return views, nil
}

func (a *AdminAPI) revokeKey(r *http.Request) (any, error) {
	id := r.PathValue("id")
	key, err := a.engine.Store().RevokeKey(r.Context(), id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, problem(http.StatusNotFound, "there is no key %q: `fareway gateway key list` shows all with their ids", id)
	}
	if err != nil {
		return nil, fmt.Errorf("revoking the key: %w", err)
	}
	a.engine.ForgetKeys()
	account, err := a.engine.Store().Account(r.Context(), key.Account)
	if err != nil {
		return nil, err
	}
	return viewKey(key, account.Name), nil
}
