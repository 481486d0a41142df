package portal

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/views"
)

// filterOf reads what narrows a list of requests.
func (v *visit) filterOf() views.RequestFilter {
	q := v.r.URL.Query()
	return views.RequestFilter{Key: q.Get("key"), Route: q.Get("route"), Profile: q.Get("profile"),
		Status: q.Get("status")}
}

func showRequests(v *visit) error {
	view := views.Requests{Filter: v.filterOf()}
	list, _ := v.recent(0, v.viewer.Account.ID)
	for _, e := range list {
		if e.Route != "" && !slices.Contains(view.Routes, e.Route) {
			view.Routes = append(view.Routes, e.Route)
		}
	}
	slices.Sort(view.Routes)
	view.Recent = slices.DeleteFunc(list, func(e admin.EndedRequest) bool { return !view.Filter.Has(&e) })
	view.Recent = view.Recent[:min(len(view.Recent), shownRecent)]
	return v.show(views.RequestsPage(v.page("Requests"), view))
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
	if err != nil {
		return err
	}
	isMember := slices.ContainsFunc(v.viewer.Accounts, func(l views.AccountLink) bool { return l.ID == view.AccountID })
	if !isMember && v.viewer.Operator == "" {
		return errNotFound
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
	maxLive, maxLiveOfOne = 500, 8
	// liveWrite is how long a browser may take to take a line.
	liveWrite = 10 * time.Second
)

// liveViews are those that are open.
type liveViews struct {
	all  atomic.Int64
	over chan struct{} // closed when the server ends
	once sync.Once

	mu   sync.Mutex
	each map[string]int // by person
}

// end ends all of them.
func (l *liveViews) end() { l.once.Do(func() { close(l.over) }) }

// begin opens one; false: there are too many.
func (l *liveViews) begin(person string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all.Load() >= maxLive || l.each[person] >= maxLiveOfOne {
		return false
	}
	if l.each == nil {
		l.each = map[string]int{}
	}
	l.all.Add(1)
	l.each[person]++
	return true
}

func (l *liveViews) done(person string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Add(-1)
	if l.each[person]--; l.each[person] <= 0 {
		delete(l.each, person)
	}
}

// tailRequests sends rows of requests as they end (server-sent events, as HTML has them).
func tailRequests(v *visit) error {
	if !v.live.begin(v.person.ID) {
		return &people.ThrottledError{Wait: liveCheck}
	}
	defer v.live.done(v.person.ID)
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	filter, page, account := v.filterOf(), v.page("Requests"), v.viewer.Account.ID
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
				if _, _, err := v.people().Session(v.r.Context(), v.token, v.client); err != nil {
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
			if !filter.Has(&list[i]) {
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
