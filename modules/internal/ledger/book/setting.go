package book

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// AccountPrefix is how ids of accounts begin, and no account's name does.
const AccountPrefix = "acct_"

// Changed is an account that an operator changed. Where nothing is to change, it is as it was, and Act is none.
type Changed struct {
	Account Account
	Act     Act
}

// changed records a change of the account, which was made.
func (a Account) changed(action string, before, after Fields, by By) (c Changed, err error) {
	if c.Act, err = a.record(action, a.ID, before, after, by); err != nil {
		return Changed{}, err
	}
	c.Account = a
	return c, nil
}

// CreateAccount makes an active account without credits; taken is whether another one has its name. Its first period is
// begun as that of any other: see EndPeriods.
func CreateAccount(id, name, plan string, taken bool, by By) (Changed, error) {
	if err := checkAccountName(name, taken); err != nil {
		return Changed{}, err
	}
	if err := checkText("a plan", plan); err != nil {
		return Changed{}, err
	}
	a := Account{ID: id, Name: name, Plan: plan, State: ledger.Active, Created: by.Now}
	return a.changed("account.create", nil, Fields{
		"name": name, "plan": plan, "state": a.State, "created": a.Created.Format(time.RFC3339Nano),
	}, by)
}

func checkAccountName(name string, taken bool) error {
	if err := checkName("an account's name", name); err != nil {
		return err
	}
	if strings.HasPrefix(name, AccountPrefix) {
		return fmt.Errorf("%w: a name that begins like an account id, %q", ledger.ErrInvalid, AccountPrefix)
	}
	if taken {
		return ledger.ErrExists
	}
	return nil
}

// RenameAccount gives an account another name; taken is whether another account has it.
func RenameAccount(a Account, name string, taken bool, by By) (Changed, error) {
	was := a.Name
	if was == name {
		return Changed{Account: a}, nil
	}
	if err := checkAccountName(name, taken); err != nil {
		return Changed{}, err
	}
	a.Name = name
	return a.changed("account.rename", Fields{"name": was}, Fields{"name": name}, by)
}

// SetPlan puts an account on a plan of the configuration, or none. Its periods may be Overdue then.
func SetPlan(a Account, plan string, by By) (Changed, error) {
	was := a.Plan
	if was == plan {
		return Changed{Account: a}, nil
	}
	if err := checkText("a plan", plan); err != nil {
		return Changed{}, err
	}
	a.Plan = plan
	return a.changed("account.set_plan", Fields{"plan": was}, Fields{"plan": plan}, by)
}

// SetState suspends an account, say.
func SetState(a Account, state ledger.State, by By) (Changed, error) {
	switch state {
	case ledger.Active, ledger.Suspended, ledger.Inactive:
	default:
		return Changed{}, fmt.Errorf("%w: state %q; there are active, suspended and inactive", ledger.ErrInvalid, state)
	}
	was := a.State
	if was == state {
		return Changed{Account: a}, nil
	}
	a.State = state
	return a.changed("account.set_state", Fields{"state": was}, Fields{"state": state}, by)
}

// SetLimit sets a limit of an account over its plan's, or gives it back to the plan (nil).
func SetLimit(a Account, limit ledger.Limit, value *int64, by By) (Changed, error) {
	limits, ok := a.Limits.With(limit, value)
	switch {
	case !ok:
		return Changed{}, fmt.Errorf("%w: limit %q; there are %q", ledger.ErrInvalid, limit, ledger.AllLimits)
	case value != nil && *value < 0:
		return Changed{}, fmt.Errorf("%w: a limit of %d", ledger.ErrInvalid, *value)
	}
	was := a.Limits.Of(limit)
	if was == value || was != nil && value != nil && *was == *value {
		return Changed{Account: a}, nil
	}
	a.Limits = limits
	return a.changed("account.set_limit", Fields{string(limit): was}, Fields{string(limit): value}, by)
}

// SetProfile sets the routing profile of requests that name none, or gives it back to the plan ("").
func SetProfile(a Account, profile string, by By) (Changed, error) {
	was := a.Profile
	if was == profile {
		return Changed{Account: a}, nil
	}
	if profiles := config.ProfileNames(); profile != "" && !slices.Contains(profiles, profile) {
		return Changed{}, fmt.Errorf("%w: profile %q; there are %q", ledger.ErrInvalid, profile, profiles)
	}
	a.Profile = profile
	return a.changed("account.set_profile", Fields{"profile": was}, Fields{"profile": profile}, by)
}

// SetRequires sets what routes must be for an account, besides what its plan requires.
func SetRequires(a Account, change ledger.RequiresChange, by By) (Changed, error) {
	regions, retention := a.Requires.Texts()
	if change.Regions != nil {
		regions = *change.Regions
	}
	if change.Retention != nil {
		retention = *change.Retention
	}
	requires, err := config.ParseRequires(regions, retention)
	if err != nil {
		return Changed{}, fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	was, is := RequiredTexts(a.Requires), RequiredTexts(requires)
	if is == was {
		return Changed{Account: a}, nil
	}
	a.Requires = requires
	return a.changed("account.set_requires", was.fields(), is.fields(), by)
}

// Required is what is required of routes as it is kept: regions with commas between them, and "none" or a duration.
type Required struct{ Regions, Retention string }

// RequiredTexts are what is required as it is kept.
func RequiredTexts(q config.Requires) Required {
	list, retention := q.Texts()
	return Required{strings.Join(list, ","), retention}
}

func (r Required) fields() Fields {
	return Fields{"requires_region": r.Regions, "requires_retention": r.Retention}
}
