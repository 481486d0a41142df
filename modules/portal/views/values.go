package views

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/connect"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/texts"
)

// decimal is microcents as credits for machines.
func decimal(microcents int64) string {
	return strings.ReplaceAll(texts.English.Exact(microcents), ",", "")
}

// KeyField are what a form has of a key.
type KeyField struct{ Name, Cap, Expires string }

// KeyFields is a key as its form shows it.
func KeyFields(k *admin.Key) KeyField {
	f := KeyField{Name: k.Name, Cap: strconv.FormatInt(k.SpendCapMicrocents/perCredit, 10)}
	if k.Expires != nil {
		f.Expires = k.Expires.Add(-1).UTC().Format(time.DateOnly) // the last day on which it works
	}
	return f
}

// SignIn is the page for signing in.
type SignIn struct {
	Email   string
	Next    string   // where to go then, a path of the portal
	Issuers []string // names of those of OpenID Connect
	// Forgotten: who has forgotten their password can ask for a link.
	Forgotten bool
}

// Code asks for the second factor.
type Code struct{ Challenge, Next string }

// Invitation is the page of a link.
type Invitation struct {
	people.Invitation
	Account   string // its name
	AsksEmail bool
	Email     string
	Name      string
}

// Home is what an account sees first.
type Home struct {
	Account   admin.Account
	Burn      int64 // microcents a day, over the last days
	DaysLeft  int64 // at that; below 0: it is not known, or no end is in sight
	Attention []Attention
	Models    State // whether upstreams answer
	Recent    []admin.EndedRequest
}

// State is how something stands: in the language, and by a class of the style sheet, "good", "warn" or "bad".
type State struct{ Text, Class string }

// Attention is something that somebody should do, with where.
type Attention struct {
	Text string // in the language
	Link string
	Act  string // what the link says
}

// Keys is the page of an account's keys.
type Keys struct {
	Keys []admin.Key
	Next string                 // the id of the key behind which the next page begins, "" where there is none
	Used map[string]admin.Usage // by id, of the last 30 days
	Made *admin.Key             // that was just made, with its text
	Name string                 // what was asked for, where it was refused
}

// UsageBy is what the page of sums groups by, one at a time.
var UsageBy = []string{"day", "key", "route", "profile"}

// usageName is what a group of usage is called.
func usageName(p *Page, by string, u *admin.Usage) string {
	if name := u.Day + u.Key + u.Route + u.Profile; name != "" {
		return name
	}
	return map[string]string{"route": p.Text("no route"), "profile": p.Text("not known")}[by]
}

// Usage is the page of sums.
type Usage struct {
	Days  int // back from now
	By    string
	Rows  []admin.Usage
	Next  string // by key, the id of the key behind which the next page begins; "" where there is none
	Chart Chart
	Total admin.Usage // of all pages
}

// Chart is bars over labels. Text says a value.
type Chart struct {
	Title string
	Bars  []Bar
}

// Bar is one of them.
type Bar struct {
	Label, Text string
	Value       int64
}

// Credits is the page of what moved the account's money.
type Credits struct {
	Account admin.Account
	Entries []admin.Movement // the newest first
	Next    string           // where the next page begins, "" for none
	Plan    OwnPlan
	Pay     *Pay // nil: nobody pays here
}

// Requests is a page of requests, the newest first.
type Requests struct {
	List    []admin.EndedRequest
	Filter  RequestFilter
	Routes  []string
	Keys    []admin.Key
	Live    bool       // it begins at the newest one
	Next    string     // where the next page begins, "" for none
	Reached *time.Time // how far back it has looked; nil for to the beginning
}

// RequestFilter narrows it. Key is a key's id; Until is a day, as in 2026-11-20, "" for now.
type RequestFilter struct{ Key, Route, Profile, Status, Until string }

// Request is one request.
type Request struct {
	admin.Request
	Explained *admin.Explanation // nil where nothing is known of the choice
	Elsewhere []admin.Elsewhere
}

