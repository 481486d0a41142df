package gateway

import (
	"net/http"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// maxText bounds a reference or a reason, in bytes: both are for people.
const maxText = 200

func (a *AdminAPI) addCredit(r *http.Request) (any, error) {
	in, err := readJSON[newCredit](r)
	if err != nil {
		return nil, err
	}
	if in.Credits < 1 || in.Credits > ledger.MaxTopUp {
		return nil, problem(http.StatusBadRequest, "credits %d: a top-up is 1 to %d whole credits", in.Credits, int64(ledger.MaxTopUp))
	}
	if len(in.Reference) > maxText || len(in.Reason) > maxText {
		return nil, problem(http.StatusBadRequest, "a reference and a reason have at most %d bytes", maxText)
	}
	account, err := a.account(r.Context(), in.Account)
	if err != nil {
		return nil, err
	}
	balance, applied, err := a.engine.Store().AddCredit(r.Context(), ledger.Credit{
		Account: account.ID, Credits: in.Credits, Reference: in.Reference, Reason: in.Reason,
	})
	if err != nil {
		return nil, err
	}
	return creditView{
		Account: account.Name, Credits: in.Credits, Reference: in.Reference, Applied: applied,
		BalanceCredits: balance.Credits, AvailableCredits: balance.Available(),
	}, nil
}
