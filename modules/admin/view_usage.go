package admin

import (
	"math/big"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/plugins/llm"
)

// Tokens counts tokens in the classes that are priced, which are disjoint; reasoning is a part of output. null:
// the upstream did not say.
type Tokens struct {
	Input      *int64 `json:"input"`
	CacheRead  *int64 `json:"cache_read"`
	CacheWrite *int64 `json:"cache_write"`
	Output     *int64 `json:"output"`
	Reasoning  *int64 `json:"reasoning"`
	Estimated  bool   `json:"estimated,omitempty"` // the provider counted for its upstream
}

func viewTokens(u llm.Usage) Tokens {
	return Tokens{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Output: u.Output, Reasoning: u.Reasoning, Estimated: u.Estimated}
}

// Usage is the sum of a group of settled requests. What it is not grouped by is absent.
type Usage struct {
	Day       string `json:"day,omitempty"`     // of the settlement, in UTC
	Account   string `json:"account,omitempty"` // name
	AccountID string `json:"account_id,omitempty"`
	Key       string `json:"key,omitempty"` // name
	KeyID     string `json:"key_id,omitempty"`
	Route     string `json:"route,omitempty"`
	Profile   string `json:"profile,omitempty"` // absent of what was pruned before there were sums by profile, too

	Requests int64  `json:"requests"` // by route, those that were tried on it
	Attempts int64  `json:"attempts"`
	Tokens   Tokens `json:"tokens"`
	Pending  int64  `json:"pending"`          // requests that wait for a receipt
	Pruned   int64  `json:"pruned,omitempty"` // of the requests, those that only sums are left of

	// Microcents is what was charged. Margin is that less what was refunded and less what it cost the operator. By
	// route, the amounts of a request that was tried on several are divided, see ledger.UsageRow.
	Microcents int64 `json:"microcents"`
	Waived     int64 `json:"waived_microcents"`
	Over       int64 `json:"over_microcents"` // beyond what was held: not charged, the operator's
	Refunded   int64 `json:"refunded_microcents"`
	Cost       int64 `json:"cost_microcents"`
	Margin     int64 `json:"margin_microcents"`
}

func viewUsage(u ledger.UsageRow) Usage {
	return Usage{
		Day: u.Day, Account: u.AccountName, AccountID: u.Account, Key: u.KeyName, KeyID: u.Key, Route: u.Route,
		Profile:  u.Profile,
		Requests: u.Requests, Attempts: u.Attempts, Tokens: viewTokens(u.Tokens), Pending: u.Pending, Pruned: u.Pruned,
		Microcents: u.Microcents, Waived: u.Waived, Over: u.Over, Refunded: u.Refunded, Cost: u.Cost,
		Margin: u.Microcents - u.Refunded - u.Cost,
	}
}

// Request is the whole record of a request, with the arithmetic of its charge: the products of all attempts
// (tokens x microcents per million tokens, over four classes) are summed, divided by a million once and rounded down.
type Request struct {
	ID        string     `json:"id"`
	Account   string     `json:"account"` // name
	AccountID string     `json:"account_id"`
	Key       string     `json:"key"` // name
	KeyID     string     `json:"key_id"`
	Endpoint  string     `json:"endpoint"`
	Profile   string     `json:"profile"`
	Running   bool       `json:"running"` // nothing below held_microcents is known yet
	Created   time.Time  `json:"created"`
	Held      int64      `json:"held_microcents"` // released when it is settled
	Settled   *time.Time `json:"settled"`
	Status    int        `json:"status"` // 0: nobody knows
	Reason    string     `json:"reason"`

	// Logged: the request was not admitted, or is of a kind that is not charged. It is from the request log; there are no
	// attempts and no amounts, and Code and Limit say why it was refused. A request that authenticated nobody has no
	// account.
	Logged bool   `json:"logged,omitempty"`
	Code   string `json:"code,omitempty"`  // of the error, as clients see it
	Limit  string `json:"limit,omitempty"` // what X-RateLimit-Reason said
	// Refused is the arithmetic where it was refused for money or a rate: what was needed, and what was left of what.
	Refused *requestlog.Refused `json:"refused,omitempty"`

	Attempts     []Attempt `json:"attempts"`
	Sum          string    `json:"sum"`                // of the products: a whole number, often too large for JSON
	Divided      int64     `json:"divided_microcents"` // the sum divided by 1,000,000
	Surcharge    int64     `json:"surcharge_microcents"`
	Free         bool      `json:"free"`          // a failure of the service: nothing is charged
	ServiceLimit bool      `json:"service_limit"` // it ended at a limit of the service: fair use may leave it free
	Waived       int64     `json:"waived_microcents"`
	Over         int64     `json:"over_microcents"` // beyond what was held: not charged, the operator's
	Microcents   int64     `json:"microcents"`      // charged: divided and surcharge, less what was waived and over
	Refunded     int64     `json:"refunded_microcents"`
	Pending      bool      `json:"pending"` // a receipt may add to it
	Cost         int64     `json:"cost_microcents"`
	Margin       int64     `json:"margin_microcents"` // charged less refunded and cost

	Entries []Entry `json:"entries"` // that moved money for it
	// Shadow is the call that was made beside it for comparison, which nobody is charged for. It is not in the numbers
	// above.
	Shadow *Request `json:"shadow,omitempty"`
}

