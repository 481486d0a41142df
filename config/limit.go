package config

import (
	"cmp"
	"strconv"
	"strings"
)

// This file says which limits there are, once. To add one that a plan sets and an account may have of its own:
//
//  1. here, a field of Limits and a row of AccountLimits. The attribute of the plan's block, its bounds and default,
//     `gateway schema` and the tables of README.md (go test ./config -update), the admin API, `account set-limit` and
//     its --help, `account show`, what holds for an account, the audit trail and its verification follow.
//  2. in modules/internal/ledger/sqlite, the next file of schema/, which adds a column to accounts that is named as
//     the limit's Trail, and that column behind the others in setting.go.
//  3. the file that keeps the limit: who admits requests reads its field from engine.PlanOf (engine/limits.go, with a
//     row of its refusals and a kind of modules/internal/ratelimit where it counts something new), the
//     ledger from its Terms (ledger/limit.go). A row that nobody keeps is an empty promise.
//
// TestEveryLimit of modules/command puts each row to what follows from it.

// Unit is what a limit counts.
type Unit int

const (
	// Credits are counted whole; the ledger has them in microcents.
	Credits Unit = iota
	Microcents
	Tokens
	Requests
)

// Window is the time over which a limit counts.
type Window int

const (
	// PerPeriod is the account's period, or ever where it has none.
	PerPeriod Window = iota
	PerMinute        // any 60 s
	AtOnce           // what is in progress
)

// Limit is a row of the table: one kind of limit, and all that is said of it.
type Limit struct {
	Name   string // in a plan's block; "requests_per_minute.key" is the attribute key of its block requests_per_minute
	Unit   Unit
	Window Window
	Most   int64 // and 0 at least
	// Default holds for accounts on no plan, and where a plan does not say; where instead is set, DefaultPlan knows.
	Default int64
	// Allowance: the limit is of what accounts get free, and 0 is nothing. 0 of all others is no limit.
	Allowance bool
	What      string // for the operator, who sets it, after its name
	Shown     string // how `account show` calls it
	In        func(*Limits) *int64

	instead string // the default in words, where it is not one number
	example string // "": the default
	doc     string // what it does, in Markdown
}

// Limits are what bounds one account. 0 is no limit, but for an allowance.
type Limits struct {
	RequestsPerMinute  RequestsPerMinute `json:"requests_per_minute"`
	SpendCapCredits    int64             `json:"spend_cap_credits"`   // per period
	TokenBudget        int64             `json:"token_budget"`        // tokens per period
	FairUseMicrocents  int64             `json:"fair_use_microcents"` // per period; 0: no free allowance
	ConcurrentRequests int64             `json:"concurrent_requests"` // charged requests at the same time
	MaxStreams         int64             `json:"max_streams"`         // of those of the gateway's max_streams
}

// RequestsPerMinute bounds the requests of any 60 s, for each of those that they count against; 0: no limit.
type RequestsPerMinute struct {
	Key     int64 `json:"key"`
	Account int64 `json:"account"`
	Address int64 `json:"address"`
}

// maxPerMinute bounds what the limiter remembers of one subject: it keeps each request's time.
const maxPerMinute = 1_000_000

