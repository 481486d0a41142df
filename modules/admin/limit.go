package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// FindLimit finds a limit that accounts can have of their own by its name, or by a beginning that only it has:
// "spend-cap".
func FindLimit(given string) (*config.Limit, error) {
	name := strings.ReplaceAll(strings.ToLower(given), "-", "_")
	var names, like []string
	var found *config.Limit
	for i := range config.AccountLimits {
		l := &config.AccountLimits[i]
		names = append(names, l.Name)
		if l.Name == name {
			return l, nil
		}
		if name != "" && strings.HasPrefix(l.Name, name) {
			found, like = l, append(like, l.Name)
		}
	}
	near := config.Nearest(name, names)
	switch {
	case len(like) == 1:
		return found, nil
	case len(like) > 1:
		return nil, problem(http.StatusBadRequest,
			"limit %q is ambiguous: it begins %s; write more of the one that you mean", given, strings.Join(like, ", "))
	case near != "":
		return nil, problem(http.StatusBadRequest, "limit %q: did you mean %q?", given, near)
	default:
		return nil, problem(http.StatusBadRequest, "limit %q: there are %s", given, strings.Join(names, ", "))
	}
}

// Inherit gives a limit or a profile back to the account's plan.
const Inherit = "none"

// ParseLimit reads a value of a limit, nil for inherit.
func ParseLimit(l *config.Limit, text string) (*int64, error) {
	if text == Inherit {
		return nil, nil
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s %q: it is a whole number, or %q for what the account's plan says", l.Name, text, Inherit)
	}
	return &n, nil
}

// storedLimit is a value of a limit as the ledger keeps it.
func storedLimit(l *config.Limit, value *int64) (*int64, error) {
	if value == nil {
		return nil, nil
	}
	if *value < 0 || *value > l.Most {
		return nil, problem(http.StatusBadRequest, "%s %d: it is 0 to %d, or %q for what the account's plan says", l.Name,
			*value, l.Most, Inherit)
	}
	return new(*value * l.Factor()), nil
}

// Where a limit or a profile of an account comes from.
const (
	FromAccount = "account" // it was set for the account itself
	FromPlan    = "plan"    // of the account
	fromDefault = "default" // the account is on no plan
	FromGateway = "gateway" // the gateway block, of a profile
	FromOwner   = "owner"   // the account's owner set a spend cap below the operator's
)

// limitSources say where each of an account's limits comes from, and its profile.
func limitSources(cfg *config.Config, a ledger.Account) map[string]string {
	plan, on := cfg.Plan(a.Plan)
	source := fromDefault
	if on {
		source = FromPlan
	}
	from := map[string]string{"monthly_credits": source, "periods": source, "default_profile": FromGateway}
	for i := range config.PlanLimits {
		from[config.PlanLimits[i].Name] = source
	}
	for i := range config.AccountLimits {
		if a.Limits[i] != nil {
			from[config.AccountLimits[i].Name] = FromAccount
		}
	}
	if most := operatorCap(cfg, a) * ledger.MicrocentsPerCredit; a.Limits.LowerSpendCap(most) != most {
		from["spend_cap_credits"] = FromOwner
	}
	switch {
	case a.Profile != "":
		from["default_profile"] = FromAccount
	case plan.DefaultProfile != "":
		from["default_profile"] = FromPlan
	}
	return from
}