// Connect is the page for clients.
type Connect struct {
	URL     string // of the gateway, without a slash at the end
	Key     string // that clients are shown with
	Clients []ConnectClient
	Shapes  []connect.Shape // that may be tried
	// Family is the shape that was chosen.
	Family string
	// Answer is that to a request that was sent, nil where none was. Failed is what is wrong with it, in English as
	// clients get it.
	Answer *connect.Answer
	Failed string
	Mine   bool // the request has a page for who looks
}

// KeyPlaceholder stands where a client's key goes.
const KeyPlaceholder = "KEY"

// ConnectClient is how one client is pointed at the gateway.
type ConnectClient struct {
	connect.Client
	Env           string // sets its variables
	Path, Content string // of its file
	Examples      []connect.Example
}

// Members is the page of who is in the account.
type Members struct {
	Members     []people.Member
	Invitations []people.Invitation
	Link        *MadeLink
	More        string // after whom more are
}

// Security is the page of a person's own things.
type Security struct {
	// Linked are the issuers by which they sign in, Linkable the others.
	Linked, Linkable []string
	Person           people.Person
	Session          people.Session
	Sessions         []people.Session
	Passkeys         []people.Passkey
	Secret           string   // of a second factor that is being set up
	URI              string   // of it
	QR               string   // a data URL of it
	Recovery         []string // codes that are shown this once
}

// OperatorAccounts is the list of accounts.
type OperatorAccounts struct {
	Accounts []admin.Account
	Search   string
	On       string // a plan, "none" for none; "": all accounts
	Next     string // after which account more are
	Plans    []string
	MayMake  bool
}

// onPlan is what the plan is called that they are on.
func (v *OperatorAccounts) onPlan(p *Page) string {
	if v.On == "none" && !slices.Contains(v.Plans, v.On) {
		return p.Text("none")
	}
	return v.On
}

// more is the address of the next page.
func (v *OperatorAccounts) more() string {
	q := url.Values{"after": {v.Next}}
	if v.On != "" {
		q.Set("plan", v.On)
	}
	return Link("/portal/operator/accounts", q)
}

// OperatorAccount is one account, for operators.
type OperatorAccount struct {
	Account admin.Account
	Keys    []admin.Key
	// NextKeys is the id of the key behind which there are more, "" where there are none.
	NextKeys string
	Acts     []admin.Act
	Plans    []string
	May      Powers
	Link     *MadeLink
}

// Powers are what an operator may do.
type Powers struct {
	Change bool // plans, states, credits, people
	Help   bool // refunds, links for lost passwords, keys revoked
}

// Audit is a page of the audit trail.
type Audit struct {
	Account string      // an id, "" for all of it
	Acts    []admin.Act // the newest first
	Since   time.Time   // what is older is on the next page
}

// Configuration is the configuration that serves.
type Configuration struct {
	Status admin.Status
	Kept   []Kept
	Number int64
	Files  []File
	// Difference is what is different since an older one; nil where that is not asked.
	Difference *admin.Difference
}

// DiffLine is a line of a difference: added, removed, or neither.
type DiffLine struct{ Sign, Text string }

// diffLines are those of a file.
func diffLines(f admin.FileDifference) (list []DiffLine) {
	for line := range strings.Lines(f.Diff) {
		line = strings.TrimSuffix(line, "\n")
		l := DiffLine{Text: line}
		if strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") {
			l.Sign = line[:1]
		}
		list = append(list, l)
	}
	return list
}

// Plugins are the programs that providers run.
type Plugins struct{ List []admin.Plugin }

// Kept is a configuration that was in force.
type Kept struct {
	Number int64
	Since  time.Time
	By     string
}

// File is one of its files.
type File struct{ Path, Text string }

// OperatorPeople is everybody who can sign in.
type OperatorPeople struct {
	People []people.Person
	Next   string
	Link   *MadeLink
	May    Powers
}

// Query is the filter in an address.
func (f *RequestFilter) Query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"key": f.Key, "route": f.Route, "profile": f.Profile, "status": f.Status,
		"until": f.Until} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// older is the address of the next page.
func (v *Requests) older() string {
	q := v.Filter.Query()
	q.Set("after", v.Next)
	return Link("/portal/requests", q)
}

// OneLine is a text whose lines run on.
func OneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// MadeLink is a link that was just made for somebody, to hand over; nil for none.
type MadeLink struct {
	admin.PortalLink
	Address string // all of it
}
