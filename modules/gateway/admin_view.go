package gateway

import (
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// The views are the admin API's replies and the command line's --json output. Fields are only added, never
// changed or removed.

// accountView is an account with its money. Credits are whole (1 credit = US$0.01), microcents are millionths
// of a credit.
type accountView struct {
	ID                string    `json:"id"`
	Name              string    `json:"name"`
	Plan              string    `json:"plan"` // "" for none
	State             string    `json:"state"`
	Created           time.Time `json:"created"`
	BalanceCredits    int64     `json:"balance_credits"`
	ReservedCredits   int64     `json:"reserved_credits"`
	AvailableCredits  int64     `json:"available_credits"`
	AccruedMicrocents int64     `json:"accrued_usage_microcents"`
}

func viewAccount(a ledger.Account) accountView {
	return accountView{
		ID: a.ID, Name: a.Name, Plan: a.Plan, State: string(a.State), Created: a.Created.UTC(),
		BalanceCredits:    a.Balance.Credits,
		ReservedCredits:   a.Balance.Reserved(),
		AvailableCredits:  a.Balance.Available(),
		AccruedMicrocents: a.Balance.Accrued,
	}
}

// keyView is a key. Key is its text, in the reply that made it and nowhere else.
type keyView struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Account string    `json:"account"` // the account's name
	Last4   string    `json:"last4"`
	Revoked bool      `json:"revoked"`
	Created time.Time `json:"created"`
	Key     string    `json:"key,omitempty"`
}

func viewKey(k ledger.Key, account string) keyView {
	return keyView{ID: k.ID, Name: k.Name, Account: account, Last4: k.Last4, Revoked: k.Revoked, Created: k.Created.UTC()}
}

// creditView is the result of a top-up. Applied is false when the account had seen the reference before: then
// nothing was changed.
type creditView struct {
	Account          string `json:"account"`
	Credits          int64  `json:"credits"`
	Reference        string `json:"reference,omitempty"`
	Applied          bool   `json:"applied"`
	BalanceCredits   int64  `json:"balance_credits"`
	AvailableCredits int64  `json:"available_credits"`
}

// statusView is what runs.
type statusView struct {
	Ready      bool           `json:"ready"`
	Reason     string         `json:"reason,omitempty"` // why it is not ready
	PID        int            `json:"pid"`
	Version    string         `json:"version"`
	Data       string         `json:"data"`
	Config     string         `json:"config"`      // path of the HCL file
	ConfigHash string         `json:"config_hash"` // of its content and of what it names
	Generation uint64         `json:"generation"`  // counts the configurations that this process has run
	Providers  []providerView `json:"providers"`
	Routes     []routeView    `json:"routes"`
	Plans      []string       `json:"plans"`
}

type providerView struct {
	Name   string `json:"name"`
	Plugin string `json:"plugin"`
	Ready  bool   `json:"ready"`
}

type routeView struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

type newAccount struct {
	Name string `json:"name"`
	Plan string `json:"plan,omitempty"`
}

type newState struct {
	State ledger.State `json:"state"`
}

type newKey struct {
	Account string `json:"account"` // name or id
	Name    string `json:"name"`
}

type newCredit struct {
	Account   string `json:"account"` // name or id
	Credits   int64  `json:"credits"`
	Reference string `json:"reference,omitempty"`
	Reason    string `json:"reason,omitempty"`
}
