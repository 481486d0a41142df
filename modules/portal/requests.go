package portal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/views"
)

// filterOf reads what narrows a list of requests.
func (v *visit) filterOf() views.RequestFilter {
	q := v.r.URL.Query()
	return views.RequestFilter{Key: q.Get("key"), Route: q.Get("route"), Profile: q.Get("profile"),
		Status: q.Get("status"), Until: q.Get("until")}
}

// shownRequests is how many requests a page shows.
const shownRequests = 50

func showRequests(v *visit) error {
	filter := v.filterOf()
	q := filter.Query()
	if q.Del("until"); filter.Until != "" {
		day, err := time.Parse(time.DateOnly, filter.Until)
		if err != nil {
			return errBadForm
		}
		q.Set("until", day.AddDate(0, 0, 1).Format(time.RFC3339))
	}
	if after := v.r.URL.Query().Get("after"); after != "" {
		q.Set("after", after)
	}
	q.Set("limit", strconv.Itoa(shownRequests))
	view, err := v.requestsPage(q)
	if err != nil {
		return err
	}
	view.Filter = filter
	if g := v.engine.Current(); g != nil {
		for i := range g.Config.Routes {
			view.Routes = append(view.Routes, g.Config.Routes[i].Name)
		}
	}
	return v.show(views.RequestsPage(v.page("Requests"), view))
}

// requestsPage is a page of the account's requests by the ledger. The first one has what was refused lately, too,
// which the ledger knows nothing of, as far as this node has it.
func (v *visit) requestsPage(q url.Values) (view views.Requests, err error) {
	a := v.ofAccount()
	q.Set("kind", string(ledger.Charged))
	page, err := a.latest(v.r.Context(), q)
	if err != nil {
		return view, err
	}
	last4, err := a.keysOf(v.r.Context(), &view, q.Get("key"), page.Movements)
	if err != nil {
		return view, err
	}
	view.Next, view.Reached, view.Live = page.Next, page.Reached, q.Get("after") == "" && q.Get("until") == ""
	known := make(map[string]bool, len(page.Movements))
	for i := range page.Movements {
		if r := page.Movements[i].Settled; r != nil {
			known[r.ID] = true
			view.List = append(view.List, endedOf(r, last4[r.KeyID]))
		}
	}
	if !view.Live {
		return view, nil
	}
	has := liveFilter(q, last4)
	recent, _ := v.recent(0, a.id)
	for i := range recent {
		e := &recent[i]
		isOlder := view.Next != "" && len(view.List) > 0 && e.Time.Before(view.List[len(view.List)-1].Time)
		if !known[e.ID] && !isOlder && has(e) {
			view.List = append(view.List, *e)
		}
	}
	slices.SortStableFunc(view.List, func(x, y admin.EndedRequest) int { return y.Time.Compare(x.Time) })
	return view, nil
}

// keysOf gives a view of requests the keys to choose from: the newest, and the chosen one. It returns how all of those
// end that the requests were made with, by their ids.
func (a account) keysOf(ctx context.Context, view *views.Requests, chosen string, made []admin.Movement) (
	last4 map[string]string, err error,
) {
	if view.Keys, _, err = a.keys(ctx, ""); err != nil {
		return nil, err
	}
	last4 = make(map[string]string, len(view.Keys))
	for _, k := range view.Keys {
		last4[k.ID] = k.Last4
	}
	find := func(id string) (admin.Key, error) {
		k, err := a.key(ctx, id)
		last4[id] = k.Last4
		return k, err
	}
	if _, known := last4[chosen]; !known && chosen != "" {
		switch k, err := find(chosen); {
		case err == nil:
			view.Keys = append(view.Keys, k)
		case !errors.Is(err, errNotFound): // there is no request of it then, which the page says
			return nil, err
		}
	}
	for i := range made {
		if r := made[i].Settled; r != nil {
			if _, known := last4[r.KeyID]; !known {
				if _, err := find(r.KeyID); err != nil {
					return nil, err
				}
			}
		}
	}
	return last4, nil
}

// endedOf is a settled request as one that has ended.
func endedOf(r *admin.SettledRequest, last4 string) admin.EndedRequest {
	e := admin.EndedRequest{ID: r.ID, Time: r.Time, Endpoint: r.Endpoint, Status: r.Status, Last4: last4,
		Took: float64(r.Time.Sub(r.Created).Microseconds()) / 1000, Profile: r.Profile, Attempts: len(r.Routes),
		Input: r.Input, Output: r.Output, Microcents: r.Microcents, Pending: r.Pending, Reason: r.Reason}
	if len(r.Routes) > 0 {
		e.Route = r.Routes[len(r.Routes)-1]
	}
	return e
}

// liveFilter is a filter for requests that have just ended, which know the end of their key and not its id.
func liveFilter(q url.Values, last4 map[string]string) func(*admin.EndedRequest) bool {
	return func(e *admin.EndedRequest) bool {
		switch {
		case q.Get("route") != "" && e.Route != q.Get("route"), q.Get("profile") != "" && e.Profile != q.Get("profile"),
			q.Get("key") != "" && e.Last4 != last4[q.Get("key")]:
			return false
		}
		how := q.Get("status")
		return how != "free" && (admin.EndedAs(how, e.Status) || how == "failed" && e.Aborted)
	}
}

// requestID is what ids of requests look like (GAP-91).
var requestID = regexp.MustCompile(`^req_[0-9a-zA-Z_.-]{1,60}$`)