// Attempt is one call to one route. Prices are microcents per million tokens.
type Attempt struct {
	ID           string       `json:"id"`
	Route        string       `json:"route"`
	Provider     string       `json:"provider"`
	Model        string       `json:"model"`                  // upstream
	Key          string       `json:"provider_key,omitempty"` // the name of the provider's key that it was made with
	Created      time.Time    `json:"created"`
	Outcome      string       `json:"outcome"`            // "" while it runs
	Failure      string       `json:"failure,omitempty"`  // why it failed, while the gateway remembers; the log has it
	Operator     bool         `json:"operator,omitempty"` // what it used is not in the sum, but the cost
	Receipt      *time.Time   `json:"receipt"`            // when a later receipt proved the usage
	Tokens       Tokens       `json:"tokens"`
	Estimate     *Tokens      `json:"estimate,omitempty"`         // what it is charged for if no receipt comes
	Worst        *int64       `json:"worst_microcents,omitempty"` // the most that it may cost; absent of old attempts
	PriceVersion int64        `json:"price_version"`              // of its route, in force when it began
	Price        config.Price `json:"price"`
	Tier         int64        `json:"tier,omitempty"`      // the input tokens from which on that price holds
	CostPrice    config.Price `json:"cost_price"`          // what the operator pays
	CostTier     int64        `json:"cost_tier,omitempty"` // as tier
	Product      string       `json:"product"`             // tokens x price, summed over the classes
}

func viewLogged(r requestlog.Record) Request {
	v := ViewRequest(ledger.RequestRecord{})
	v.Logged, v.ID, v.Endpoint, v.Created, v.Status = true, r.ID, r.Endpoint, r.Time, r.Status
	v.Code, v.Limit, v.Refused, v.AccountID, v.KeyID = r.Code, r.Limit, r.Refused, r.Account, r.Key
	return v
}

// ViewRequest is a record of the ledger as the API shows it.
func ViewRequest(r ledger.RequestRecord) Request {
	v := Request{
		ID: r.ID, AccountID: r.Account, KeyID: r.Key, Endpoint: r.Endpoint, Profile: r.Profile,
		Running: r.Running, Created: r.Created.UTC(), Held: r.Held, Settled: optionalTime(r.Settled), Status: r.Status,
		Reason:   r.Reason,
		Attempts: []Attempt{}, Surcharge: r.Surcharge, Free: r.Free, ServiceLimit: r.ServiceLimit,
		Waived: r.Waived, Over: r.Over, Microcents: r.Microcents, Refunded: r.Refunded, Pending: r.Pending,
		Entries: []Entry{},
	}
	sum := new(big.Int)
	for _, a := range r.Attempts {
		price, tier := a.Price.At(a.Usage.Prompt())
		costPrice, costTier := a.Cost.At(a.Usage.Prompt())
		part, cost := product(a.Usage, price), product(a.Usage, costPrice)
		if !a.Operator {
			sum.Add(sum, part)
		}
		v.Cost += perMillion(cost)
		view := Attempt{
			ID: a.ID, Route: a.Route, Provider: a.Provider, Model: a.Model, Key: a.Key,
			Created: a.Created.UTC(), Outcome: string(a.Outcome), Operator: a.Operator,
			Receipt: optionalTime(a.Receipt), Tokens: viewTokens(a.Usage), PriceVersion: a.PriceVersion,
			Price: price, Tier: tier, CostPrice: costPrice, CostTier: costTier,
			Product: part.String(),
		}
		if a.Worst >= 0 {
			view.Worst = &a.Worst
		}
		if a.Estimate != nil {
			estimate := viewTokens(*a.Estimate)
			view.Estimate = &estimate
		}
		v.Attempts = append(v.Attempts, view)
	}
	v.Sum, v.Divided = sum.String(), perMillion(sum)
	v.Margin = v.Microcents - v.Refunded - v.Cost
	for _, e := range r.Entries {
		v.Entries = append(v.Entries, Entry{e, e.Hash()})
	}
	return v
}

// product is done here again, with other means than the ledger's Tally: the record of a request is for those who want
// to see that the ledger is right.
func product(u llm.Usage, p config.Price) *big.Int {
	sum := new(big.Int)
	for _, c := range [...]struct {
		tokens *int64
		price  int64
	}{{u.Input, p.Input}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}, {u.Output, p.Output}} {
		sum.Add(sum, ClassProduct(c.tokens, c.price))
	}
	return sum
}

// ClassProduct is tokens, nil for none, times their price: microcents, in millionths.
func ClassProduct(tokens *int64, price int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(llm.Tokens(tokens)), big.NewInt(price))
}

func perMillion(n *big.Int) int64 { return new(big.Int).Quo(n, big.NewInt(1_000_000)).Int64() }
