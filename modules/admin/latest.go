package admin

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// Latest is a page of what moved an account's money, the newest first.
type Latest struct {
	Movements []Movement `json:"movements"`
	// Next is what `after` asks for the page behind this one by; "" where there is none. A page of what is rare may be
	// short, or empty, and have a next one all the same: Reached is how far back it has looked.
	Next    string     `json:"next,omitempty"`
	Reached *time.Time `json:"reached,omitempty"`
}

// Movement is an entry, and of a charge its request in short.
type Movement struct {
	Entry
	Settled *SettledRequest `json:"settled,omitempty"` // absent of other entries, and where the detail was pruned
}

// SettledRequest is a request as lists have it; GET /fareway/usage/{request} has the whole of it.
type SettledRequest struct {
	ID         string    `json:"id"`
	KeyID      string    `json:"key_id"`
	Endpoint   string    `json:"endpoint"`
	Profile    string    `json:"profile"`
	Created    time.Time `json:"created"`
	Time       time.Time `json:"settled"`
	Status     int       `json:"status"` // 0: nobody knows
	Reason     string    `json:"reason"`
	Free       bool      `json:"free"`
	Routes     []string  `json:"routes"` // that were tried, in order
	Input      int64     `json:"input_tokens"`
	Output     int64     `json:"output_tokens"`
	Microcents int64     `json:"microcents"` // charged, later receipts included
	Refunded   int64     `json:"refunded_microcents"`
	Pending    bool      `json:"pending"`
}

// How much a page has, and how many entries are looked at for one.
const (
	usualLatest, mostLatest = 50, 200
	maxLooked               = 2000
	// maxPassed is how many a store passes over for a page: those are cheaper.
	maxPassed = 30_000
)

var errEnough = errors.New("enough")

// latestFilter says which entries a page has.
type latestFilter struct {
	kind, key, route, profile, status string
}

// latest lists an account's entries from the newest end. It reads account, until (RFC 3339), after (a page's next),
// limit, and what narrows: kind (of entries), and of charges key (an id), route, profile, and status: "ok", "refused",
// "failed" or "free".
func (b *booksAPI) latest(r *http.Request) (any, error) {
	v := r.URL.Query()
	account, err := b.account(r.Context(), v.Get("account"))
	if err != nil {
		return nil, err
	}
	q := ledger.LatestQuery{Account: account.ID}
	if q.Until, err = queryTime(r, "until"); err != nil {
		return nil, err
	}
	if q.Since, err = queryTime(r, "since"); err != nil {
		return nil, err
	}
	if after := v.Get("after"); after != "" {
		if q.Before, q.Until, err = readPlace(after); err != nil {
			return nil, err
		}
	}
	limit := usualLatest
	if text := v.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostLatest {
			return nil, problem(http.StatusBadRequest, "limit %q: it is 1 to %d", text, mostLatest)
		}
	}
	f := latestFilter{v.Get("kind"), v.Get("key"), v.Get("route"), v.Get("profile"), v.Get("status")}
	q.Key, q.Route, q.Profile, q.Moved = f.key, f.route, f.profile, f.kind != "" && !ledger.EntryKind(f.kind).ByUse()
	page, looked, passed := Latest{Movements: []Movement{}}, 0, 0
	err = b.books.Latest(r.Context(), q, func(m ledger.Movement) error {
		if len(page.Movements) == limit || looked == maxLooked || passed >= maxPassed {
			return errEnough
		}
		looked++
		passed += m.Passed
		page.Next = placeOf(&m.Entry)
		page.Reached = new(m.Created.UTC())
		if f.has(&m) {
			page.Movements = append(page.Movements, viewMovement(&m))
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return page, nil
	case err != nil:
		return nil, err
	}
	page.Next = ""
	return page, nil
}

// placeOf is an entry's place in a list: its number and its time.
func placeOf(e *ledger.Entry) string {
	return strconv.FormatInt(e.Seq, 10) + "-" + strconv.FormatInt(e.Created.UnixNano(), 10)
}

func readPlace(text string) (before int64, until time.Time, err error) {
	seq, at, _ := strings.Cut(text, "-")
	before, err = strconv.ParseInt(seq, 10, 64)
	nanos, badTime := strconv.ParseInt(at, 10, 64)
	if err != nil || badTime != nil || before < 1 || nanos < 1 {
		return 0, until, problem(http.StatusBadRequest, "after %q: it is what the page before said as its next", text)
	}
	return before, time.Unix(0, nanos+1), nil
}

func (f *latestFilter) has(m *ledger.Movement) bool {
	if f.kind != "" && string(m.Kind) != f.kind {
		return false
	}
	if f.key == "" && f.route == "" && f.profile == "" && f.status == "" {
		return true
	}
	r := m.Settled
	switch {
	case r == nil, f.key != "" && r.Key != f.key, f.profile != "" && r.Profile != f.profile:
		return false
	case f.route != "" && !usedRoute(r, f.route):
		return false
	}
	return f.status == "free" && r.Free || f.status != "free" && EndedAs(f.status, r.Status)
}

// EndedAs reports whether a request that ended with an HTTP status (0: nobody knows, or the client left) is "ok",
// "refused" or "failed"; any does for anything else.
func EndedAs(how string, status int) bool {
	switch how {
	case "ok":
		return status >= 200 && status < 400
	case "refused":
		return status >= 400 && status < 500
	case "failed":
		return status >= 500 || status == 0
	}
	return true
}

func usedRoute(r *ledger.RequestRecord, route string) bool {
	for i := range r.Attempts {
		if r.Attempts[i].Route == route {
			return true
		}
	}
	return false
}

func viewMovement(m *ledger.Movement) Movement {
	v := Movement{Entry: Entry{m.Entry, m.Hash()}}
	r := m.Settled
	if r == nil {
		return v
	}
	s := &SettledRequest{ID: r.ID, KeyID: r.Key, Endpoint: r.Endpoint, Profile: r.Profile, Created: r.Created.UTC(),
		Time: r.Settled.UTC(), Status: r.Status, Reason: r.Reason, Free: r.Free, Routes: []string{},
		Microcents: r.Microcents, Refunded: r.Refunded, Pending: r.Pending}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		s.Routes = append(s.Routes, a.Route)
		s.Input += a.Usage.Prompt()
		s.Output += llm.Tokens(a.Usage.Output)
	}
	v.Settled = s
	return v
}
