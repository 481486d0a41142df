package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// accountLimit is a limit that can be set for one account, over its plan, under its name in the plan's block.
type accountLimit struct {
	name  string
	limit ledger.Limit
	unit  int64 // of the ledger's, in one of the name's
	most  int64
	what  string                  // for people
	of    func(*limitsView) int64 // the one that holds
}

var accountLimits = []accountLimit{
	{"spend_cap_credits", ledger.LimitSpendCap, ledger.MicrocentsPerCredit, config.MaxSpendCapCredits,
		"credits that may be spent in a period", func(v *limitsView) int64 { return v.SpendCapCredits }},
	{"token_budget", ledger.LimitTokenBudget, 1, config.MaxTokenBudget,
		"tokens of a period, prompts and replies", func(v *limitsView) int64 { return v.TokenBudget }},
	{"fair_use_microcents", ledger.LimitFairUse, 1, config.MaxFairUseMicrocents,
		"what the service's own limits leave free in a period", func(v *limitsView) int64 { return v.FairUseMicrocents }},
	{"concurrent_requests", ledger.LimitConcurrentRequests, 1, config.MaxConcurrentRequests,
		"charged requests at the same time", func(v *limitsView) int64 { return v.ConcurrentRequests }},
	{"requests_per_minute.key", ledger.LimitKeyRequests, 1, config.MaxRequestsPerMinute,
		"requests a minute of each of its keys", func(v *limitsView) int64 { return v.RequestsPerMinute.Key }},
	{"requests_per_minute.account", ledger.LimitAccountRequests, 1, config.MaxRequestsPerMinute,
		"requests a minute of all its keys", func(v *limitsView) int64 { return v.RequestsPerMinute.Account }},
	{"requests_per_minute.address", ledger.LimitAddressRequests, 1, config.MaxRequestsPerMinute,
		"requests a minute of each address", func(v *limitsView) int64 { return v.RequestsPerMinute.Address }},
}

// text writes the limit that holds.
func (l accountLimit) text(v *limitsView) string {
	n := l.of(v)
	if n == 0 && l.limit == ledger.LimitFairUse {
		return "0" // which allows nothing
	}
	return orNoLimit(n)
}

func accountLimitNames() []string {
	names := make([]string, len(accountLimits))
	for i, l := range accountLimits {
		names[i] = l.name
	}
	return names
}

// findLimit finds a limit by its name, or by a beginning that only it has: "spend-cap".
func findLimit(given string) (accountLimit, error) {
	name := strings.ReplaceAll(strings.ToLower(given), "-", "_")
	var found []accountLimit
	for _, l := range accountLimits {
		if l.name == name {
			return l, nil
		}
		if name != "" && strings.HasPrefix(l.name, name) {
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
			like[i] = l.name
		}
		return accountLimit{}, problem(http.StatusBadRequest,
			"limit %q is ambiguous: it begins %s; write more of the one that you mean", given, strings.Join(like, ", "))
	}
	if near := config.Nearest(name, names); near != "" {
		return accountLimit{}, problem(http.StatusBadRequest, "limit %q: did you mean %q?", given, near)
	}
	return accountLimit{}, problem(http.StatusBadRequest, "limit %q: there are %s", given, strings.Join(names, ", "))
}

// inherit gives a limit or a profile back to the account's plan.
const inherit = "none"

// parse reads a value, nil for inherit.
func (l accountLimit) parse(text string) (*int64, error) {
	if text == inherit {
		return nil, nil
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s %q: it is a whole number, or %q for what the account's plan says", l.name, text, inherit)
	}
	return &n, nil
}

// stored is a value as the ledger keeps it.
func (l accountLimit) stored(value *int64) (*int64, error) {
	if value == nil {
		return nil, nil
	}
	if *value < 0 || *value > l.most {
		return nil, problem(http.StatusBadRequest, "%s %d: it is 0 to %d, or %q for what the account's plan says", l.name, *value, l.most, inherit)
	}
	return new(*value * l.unit), nil
}

// Where a limit or a profile of an account comes from.
const (
	fromAccount = "account" // it was set for the account itself
	fromPlan    = "plan"    // of the account
	fromDefault = "default" // the account is on no plan
	fromGateway = "gateway" // the gateway block, of a profile
)

// limitSources say where each of an account's limits comes from, and its profile.
func limitSources(cfg *config.Config, a ledger.Account) map[string]string {
	plan, on := cfg.Plan(a.Plan)
	source := fromDefault
	if on {
		source = fromPlan
	}
	from := map[string]string{"monthly_credits": source, "periods": source, "default_profile": fromGateway}
	for _, l := range accountLimits {
		from[l.name] = source
		if a.Limits.Of(l.limit) != nil {
			from[l.name] = fromAccount
		}
	}
	switch {
	case a.Profile != "":
		from["default_profile"] = fromAccount
	case plan.DefaultProfile != "":
		from["default_profile"] = fromPlan
	}
	return from
}