// AccountLimits are the limits of plans that can be set for one account, too, over its plan (GAP-118).
var AccountLimits = [...]Limit{
	{Name: "spend_cap_credits", Unit: Credits, Window: PerPeriod, example: "1000",
		Most: 1_000_000_000_000, // the largest balance that the ledger counts: a cap above it would never be reached
		What: "credits that may be spent in a period", Shown: "spent",
		In: func(l *Limits) *int64 { return &l.SpendCapCredits },
		doc: "What an account may spend in a period, whatever its balance; a request that could cross it gets " +
			"402. 0 for no cap. Requests at the same time may cross it slightly."},
	{Name: "token_budget", Unit: Tokens, Window: PerPeriod, example: "1000000",
		Most: 1e15, // more than all upstreams together serve in a month, and its sums fit into an int64
		What: "tokens of a period, prompts and replies", Shown: "tokens",
		In:  func(l *Limits) *int64 { return &l.TokenBudget },
		doc: "Like the cap, in tokens of prompt and reply. 0 for no budget."},
	{Name: "fair_use_microcents", Unit: Microcents, Window: PerPeriod, Default: 10 * microcentsPerCredit,
		Most: maxCredits * microcentsPerCredit, Allowance: true,
		What: "what the service's own limits leave free in a period", Shown: "fair use",
		In: func(l *Limits) *int64 { return &l.FairUseMicrocents },
		doc: "What an account gets for nothing in a period when its requests end at a limit of the service, not " +
			"of the client: the total time limit, a route's `timeout` behind shown text, or an output limit that " +
			"the client did not set, with nothing visible (422). What goes beyond is charged, in the order of " +
			"settlement. A 200 that ends at an output limit was delivered, and is charged. 1,000,000 microcents " +
			"are a credit; 0 for none."},
	{Name: "concurrent_requests", Unit: Requests, Window: AtOnce, Default: 64, example: "8", Most: maxConcurrent,
		What: "charged requests at the same time", Shown: "requests at a time",
		In: func(l *Limits) *int64 { return &l.ConcurrentRequests },
		doc: "How many charged requests may run at the same time; over it requests get 429. Those whose client " +
			"left count until their upstream has ended. 0 for no limit."},
	{Name: "requests_per_minute.key", Unit: Requests, Window: PerMinute, Default: 600, Most: maxPerMinute,
		What: "requests a minute of each of its keys", Shown: "requests a minute, key",
		In:  func(l *Limits) *int64 { return &l.RequestsPerMinute.Key },
		doc: "The requests of each key."},
	{Name: "requests_per_minute.account", Unit: Requests, Window: PerMinute, Default: 2400, Most: maxPerMinute,
		What: "requests a minute of all its keys", Shown: "requests a minute, account",
		In:  func(l *Limits) *int64 { return &l.RequestsPerMinute.Account },
		doc: "The requests of all keys of an account."},
	{Name: "requests_per_minute.address", Unit: Requests, Window: PerMinute, Default: 6000, Most: maxPerMinute,
		What: "requests a minute of each address", Shown: "requests a minute, address",
		In: func(l *Limits) *int64 { return &l.RequestsPerMinute.Address },
		doc: "The requests from one address of clients, over all accounts. An IPv6 address counts with its /64. " +
			"Behind a proxy, set `trusted_proxies` in the Caddyfile: otherwise all clients share the proxy's " +
			"address; and `trusted_proxies_strict`: otherwise they can make theirs up."},
}

// PlanLimits are all limits of plans: those, and what only a plan says.
var PlanLimits = append(AccountLimits[:],
	Limit{Name: "max_streams", Unit: Requests, Window: AtOnce, Most: maxConcurrent, example: "2500",
		instead: "a quarter of the gateway's", Shown: "of max_streams",
		In: func(l *Limits) *int64 { return &l.MaxStreams },
		doc: "How many of the gateway's `max_streams` one account may have, whatever `concurrent_requests` says for it, " +
			"so that slow readers of one do not take the places of all. 0 for all of them."})

// defaultLimits are all defaults.
var defaultLimits = func() (limits Limits) {
	for i := range PlanLimits {
		*PlanLimits[i].In(&limits) = PlanLimits[i].Default
	}
	return limits
}()

// Factor is how many of the ledger's units, in which accounts have limits of their own, are one of the plan's.
func (l *Limit) Factor() int64 {
	if l.Unit == Credits {
		return microcentsPerCredit
	}
	return 1
}

// Trail is the limit's name in the ledger and on its audit trail, with the ledger's unit: "spend_cap_microcents".
func (l *Limit) Trail() string {
	if name, ok := strings.CutSuffix(l.Name, "_credits"); ok {
		return name + "_microcents"
	}
	return l.Name
}

// within is the attribute of a limit in a block of the plan, or in the plan itself (""); false where it is in another.
func (l *Limit) within(block string) (attribute string, ok bool) {
	if block == "" {
		return l.Name, !strings.Contains(l.Name, ".")
	}
	return strings.CutPrefix(l.Name, block+".")
}

// limitRules are the attributes of the limits of a block of the plan.
func limitRules(block string) []attributeRule {
	var rules []attributeRule
	for i := range PlanLimits {
		l := &PlanLimits[i]
		if name, ok := l.within(block); ok {
			rule := attributeRule{name: name, kind: anInteger(0, l.Most), instead: l.instead, doc: l.doc}
			if l.instead == "" {
				rule.fallback = strconv.FormatInt(l.Default, 10)
			}
			rule.example = cmp.Or(l.example, rule.fallback)
			rules = append(rules, rule)
		}
	}
	return rules
}

// limits reads the limits of a block of the plan.
func (s *section) limits(block string, to *Limits) {
	for i := range PlanLimits {
		if name, ok := PlanLimits[i].within(block); ok {
			s.integer(name, PlanLimits[i].In(to))
		}
	}
}
