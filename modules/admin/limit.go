package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// AccountLimit is a limit that can be set for one account, over its plan, under its name in the plan's block.
type AccountLimit struct {
	Name  string
	Limit ledger.Limit
	Unit  int64 // of the ledger's, in one of the name's
	most  int64
	What  string              // for people
	Of    func(*Limits) int64 // the one that holds
}

// AccountLimits are all of them.
var AccountLimits = []AccountLimit{
	{"spend_cap_credits", ledger.LimitSpendCap, ledger.MicrocentsPerCredit, config.MaxSpendCapCredits,
		"credits that may be spent in a period", func(v *Limits) int64 { return v.SpendCapCredits }},
	{"token_budget", ledger.LimitTokenBudget, 1, config.MaxTokenBudget,
		"tokens of a period, prompts and replies", func(v *Limits) int64 { return v.TokenBudget }},
	{"fair_use_microcents", ledger.LimitFairUse, 1, config.MaxFairUseMicrocents,
		"what the service's own limits leave free in a period", func(v *Limits) int64 { return v.FairUseMicrocents }},
	{"concurrent_requests", ledger.LimitConcurrentRequests, 1, config.MaxConcurrentRequests,
		"charged requests at the same time", func(v *Limits) int64 { return v.ConcurrentRequests }},
	{"requests_per_minute.key", ledger.LimitKeyRequests, 1, config.MaxRequestsPerMinute,
		"requests a minute of each of its keys", func(v *Limits) int64 { return v.RequestsPerMinute.Key }},
	{"requests_per_minute.account", ledger.LimitAccountRequests, 1, config.MaxRequestsPerMinute,
		"requests a minute of all its keys", func(v *Limits) int64 { return v.RequestsPerMinute.Account }},
	{"requests_per_minute.address", ledger.LimitAddressRequests, 1, config.MaxRequestsPerMinute,
		"requests a minute of each address", func(v *Limits) int64 { return v.RequestsPerMinute.Address }},
}

func accountLimitNames() []string {
	names := make([]string, len(AccountLimits))
	for i, l := range AccountLimits {
		names[i] = l.Name
	}
	return names
}

// FindLimit finds a limit by its name, or by a beginning that only it has: "spend-cap".
func FindLimit(given string) (AccountLimit, error) {
	name := strings.ReplaceAll(strings.ToLower(given), "-", "_")
	var found []AccountLimit
	for _, l := range AccountLimits {
		if l.Name == name {
			return l, nil
		}
		if name != "" && strings.HasPrefix(l.Name, name) {
			found = append(found, l)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	names := accountLimitNames()
	if len(found) > 1 {
		like := make([]string, len(found))
		for i, l := range found {
			like[i] = l.Name
		}
		return AccountLimit{}, problem(http.StatusBadRequest,
			"limit %q is ambiguous: it begins %s; write more of the one that you mean", given, strings.Join(like, ", "))
	}
	if near := config.Nearest(name, names); near != "" {
		return AccountLimit{}, problem(http.StatusBadRequest, "limit %q: did you mean %q?", given, near)
	}
	return AccountLimit{}, problem(http.StatusBadRequest, "limit %q: there are %s", given, strings.Join(names, ", "))
}

// Inherit gives a limit or a profile back to the account's plan.
const Inherit = "none"

// Parse reads a value, nil for inherit.
func (l AccountLimit) Parse(text string) (*int64, error) {
	if text == Inherit {
		return nil, nil
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s %q: it is a whole number, or %q for what the account's plan says", l.Name, text, Inherit)
	}
	return &n, nil
}

// stored is a value as the ledger keeps it.
func (l AccountLimit) stored(value *int64) (*int64, error) {
	if value == nil {
		return nil, nil
	}
	if *value < 0 || *value > l.most {
		return nil, problem(http.StatusBadRequest, "%s %d: it is 0 to %d, or %q for what the account's plan says", l.Name,
			*value, l.most, Inherit)
	}
	return new(*value * l.Unit), nil
}

// Where a limit or a profile of an account comes from.
const (
	FromAccount = "account" // it was set for the account itself
	FromPlan    = "plan"    // of the account
	fromDefault = "default" // the account is on no plan
	FromGateway = "gateway" // the gateway block, of a profile
)

// limitSources say where each of an account's limits comes from, and its profile.
func limitSources(cfg *config.Config, a ledger.Account) map[string]string {
	plan, on := cfg.Plan(a.Plan)
	source := fromDefault
	if on {
		source = FromPlan
	}
	from := map[string]string{"monthly_credits": source, "periods": source, "max_streams": source,
		"default_profile": FromGateway}
	for _, l := range AccountLimits {
		from[l.Name] = source
		if a.Limits.Of(l.Limit) != nil {
			from[l.Name] = FromAccount
		}
	}
	switch {
	case a.Profile != "":
		from["default_profile"] = FromAccount
	case plan.DefaultProfile != "":
		from["default_profile"] = FromPlan
	}
	return from
}
