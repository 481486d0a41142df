package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
)

// Link is a handler of the gateway. Together they are one chain: in this order, each once, for the same requests. A
// site in which they are placed otherwise is refused when it is loaded (checkChains), as far as that can be seen
// there; and a request that does not come through all of them in turn is not served (Take).
type Link int

// The links. LinkNone is before the first.
const (
	LinkNone Link = iota
	LinkEntry
	LinkAuth
	LinkLimits
	LinkExchange
)

// links are the handlers by their names in JSON, and by their directives.
var links = [...]struct{ module, directive string }{
	LinkEntry: {"fareway", "fareway_entry"}, LinkAuth: {"fareway_auth", "fareway_auth"},
	LinkLimits: {"fareway_limits", "fareway_limits"}, LinkExchange: {"fareway_exchange", "fareway_exchange"},
}

func (s Link) String() string { return links[s].directive }

// linkOf is the link that a handler with this name in JSON is, LinkNone when it is none.
func linkOf(module any) Link {
	for s := LinkEntry; s <= LinkExchange; s++ {
		if links[s].module == module {
			return s
		}
	}
	return LinkNone
}

// misplaced says what is wrong with a chain, and how it is right.
func misplaced(what string) error {
	return fmt.Errorf("the gateway's handlers are placed wrongly: %s; they are %s, %s, %s and %s, in this order, each "+
		"once, "+
		"side by side and with the same matcher: the directive `fareway` places all four", what, LinkEntry, LinkAuth,
		LinkLimits, LinkExchange)
}

// Placed is part of the handlers after the first. It loads the app, which looks at where the handlers stand, before
// Caddy forgets that: in whatever order apps are loaded.
type Placed struct{ app *App }

// Provision loads the app.
func (p *Placed) Provision(ctx caddy.Context) (err error) {
	p.app, err = FindApp(ctx)
	return err
}

// Take returns the request's call for the handler that is the link, which only comes after the one before it. Where it
// does not, nobody has looked at the key, or counted the request: then the request is refused, and Take returns nil.
func (p *Placed) Take(w http.ResponseWriter, r *http.Request, link Link) *Call {
	var e *engine.Engine
	if p.app != nil {
		e = p.app.Engine()
	}
	return takeLink(w, r, link, e)
}

// Take is Placed.Take outside of a Caddy configuration: who is refused is in no request log.
func Take(w http.ResponseWriter, r *http.Request, link Link) *Call { return takeLink(w, r, link, nil) }

func takeLink(w http.ResponseWriter, r *http.Request, link Link, e *engine.Engine) *Call {
	c, _ := r.Context().Value(callKey{}).(*Call)
	if c != nil && c.link == link-1 {
		c.link = link
		return c
	}
	// Caddy's own access log would print the key.
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	last := LinkNone
	if c != nil {
		last = c.link
	}
	lost := c == nil
	if lost {
		now := time.Now()
		c = &Call{ID: NewID(now), Start: now, Family: chat.Server{}}
		w.Header().Set("X-Request-Id", c.ID)
	}
	log := caddy.Log().Named("http.handlers." + links[link].module).Sugar()
	log.Errorw(misplaced(link.checkOrder(last)).Error(), "request_id", c.ID)
	_ = c.Refuse(w, InternalError()) // it never fails
	if lost && e != nil {
		e.LogRequest(requestlog.Record{
			ID: c.ID, Time: c.Start.UTC(), Status: http.StatusInternalServerError, Code: string(families.InternalError),
		})
	}
	return nil
}

// checkOrder says what is wrong with a link behind another.
func (s Link) checkOrder(last Link) string {
	switch {
	case last == LinkNone:
		return fmt.Sprintf("%s comes without %s before it", s, s-1)
	case last == s:
		return fmt.Sprintf("%s is there twice", s)
	case last > s:
		return fmt.Sprintf("%s comes behind %s", s, last)
	}
	return fmt.Sprintf("%s is missing between %s and %s", last+1, last, s)
}

// Entered puts a new call on the request's context, for the links after the first. It fails where there is one
// already.
func Entered(r *http.Request, c *Call) (*http.Request, error) {
	if _, twice := r.Context().Value(callKey{}).(*Call); twice {
		return nil, misplaced(LinkEntry.checkOrder(LinkEntry))
	}
	c.link = LinkEntry
	return WithCall(r, c), nil
}

// ErrUnanswered: the handlers after the first have written nothing.
var ErrUnanswered = misplaced(fmt.Sprintf("nothing answers behind %s", LinkEntry))

// checkChains looks at every place of the HTTP app's configuration where handlers stand, wherever it is nested.
func checkChains(ctx caddy.Context) error {
	cfg := reflect.ValueOf(ctx).FieldByName("cfg") // as in adminAddress
	if !cfg.IsValid() || cfg.Kind() != reflect.Pointer || cfg.IsNil() {
		return nil
	}
	raw := cfg.Elem().FieldByName("AppsRaw").MapIndex(reflect.ValueOf("http"))
	if !raw.IsValid() || raw.Len() == 0 {
		// Or it is loaded already: then no handler of ours is in it, for they load this app (Placed).
		return nil
	}
	var http struct {
		Servers map[string]json.RawMessage `json:"servers"`
	}
	if err := json.Unmarshal(raw.Bytes(), &http); err != nil {
		return nil // Caddy says what is wrong with it
	}
	for _, name := range slices.Sorted(maps.Keys(http.Servers)) {
		var server any
		if err := json.Unmarshal(http.Servers[name], &server); err != nil {
			return nil
		}
		if err := checkPlaces(server); err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
	}
	return nil
}

// checkPlaces checks each list of routes in v, and each route that is named.
func checkPlaces(v any) error {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			if err := checkPlaces(inner); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := checkKey(key, v[key]); err != nil {
				return err
			}
			if err := checkPlaces(v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkKey checks the routes that are right below a key.
func checkKey(key string, v any) error {
	switch v := v.(type) {
	case []any:
		if key == "routes" {
			return checkList(v)
		}
	case map[string]any:
		if key != "named_routes" {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := checkList([]any{v[name]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkList checks the chains in a list of routes. There may be several, for different requests.
func checkList(routes []any) error {
	last, matcher := LinkNone, []byte(nil)
	for _, v := range routes {
		route, _ := v.(map[string]any)
		match, err := json.Marshal(route["match"])
		if err != nil {
			return err
		}
		handlers, _ := route["handle"].([]any)
		for _, h := range handlers {
			handler, _ := h.(map[string]any)
			link := linkOf(handler["handler"])
			switch {
			case link == LinkNone:
				continue
			case link != last+1:
				return misplaced(link.checkOrder(last))
			case link == LinkEntry:
				matcher = match
			case !bytes.Equal(match, matcher):
				return misplaced(fmt.Sprintf("%s has another matcher than %s", link, link-1))
			}
			last = link % LinkExchange // behind the whole chain another may begin
		}
	}
	if last != LinkNone {
		return misplaced(fmt.Sprintf("%s is missing behind %s", last+1, last))
	}
	return nil
}
