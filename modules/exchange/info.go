package exchange

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/families"
)

// model is an entry of the model list (GAP-05). Only id and context_length are promised.
type model struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Created       int64  `json:"created"`
	OwnedBy       string `json:"owned_by"`
	ContextLength int64  `json:"context_length"`
}

// modelCreated is the constant that client libraries want in a model entry: 2026-01-01.
const modelCreated = 1767225600

func autoModel(call *gateway.Call) model {
	gen := call.Work.Generation()
	ns := gen.Config.Gateway.Namespace
	return model{ID: ns + "/auto", Object: "model", Created: modelCreated, OwnedBy: ns, ContextLength: gen.ContextLength()}
}

func serveModels(w http.ResponseWriter, call *gateway.Call) *families.Error {
	return writeJSON(w, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{autoModel(call)}})
}

func serveModel(w http.ResponseWriter, call *gateway.Call) *families.Error {
	m := autoModel(call)
	if call.ModelID != m.ID {
		return modelNotFound(m.ID)
	}
	return writeJSON(w, m)
}

func modelNotFound(auto string) *families.Error {
	return &families.Error{Status: http.StatusNotFound, Code: families.ModelNotFound,
		Message: "This model does not exist here. " +
			"Trying again does not help: set the model to " + strconv.Quote(auto) + "."}
}

// account is the account summary (ACCT-01 to ACCT-14).
type account struct {
	Tenant struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		KeyMode string `json:"key_mode"`
	} `json:"tenant"`
	Credits struct {
		Balance          int64      `json:"balance_credits"`
		Reserved         int64      `json:"reserved_credits"`
		Available        int64      `json:"available_credits"`
		MonthlyAllotment int64      `json:"monthly_allotment_credits"`
		PeriodEnd        *time.Time `json:"current_period_end"`
		Accrued          int64      `json:"accrued_usage_microcents"`
	} `json:"credits"`
	Key struct {
		Name  string `json:"name"`
		Last4 string `json:"last4"`
	} `json:"key"`
}

func serveAccount(w http.ResponseWriter, r *http.Request, call *gateway.Call) *families.Error {
	now, err := call.Work.Engine().Ledger().Account(r.Context(), call.Principal.Account.ID)
	if err != nil {
		return call.LedgerError("reading an account", err)
	}
	return writeJSON(w, summary(now, call))
}

// summary is what the account sees of itself; its key is the one that asks.
func summary(now ledger.Account, call *gateway.Call) account {
	var a account
	a.Tenant.ID, a.Tenant.Name, a.Tenant.KeyMode = now.ID, now.Name, "managed"
	b := now.Balance
	a.Credits.Balance, a.Credits.Reserved = b.Credits, b.Reserved()
	a.Credits.Available, a.Credits.Accrued = b.Available(), b.Accrued
	a.Credits.MonthlyAllotment = call.Work.Generation().Config.PlanOf(now.Plan).MonthlyCredits
	if end := now.Period.End; !end.IsZero() {
		whole := wholeSecond(end)
		a.Credits.PeriodEnd = &whole
	}
	key := call.Principal.Key
	a.Key.Name, a.Key.Last4 = key.Name, key.Last4
	return a
}

// wholeSecond is the first whole second, in UTC, that is not before the moment: a period is over then.
func wholeSecond(moment time.Time) time.Time {
	return moment.Add(time.Second - time.Nanosecond).Truncate(time.Second).UTC()
}

// serveCount answers the token count: an estimate of the service's own (CNT-02), never charged.
func serveCount(w http.ResponseWriter, r *http.Request, call *gateway.Call) *families.Error {
	req, refusal := decode(r, call)
	if refusal != nil {
		return refusal
	}
	return writeJSON(w, struct {
		InputTokens int64 `json:"input_tokens"`
	}{req.estimate()})
}

func writeJSON(w http.ResponseWriter, v any) *families.Error {
	b, err := json.Marshal(v)
	if err != nil {
		return gateway.InternalError()
	}
	describeBody(w.Header(), b)
	_, _ = w.Write(b) // the client may be gone; there is nobody left to tell
	return nil
}

// describeBody sets the headers of a whole reply in JSON.
func describeBody(h http.Header, b []byte) {
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
}
