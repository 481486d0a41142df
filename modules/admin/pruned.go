package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// CodePruned is the code of the answer about a request whose detail was pruned. It never changes.
const CodePruned = "request_pruned"

// PrunedProblem is the body of that answer, which has status 410: Error says it for people.
type PrunedProblem struct {
	Message string        `json:"error"`
	Code    string        `json:"code"` // CodePruned
	Request PrunedRequest `json:"request"`
}

// PrunedRequest is what the journal still has of a request whose detail was pruned.
type PrunedRequest struct {
	ID         string    `json:"id"`
	Account    string    `json:"account"` // name
	AccountID  string    `json:"account_id"`
	Settled    time.Time `json:"settled"`
	Reason     string    `json:"reason"`
	Prices     string    `json:"prices"`     // price versions, see ledger.Entry.Prices
	Microcents int64     `json:"microcents"` // charged, later receipts included
	Waived     int64     `json:"waived_microcents"`
	Over       int64     `json:"over_microcents"`
	Refunded   int64     `json:"refunded_microcents"`
	Tokens     int64     `json:"tokens"` // that counted against the token budget
	// Before is since when the detail of every request has to be there.
	Before  time.Time `json:"pruned_before"`
	Entries []Entry   `json:"entries"` // oldest first
}

func (p *PrunedProblem) Error() string { return p.Message }

// prunedProblem is a PrunedProblem about a request that the ledger does not have, if the journal still has it: what
// of it is not possible any more, and what is instead. Otherwise it is nil.
func (b *booksAPI) prunedProblem(ctx context.Context, id, gone, instead string) error {
	p, err := b.books.Pruned(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	v := PrunedRequest{
		ID: p.ID, AccountID: p.Account, Settled: p.Settled.UTC(), Reason: p.Reason, Prices: p.Prices,
		Microcents: p.Microcents, Waived: p.Waived, Over: p.Over, Refunded: p.Refunded, Tokens: p.Tokens,
	}
	for _, e := range p.Entries {
		v.Entries = append(v.Entries, Entry{e, e.Hash()})
	}
	if v.Before, err = b.books.PrunedBefore(ctx); err != nil {
		return err
	}
	account, err := b.books.Account(ctx, p.Account)
	if err != nil {
		return err
	}
	v.Account = account.Name
	return &PrunedProblem{Code: CodePruned, Request: v, Message: v.text(gone, instead)}
}

func (v *PrunedRequest) text(gone, instead string) string {
	text := fmt.Sprintf("the detail of request %q was pruned, %s; the journal still has that it was settled at %s (%s) "+
		"and charged %s to account %s", v.ID, gone, human.Moment(v.Settled), v.Reason, human.Amount(v.Microcents), v.Account)
	for _, also := range []struct {
		microcents int64
		what       string
	}{{v.Waived, "were left free"}, {v.Over, "were over what was held"}, {v.Refunded, "were refunded"}} {
		if also.microcents != 0 {
			text += fmt.Sprintf(", %s %s", human.Amount(also.microcents), also.what)
		}
	}
	if instead != "" {
		text += "; " + instead
	}
	return text
}

// PrunedBefore says until when the detail of requests was pruned.
type PrunedBefore struct {
	Before *time.Time `json:"before"` // null: nothing was
}

func (b *booksAPI) prunedBefore(r *http.Request) (any, error) {
	before, err := b.books.PrunedBefore(r.Context())
	if err != nil || before.IsZero() {
		return PrunedBefore{}, err
	}
	return PrunedBefore{&before}, nil
}

// write answers with the problem.
func (p *PrunedProblem) write(w http.ResponseWriter) error {
	p.Message = gateway.Own(p.Message)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusGone)
	return json.NewEncoder(w).Encode(p)
}
