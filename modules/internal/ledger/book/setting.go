package book

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// AccountPrefix is how ids of accounts begin, and no account's name does.
const AccountPrefix = "acct_"

// CreateAccount makes an active account without credits; taken is whether another one has its name. Its first period
// is begun as that of any other: see EndPeriods.
func CreateAccount(id, name, plan string, taken bool, by By) (Change, error) {
	if err := cmp.Or(checkAccountName(name, taken), checkText("a plan", plan)); err != nil {
		return Change{}, err
	}
	a := Account{ID: id, Name: name, Plan: plan, State: ledger.Active, Created: by.Now}
	return a.record(Change{}, "account.create", a.ID, nil, Fields{
		"name": name, "plan": plan, "state": a.State, "created": a.Created.Format(time.RFC3339Nano),
	}, by)
}

func checkAccountName(name string, taken bool) error {
	if strings.HasPrefix(name, AccountPrefix) {
		return fmt.Errorf("%w: a name that begins like an account id, %q", ledger.ErrInvalid, AccountPrefix)
	}
	return checkName("an account's name", name, taken)
}

// RenameAccount gives an account another name; taken is whether another account has it.
func RenameAccount(a Account, name string, taken bool, by By) (Change, error) {
	was := a.Name
	if was == name {
		return Change{Account: a}, nil
	}
	if err := checkAccountName(name, taken); err != nil {
		return Change{}, err
	}
	a.Name = name
	return a.record(Change{}, "account.rename", a.ID, Fields{"name": was}, Fields{"name": name}, by)
}

// SetPlan puts an account on a plan of the configuration, or none. Its periods may be Overdue then.
func SetPlan(a Account, plan string, by By) (Change, error) {
	was := a.Plan
	if was == plan {
		return Change{Account: a}, nil
	}
	if err := checkText("a plan", plan); err != nil {
		return Change{}, err
	}
	a.Plan = plan
	return a.record(Change{}, "account.set_plan", a.ID, Fields{"plan": was}, Fields{"plan": plan}, by)
}

// SetState suspends an account, say.
func SetState(a Account, state ledger.State, by By) (Change, error) {
	switch state {
	case ledger.Active, ledger.Suspended, ledger.Inactive:
	default:
		return Change{}, fmt.Errorf("%w: state %q; there are active, suspended and inactive", ledger.ErrInvalid, state)
	}
	was := a.State
	if was == state {
		return Change{Account: a}, nil
	}
	a.State = state
	return a.record(Change{}, "account.set_state", a.ID, Fields{"state": was}, Fields{"state": state}, by)
}

// SetLimit sets a limit of an account over its plan's, or gives it back to the plan (nil).
func SetLimit(a Account, limit ledger.Limit, value *int64, by By) (Change, error) {
	limits, ok := a.Limits.With(limit, value)
	switch {
	case !ok:
		return Change{}, fmt.Errorf("%w: limit %q; there are %q", ledger.ErrInvalid, limit, ledger.AllLimits)
	case value != nil && *value < 0:
		return Change{}, fmt.Errorf("%w: a limit of %d", ledger.ErrInvalid, *value)
	case limit == ledger.LimitOwnSpendCap && value != nil && *value == 0:
		return Change{}, fmt.Errorf("%w: an owner's cap of 0, which would be none", ledger.ErrInvalid)
	}
	was := a.Limits.Of(limit)
	if was == value || was != nil && value != nil && *was == *value {
		return Change{Account: a}, nil
	}
	a.Limits = limits
	return a.record(Change{}, "account.set_limit", a.ID, Fields{string(limit): was}, Fields{string(limit): value}, by)
}

// SetProfile sets the routing profile of requests that name none, or gives it back to the plan ("").
func SetProfile(a Account, profile string, by By) (Change, error) {
	was := a.Profile
	if was == profile {
		return Change{Account: a}, nil
	}
	if profiles := config.ProfileNames(); profile != "" && !slices.Contains(profiles, profile) {
		return Change{}, fmt.Errorf("%w: profile %q; there are %q", ledger.ErrInvalid, profile, profiles)
	}
	a.Profile = profile
	return a.record(Change{}, "account.set_profile", a.ID, Fields{"profile": was}, Fields{"profile": profile}, by)
}

// SetRequires sets what routes must be for an account, besides what its plan requires.
func SetRequires(a Account, change ledger.RequiresChange, by By) (Change, error) {
	regions, retention := a.Requires.Texts()
	if change.Regions != nil {
		regions = *change.Regions
	}
	if change.Retention != nil {
		retention = *change.Retention
	}
	requires, err := config.ParseRequires(regions, retention)
	if err != nil {
		return Change{}, fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	was, is := RequiredTexts(a.Requires), RequiredTexts(requires)
	if is == was {
		return Change{Account: a}, nil
	}
	a.Requires = requires
	return a.record(Change{}, "account.set_requires", a.ID, was.fields(), is.fields(), by)
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

// SetMail sets the addresses of who is told what is about an account. An act has them masked: the trail keeps what it
// has for good, and an address is somebody's.
func SetMail(a Account, addresses []string, by By) (Change, error) {
	owners, err := config.ParseOwners(addresses)
	if err != nil {
		return Change{}, fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	if slices.Equal(owners, a.Mail) {
		return Change{Account: a}, nil
	}
	was := MaskedMail(a.Mail)
	a.Mail = owners
	return a.record(Change{}, "account.set_mail", a.ID, Fields{"mail": was}, Fields{"mail": MaskedMail(owners)}, by)
}

// MailText are addresses as they are kept, which have no commas, and MailOf what that is of.
func MailText(addresses []string) string { return strings.Join(addresses, ",") }

// MailOf is nil for none.
func MailOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// MaskedMail are addresses as the trail has them.
func MaskedMail(addresses []string) string {
	masked := make([]string, len(addresses))
	for i, address := range addresses {
		masked[i] = config.MaskAddress(address)
	}
	return strings.Join(masked, ",")
}

// maxText bounds names, references and reasons, in bytes.
const maxText = 256

// checkName checks a name; taken is whether another one has it.
func checkName(what, name string, taken bool) error {
	if name == "" {
		return fmt.Errorf("%w: %s is empty", ledger.ErrInvalid, what)
	}
	if err := checkText(what, name); err != nil || !taken {
		return err
	}
	return ledger.ErrExists
}

// checkTexts checks what an entry says about itself.
func checkTexts(reference, reason string) error {
	return cmp.Or(checkText("a reference", reference), checkText("a reason", reason))
}

func checkText(what, text string) error {
	if len(text) > maxText || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: %s has to be UTF-8 without control characters, of at most %d bytes", ledger.ErrInvalid, what,
			maxText)
	}
	return nil
}
