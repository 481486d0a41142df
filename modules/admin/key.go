package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func (a *API) createKey(r *http.Request) (any, error) {
	in, err := readJSON[NewKey](r)
	if err != nil {
		return nil, err
	}
	change, err := in.change(a.engine.Now())
	if err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), in.Account)
	if err != nil {
		return nil, err
	}
	key, text, err := CreateKey(r.Context(), a.engine, account, in.Name, change)
	if err != nil {
		return nil, err
	}
	v := viewKey(key, account.Name, a.engine.Now())
	v.Key = text
	return v, nil
}

// CreateKey makes a key of an account. Its text is returned here and stored nowhere.
func CreateKey(ctx context.Context, e *engine.Engine, account ledger.Account, name string,
	change ledger.KeyChange) (ledger.Key, string, error) {
	if err := checkName("key", name); err != nil {
		return ledger.Key{}, "", err
	}
	text, hash, err := ledger.NewKey(rand.Reader)
	if err != nil {
		return ledger.Key{}, "", err
	}
	key, err := e.Store().CreateKey(ctx, account.ID, name, hash, ledger.Last4(text), change)
	if errors.Is(err, ledger.ErrExists) {
		return key, "", problem(http.StatusConflict, "account %q has a key %q already: choose another name; a revoked key "+
			"keeps its name", account.Name, name)
	}
	if err != nil {
		return key, "", err
	}
	return key, text, nil
}

// KeyLimits is what can be set of a key, in requests; nil leaves it.
type KeyLimits struct {
	Expires         *string `json:"expires,omitempty"`           // RFC 3339, or "never"
	SpendCapCredits *int64  `json:"spend_cap_credits,omitempty"` // a period; 0: no cap
}

const Never = "never"

// change reads the limits.
func (l KeyLimits) change(now time.Time) (ledger.KeyChange, error) {
	var change ledger.KeyChange
	if l.Expires != nil && *l.Expires == Never {
		change.Expires = new(time.Time)
	} else if l.Expires != nil {
		t, err := time.Parse(time.RFC3339Nano, *l.Expires)
		if err != nil {
			return change, problem(http.StatusBadRequest,
				"expires %q: write a time as RFC 3339 has it, as in 2026-11-20T18:00:00Z, or %q", *l.Expires, Never)
		}
		if !t.After(now) {
			return change, problem(http.StatusBadRequest, "expires %s: that is in the past; to end a key now, revoke it",
				*l.Expires)
		}
		if !t.Before(ledger.MaxExpiry) {
			return change, problem(http.StatusBadRequest, "expires %s: a key expires before %s, or %q", *l.Expires,
				ledger.MaxExpiry.Format(time.DateOnly), Never)
		}
		change.Expires = new(t.UTC())
	}
	if l.SpendCapCredits != nil {
		if *l.SpendCapCredits < 0 || *l.SpendCapCredits > ledger.MaxBalance {
			return change, problem(http.StatusBadRequest, "spend_cap_credits %d: a cap is 1 to %d whole credits, and 0 is none",
				*l.SpendCapCredits, int64(ledger.MaxBalance))
		}
		change.SpendCap = new(*l.SpendCapCredits * ledger.MicrocentsPerCredit)
	}
	return change, nil
}

func (a *API) changeKey(r *http.Request) (any, error) {
	in, err := readJSON[KeyChange](r)
	if err != nil {
		return nil, err
	}
	change, err := in.change(a.engine.Now())
	if err != nil {
		return nil, err
	}
	if change.Name = in.Name; change == (ledger.KeyChange{}) {
		return nil, problem(http.StatusBadRequest, "nothing is to change: give a name, expires or spend_cap_credits")
	}
	if in.Name != nil {
		if err := checkName("key", *in.Name); err != nil {
			return nil, err
		}
	}
	id := r.PathValue("id")
	key, err := a.engine.Store().ChangeKey(r.Context(), id, change)
	if errors.Is(err, ledger.ErrExists) {
		return nil, problem(http.StatusConflict, "the account has a key %q already: choose another name; a revoked key "+
			"keeps its name", *in.Name)
	}
	if err != nil {
		return nil, keyError("changing the key", id, err)
	}
	return a.viewKey(r.Context(), key)
}

func (a *API) rotateKey(r *http.Request) (any, error) {
	in, err := readJSON[Rotation](r)
	if err != nil {
		return nil, err
	}
	overlap := time.Duration(in.OverlapSeconds) * time.Second
	if in.OverlapSeconds < 0 || in.OverlapSeconds > int64(maxOverlap/time.Second) {
		return nil, problem(http.StatusBadRequest, "overlap_seconds %d: the overlap is 0 to %d seconds (%s)",
			in.OverlapSeconds, int64(maxOverlap/time.Second), human.Span(maxOverlap))
	}
	text, hash, err := ledger.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	fresh, old, err := a.engine.Store().RotateKey(r.Context(), id, hash, ledger.Last4(text), overlap)
	if errors.Is(err, ledger.ErrInvalid) {
		return nil, problem(http.StatusBadRequest, "key %s has ended: only a key that works can be rotated; make a new one "+
			"with `fareway gateway key create`", id)
	}
	if err != nil {
		return nil, keyError("rotating the key", id, err)
	}
	v, err := a.viewKey(r.Context(), fresh)
	if err != nil {
		return nil, err
	}
	v.Key = text
	return Rotated{Key: v, Old: viewKey(old, v.Account, a.engine.Now())}, nil
}

// maxOverlap bounds how long a key goes on beside the one that replaces it.
const maxOverlap = 365 * 24 * time.Hour

func (a *API) revokeKey(r *http.Request) (any, error) {
	id := r.PathValue("id")
	key, err := a.engine.Store().RevokeKey(r.Context(), id)
	if err != nil {
		return nil, keyError("revoking the key", id, err)
	}
	return a.viewKey(r.Context(), key)
}

// viewKey is a key with the name of its account.
func (a *API) viewKey(ctx context.Context, key ledger.Key) (Key, error) {
	account, err := a.engine.Store().Account(ctx, key.Account)
	if err != nil {
		return Key{}, err
	}
	return viewKey(key, account.Name, a.engine.Now()), nil
}

// keyError says how to find the ids when there is no such key.
func keyError(doing, id string, err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return problem(http.StatusNotFound, "there is no key %q: `fareway gateway key list` shows all with their ids", id)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