func findRequest(v *visit) error {
	id := strings.TrimSpace(v.r.URL.Query().Get("id"))
	if !requestID.MatchString(id) {
		return errNotFound
	}
	v.redirect("/portal/requests/" + url.PathEscape(id))
	return nil
}

// showRequest shows one: to members of its account, and to operators.
func showRequest(v *visit) error {
	id := v.r.PathValue("id")
	if !requestID.MatchString(id) {
		return errNotFound
	}
	a := account{v.api(v.engine, v.actor()), ""}
	var view views.Request
	err := a.Call(v.r.Context(), http.MethodGet, "/fareway/usage/"+url.PathEscape(id), nil, &view.Request)
	whose := view.AccountID
	if pruned, ok := errors.AsType[*admin.PrunedProblem](err); ok {
		whose = pruned.Request.AccountID
	} else if err != nil {
		return err
	}
	isMember := slices.ContainsFunc(v.viewer.Accounts, func(l views.AccountLink) bool { return l.ID == whose })
	// A call for comparison is the operator's, also where it was made beside a member's request.
	if v.viewer.Operator == "" && (!isMember || view.Endpoint == ledger.Shadow) {
		return errNotFound
	}
	if err != nil {
		return err
	}
	view.Shadow = nil // the operator's
	var explained admin.Explanation
	// That nothing is known of the choice, any more or yet, is no fault.
	if err := a.Call(v.r.Context(), http.MethodGet, "/fareway/explain/"+url.PathEscape(id), nil, &explained); err == nil {
		view.Explained = &explained
		if explained.Request != nil {
			view.Elsewhere = explained.Request.Elsewhere
		}
	}
	page := v.page("Request")
	page.Title = v.language.Text("Request %s", id)
	return v.show(views.RequestPage(page, view))
}

// A live view looks for new requests so often, is asked anew who looks so often, and lasts so long: the browser comes
// again by itself.
const (
	liveEvery = time.Second
	liveCheck = 15 * time.Second
	liveLasts = 10 * time.Minute
	// maxLive is how many there are at a time, and of one person.
	maxLive, maxLiveOfOne, maxLiveOfAccount = 500, 8, 64
	// liveWrite is how long a browser may take to take a line.
	liveWrite = 10 * time.Second
)

// liveViews are those that are open.
type liveViews struct {
	over chan struct{} // closed when the server ends
	once sync.Once

	mu   sync.Mutex
	all  int
	each map[string]int // by person, and by account
}

// end ends all of them.
func (l *liveViews) end() { l.once.Do(func() { close(l.over) }) }

// begin opens one of a person on an account; false: there are too many.
func (l *liveViews) begin(person, account string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxLive || l.each[person] >= maxLiveOfOne || l.each[account] >= maxLiveOfAccount {
		return false
	}
	if l.each == nil {
		l.each = map[string]int{}
	}
	l.all++
	l.each[person]++
	l.each[account]++
	return true
}

func (l *liveViews) done(person, account string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	for _, whose := range [...]string{person, account} {
		if l.each[whose]--; l.each[whose] <= 0 {
			delete(l.each, whose)
		}
	}
}

// checkLive is an error where who looks may not look at the account any more.
func (v *visit) checkLive(account string) error {
	if _, _, err := v.service.PeekSession(v.r.Context(), v.token, v.client); err != nil {
		return err
	}
	_, err := v.service.Membership(v.r.Context(), account, v.person.ID)
	return err
}

// tailRequests sends rows of requests as they end (server-sent events, as HTML has them).
func tailRequests(v *visit) error {
	if !v.live.begin(v.person.ID, v.viewer.Account.ID) {
		return &people.ThrottledError{Wait: liveCheck}
	}
	defer v.live.done(v.person.ID, v.viewer.Account.ID)
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	page, account := v.page("Requests"), v.viewer.Account.ID
	last4 := map[string]string{}
	if id := v.r.URL.Query().Get("key"); id != "" {
		key, err := v.ofAccount().key(v.r.Context(), id)
		if err != nil {
			return err
		}
		last4[id] = key.Last4
	}
	has := liveFilter(v.r.URL.Query(), last4)
	_, last := v.recent(0, account)
	control := http.NewResponseController(v.w)
	send := func(event, data string) error {
		// What cannot set it does not wait for a network either.
		_ = control.SetWriteDeadline(time.Now().Add(liveWrite))
		if _, err := fmt.Fprintf(v.w, "event: %s\ndata: %s\n\n", event, strings.ReplaceAll(data, "\n", " ")); err != nil {
			return err
		}
		return control.Flush()
	}
	if send("ready", "") != nil {
		return nil // nobody is there
	}
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	begun, checked := time.Now(), time.Now()
	for {
		select {
		case <-v.r.Context().Done():
			return nil
		case <-v.live.over:
			return nil
		case now := <-tick.C:
			if now.Sub(begun) > liveLasts {
				return nil
			}
			if now.Sub(checked) > liveCheck {
				checked = now
				if v.checkLive(account) != nil {
					_ = send("over", "") // nobody may be there
					return nil
				}
				if send("still", "") != nil {
					return nil
				}
			}
		}
		list, newest := v.recent(last, account)
		last = newest
		slices.Reverse(list)
		for i := range list {
			if !has(&list[i]) {
				continue
			}
			var row bytes.Buffer
			if err := views.RecentRow(page, list[i]).Render(v.r.Context(), &row); err != nil {
				return nil //nolint:nilerr // the browser is gone
			}
			if send("row", row.String()) != nil {
				return nil
			}
		}
	}
}
