package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// maxText bounds a reference or a reason, in bytes: both are for people.
const maxText = 200

func checkTexts(reference, reason string) error {
	for _, text := range [...]string{reference, reason} {
		if len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl) {
			return problem(http.StatusBadRequest, "a reference and a reason are each one line of at most %d bytes, without "+
				"tabs and the like", maxText)
		}
	}
	return nil
}

func (a *API) addCredit(r *http.Request) (any, error) {
	in, err := readJSON[NewCredit](r)
	if err != nil {
		return nil, err
	}
	if in.Credits < 1 || in.Credits > ledger.MaxTopUp {
		return nil, problem(http.StatusBadRequest, "credits %s: a top-up is 1 to %s whole credits; `fareway gateway credit "+
			"adjust` takes credits away",
			human.Thousands(in.Credits), human.Thousands(ledger.MaxTopUp))
	}
	if err := checkTexts(in.Reference, in.Reason); err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), in.Account)
	if err != nil {
		return nil, err
	}
	balance, applied, err := a.engine.Store().AddCredit(r.Context(), ledger.Credit{
		Account: account.ID, Credits: in.Credits, Reference: in.Reference, Reason: in.Reason,
	})
	if err != nil {
		return nil, uncertain(err, account.Name, in.Reference)
	}
	return Credit{
		Account: account.Name, Credits: in.Credits, Reference: in.Reference, Applied: applied,
		BalanceCredits: balance.Credits, AvailableCredits: balance.Available(), AccruedMicrocents: balance.Accrued,
	}, nil
}

// maxAdjustment bounds an adjustment on both sides, in microcents.
const maxAdjustment = ledger.MaxTopUp * ledger.MicrocentsPerCredit

func (a *API) adjust(r *http.Request) (any, error) {
	in, err := readJSON[NewAdjustment](r)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Microcents == 0 || in.Microcents < -maxAdjustment || in.Microcents > maxAdjustment:
		return nil, problem(http.StatusBadRequest, "an adjustment of %s: it is at most %s, up or down, and not 0",
			human.Amount(in.Microcents), human.Count(int64(ledger.MaxTopUp), "credit"))
	case strings.TrimSpace(in.Reason) == "":
		return nil, problem(http.StatusBadRequest, "the reason is missing: an adjustment says why it was made")
	}
	if err := checkTexts(in.Reference, in.Reason); err != nil {
		return nil, err
	}
	account, err := a.books.account(r.Context(), in.Account)
	if err != nil {
		return nil, err
	}
	balance, applied, err := a.engine.Store().Correct(r.Context(), ledger.Correction{
		Account: account.ID, Microcents: in.Microcents, Reference: in.Reference, Reason: in.Reason,
	})
	if err != nil {
		return nil, uncertain(err, account.Name, in.Reference)
	}
	return viewCorrection(account.Name, "", in.Microcents, in.Reference, applied, balance), nil
}

func (a *API) refund(r *http.Request) (any, error) {
	in, err := readJSON[NewRefund](r)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Request == "":
		return nil, problem(http.StatusBadRequest, "the request is missing: name the one whose charge is given back")
	case strings.TrimSpace(in.Reason) == "":
		return nil, problem(http.StatusBadRequest, "the reason is missing: a refund says why it was made")
	}
	if err := checkTexts(in.Reference, in.Reason); err != nil {
		return nil, err
	}
	record, err := a.books.refundable(r, in.Request)
	if err != nil {
		return nil, err
	}
	if record.Running {
		return nil, problem(http.StatusConflict, "request %s is running: refund it when it has ended", record.ID)
	}
	balance, applied, err := a.engine.Store().Correct(r.Context(), ledger.Correction{
		Account: record.Account, Request: in.Request, Microcents: in.Microcents, Reference: in.Reference, Reason: in.Reason,
	})
	if errors.Is(err, ledger.ErrInvalid) {
		return nil, problem(http.StatusBadRequest, "request %s was charged %d microcents, of which %d are refunded already: "+
			"a refund is at least 1 and at most what is left",
			record.ID, record.Microcents, record.Refunded)
	}
	if err != nil {
		return nil, uncertain(err, record.Account, in.Reference)
	}
	account, err := a.books.account(r.Context(), record.Account)
	if err != nil {
		return nil, err
	}
	if record, err = a.books.refundable(r, in.Request); err != nil {
		return nil, err
	}
	v := viewCorrection(account.Name, record.ID, lastRefund(record, in.Reference), in.Reference, applied, balance)
	v.Pending = record.Pending
	return v, nil
}

// uncertain says what to do when the ledger's disk failed under a movement of money: it may come back with it all the
// same (ledger.ErrUnavailable).
func uncertain(err error, account, reference string) error {
	switch {
	case !errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrLost):
		return err
	case reference != "":
		return fmt.Errorf("%w; with its reference it can be repeated as it is", err)
	}
	return fmt.Errorf("%w; it has no reference, so see in `fareway gateway ledger audit --account %s` that it was not "+
		"booked before you repeat it", err, account)
}

// lastRefund is what the newest refund with this reference gave back, in microcents.
func lastRefund(record ledger.RequestRecord, reference string) int64 {
	var microcents int64
	for _, e := range record.Entries {
		if e.Kind == ledger.Refund && e.Reference == reference {
			microcents = e.Microcents
		}
	}
	return microcents
}
