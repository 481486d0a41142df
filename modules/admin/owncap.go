package admin

import (
	"fmt"
	"net/http"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// maxOwnCap is the highest spend cap: the largest balance that the ledger counts.
const maxOwnCap = 1_000_000_000_000

// operatorCap is the spend cap of an account by its plan and what was set for it, in credits, without its owner's;
// 0: none.
func operatorCap(cfg *config.Config, a ledger.Account) int64 {
	a.Limits, _ = a.Limits.With(ledger.LimitOwnSpendCap, nil)
	return engine.PlanOf(cfg, a).SpendCapCredits
}

// setOwnCap sets the cap of an account's owner. By how the ledger takes it, it only lowers; a higher one is refused,
// for whoever sets it would take it for what holds.
func (a *API) setOwnCap(r *http.Request) (any, error) {
	in, err := readJSON[NewOwnCap](r)
	if err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	var value *int64
	if in.Credits != nil {
		if err := a.checkOwnCap(account, *in.Credits); err != nil {
			return nil, err
		}
		value = new(*in.Credits * ledger.MicrocentsPerCredit)
	}
	account, err = a.engine.Store().SetLimit(r.Context(), account.ID, ledger.LimitOwnSpendCap, value)
	if err != nil {
		return nil, fmt.Errorf("setting the cap of the account's owner: %w", err)
	}
	return a.books.view(account), nil
}

func (a *API) checkOwnCap(account ledger.Account, credits int64) error {
	if credits < 1 || credits > maxOwnCap {
		return problem(http.StatusBadRequest, "a cap of %d credits: it is 1 to %d, or none (to stop an account's requests, "+
			"revoke its keys)", credits, int64(maxOwnCap))
	}
	cfg := a.books.config()
	if cfg == nil {
		return nil
	}
	if most := operatorCap(cfg, account); most > 0 && credits >= most {
		return problem(http.StatusBadRequest, "a cap of %d credits: the operator's is %d, and an owner's is below it",
			credits, most)
	}
	return nil
}
