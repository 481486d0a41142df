package views

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/admin"
)

// Candidate is another text of one of the configuration's files.
type Candidate struct {
	Files      []string // that can be looked at
	File, Text string
	Was        string // digest of what is saved, as it was seen
	Seen       string // digest of the text whose changes were shown; "": none
	Replays    bool   // requests of last week are routed again
	Editable   bool
	Shared     bool // there are other nodes, with files of their own
	Unserved   bool // what is saved does not serve
	Confirm    bool // who asks has to confirm first who they are
	// Theirs is what somebody else has changed meanwhile; nil where nobody has, or it is not known.
	Theirs *admin.FileDifference
	Looked *CandidatePlan
	Failed string // why it was not written, of several lines perhaps
}

// CandidatePlan is what it would change.
type CandidatePlan struct {
	OK         bool
	Text       string // what is wrong with it, as commands print it
	Refused    []string
	Untried    bool
	Difference *admin.FileDifference // nil: none
	Changes    []BlockChange
	Profiles   []ProfileChange
	Replay     *Replay
}

// BlockChange is a block that would be another one.
type BlockChange struct {
	Sign, Name string
	Notes      []string
	Fields     []FieldChange
}

// FieldChange is an attribute of it.
type FieldChange struct{ Name, Before, After string }

// ProfileChange is what a profile makes of usual requests.
type ProfileChange struct {
	Name          string
	Before, After PlanePoint
}

// Replay is what two configurations make of the same requests.
type Replay struct {
	Since                                time.Time
	Requests, Unread, MoreUnread, Unpaid int64
	Charged, Cost                        int64 // in truth
	Before, After                        ReplaySide
	Routes                               []ReplayRoute
	Shifts                               []ReplayShift
	Refused, Unjudged                    []ReplayRefusal
}

// ReplaySide is one of the two.
type ReplaySide struct {
	Charged, Cost, Margin, Refused int64
	Quality                        float64
}

// ReplayRoute is how many requests go to a route.
type ReplayRoute struct {
	Name          string
	Before, After int64
}

// ReplayShift is how many requests go to another route; "" is none.
type ReplayShift struct {
	From, To string
	Requests int64
}

// ReplayRefusal is why requests are refused.
type ReplayRefusal struct {
	Name, Why string
	Requests  int64
}

// sent is a text as the browser is given it: it leaves out a line break at the beginning of a text area.
func sent(text string) string { return "\n" + text }

// rows is how many lines a text area shows.
func rows(text string) string {
	return strconv.Itoa(min(max(strings.Count(text, "\n")+2, 12), 30))
}

// fileQuery asks for one of the files.
func fileQuery(path string) url.Values { return url.Values{"file": {path}} }

// changed is how much more the second is, "" where that says nothing.
func changed(p *Page, before, after float64) string {
	if before == 0 || before == after {
		return ""
	}
	percent := 100 * (after/before - 1)
	sign := ""
	if percent > 0 {
		sign = "+"
	}
	return sign + p.Decimal(percent, 1) + " %"
}

func orRefused(p *Page, route string) string {
	if route == "" {
		return p.Text("refused")
	}
	return route
}
