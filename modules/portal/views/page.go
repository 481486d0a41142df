// Package views is how the portal's pages look: templ components over values that the handlers have made. It asks
// nobody for anything.
package views

import (
	"net/url"
	"time"

	"github.com/fareway/fareway/modules/portal/texts"
)

// Page is what every page has.
type Page struct {
	*texts.Language
	Title  string // in the language
	Path   string // of the address, for marking where one is
	Nonce  string // of the content security policy
	Site   string // the name of the host
	Viewer *Viewer
	Zone   *time.Location
	// ExactAmounts: amounts are written to the microcent.
	ExactAmounts bool
	Here         string // the address of the page, with what it was asked
	Notice       string // what was done, in the language
	Fault        string // what went wrong, in the language
	Assets       Assets
}

// Assets are the addresses of what pages load.
type Assets struct{ Style, Script, Icon string }

// Viewer is who looks at a page.
type Viewer struct {
	Name     string
	Email    string
	Operator string // "", "admin", "support" or "read-only"
	// Account is the account that is looked at, nil for none; Accounts are those that can be.
	Account  *AccountLink
	Accounts []AccountLink
}

// AccountLink is an account that somebody is a member of.
type AccountLink struct{ ID, Name, Role string }

// MayManage reports whether the viewer may invite others into the account and set its limits.
func (v *Viewer) MayManage() bool {
	return v != nil && (v.Account != nil && v.Account.Role == "owner" || v.Operator == "admin")
}

// MayMakeKeys reports whether the viewer may make and end keys of the account.
func (v *Viewer) MayMakeKeys() bool {
	return v.MayManage() || v != nil && v.Account != nil && v.Account.Role == "member"
}

// Credits writes microcents as credits, as the viewer wants amounts.
func (p *Page) Credits(microcents int64) string {
	if p.ExactAmounts {
		return p.Exact(microcents)
	}
	return p.Language.Credits(microcents)
}

// Dollars writes microcents as US dollars, as the viewer wants amounts.
func (p *Page) Dollars(microcents int64) string {
	if p.ExactAmounts {
		return p.ExactDollars(microcents)
	}
	return p.Language.Dollars(microcents)
}

// Moment writes a time in the viewer's zone.
func (p *Page) Moment(t time.Time) string {
	if p.Zone == nil {
		return t.UTC().Format("2006-01-02 15:04:05 MST")
	}
	return t.In(p.Zone).Format("2006-01-02 15:04:05 MST")
}

// Link is an address with a query.
func Link(path string, query url.Values) string {
	if q := query.Encode(); q != "" {
		return path + "?" + q
	}
	return path
}
