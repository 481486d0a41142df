// Package admin is the admin API: at Caddy's admin endpoint, at an address of its own, and from a ledger whose gateway
// does not run; and its client.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/spool"
)

func init() {
	caddy.RegisterModule(new(API))
}

// API serves the gateway's part of Caddy's admin endpoint, for operators and for the command line. What only
// reads:
//
//	GET    /fareway/status                  what runs
//	GET    /fareway/metrics                 the metrics, as Prometheus reads them; with the token in metrics.token, too
//	GET    /fareway/configurations          the configurations that were in force, the newest first
//	GET    /fareway/configurations/{number} one of them, with the texts of its files
//	GET    /fareway/configuration           its files as they are saved, with their texts; on a socket only
//	POST   /fareway/plan                    {"text", "file"? | "kept"} what a configuration would change; socket only
//	POST   /fareway/replay                  {"text", "since"} where requests since then would have gone by it, and at
//	                                        what cost: JSON lines {"done", "of"} and a last one {"comparison"}
//	POST   /fareway/reload?by=COMMAND       loads the HCL file now, as saving it does by itself; 422 when it is refused
//	GET    /fareway/alerts                  what is raised, whom it is told, and what there is to tell
//	POST   /fareway/hooks/test              {"name"?, "account"?} sends a test to destinations of alerts, or to an owner
//	POST   /fareway/probes                  a credential for a request through the public address that costs nothing
//	POST   /fareway/upgrade                 {"program"?} puts another process in the place of this one; on a socket only
//	GET    /fareway/plugins                 provider plugins: those that run, built-in ones, files of plugin_dir
//	GET    /fareway/plugins/{name}          one plugin, with its settings; one that does not run is started to be asked
//	GET    /fareway/routes                  the routes, with what was learned of them, and how attempts on them went
//	GET    /fareway/profiles                each profile's rate, and what it makes of the reference workload
//	GET    /fareway/profiles/curve          what quality costs by the choice: points from the cheapest to the best
//	GET    /fareway/profiles/calibration    ?since= which rates the requests since then would give them
//	GET    /fareway/accounts                all accounts *; ?search=NAME, or ?after=ID and limit=N
//	GET    /fareway/accounts/{name}         one account, by name or id
//	GET    /fareway/keys[?account=NAME]     keys, without their secrets *; ?newest=1, ?after=ID and limit=N page them
//	GET    /fareway/keys/{id}               one key; with ?account=NAME by its name, too
//	GET    /fareway/usage                   sums of settled requests *; see booksAPI.usage for what narrows them
//	GET    /fareway/usage/{request}         the whole record of one request, with its arithmetic
//	GET    /fareway/requests[?after=N]      the requests that have ended last, the newest first: so many of each kind
//	POST   /fareway/explain                 {"prompt" | "body", "family"?, "profile"?, "account"?, "weights"?} where a
//	                                        request would go now, and why; it is sent nowhere
//	GET    /fareway/explain/{request}       which routes were there for a request, and why it went where it went
//	GET    /fareway/ledger/pruned           {"before"} since when the detail of requests is there; null: all of it
//	GET    /fareway/ledger/entries          the journal, oldest first *
//	GET    /fareway/ledger/latest           ?account= the same of an account, newest first and a page at a time, with
//	                                        the requests that were settled; see booksAPI.latest for what narrows it
//	GET    /fareway/ledger/checkpoints      all checkpoints, oldest first *
//	GET    /fareway/ledger/audit            what operators did, oldest first *
//	GET    /fareway/ledger/spool            what the spool had and could not apply *; ?all=true: with what is decided
//	GET    /fareway/portal/people[?account=NAME]       who may sign in to the portal *
//	GET    /fareway/portal/people/{email}              one of them
//	GET    /fareway/portal/people/{email}/sessions     their sessions *
//	GET    /fareway/portal/invitations[?account=NAME]  the links that open something yet, without what opens *
//	GET    /fareway/payments[?account=NAME]    payments, the newest first; ?waiting=true, ?before=ID, ?limit=N
//	GET    /fareway/accounts/{name}/top-up     how it tops itself up
//	POST   /fareway/ledger/verify           {"checkpoints"?, "from"?, "progress"?} recomputes the ledger, and looks at
//	                                        the spool; see Verification
//
// and what changes something:
//
//	POST   /fareway/accounts                {"name", "plan"?, "mail"?} makes an account with a balance of 0
//	POST   /fareway/accounts/{name}/name    {"name"} renames it
//	POST   /fareway/accounts/{name}/plan    {"plan"} puts it on another plan, or on "none"
//	POST   /fareway/accounts/{name}/limit   {"limit", "value"} sets a limit (FindLimit) of its own; null: its plan's
//	POST   /fareway/accounts/{name}/own-cap {"credits"} the spend cap that its owner wants; null: none
//	POST   /fareway/accounts/{name}/profile {"profile"} sets a default profile of its own, or "none": its plan's
//	POST   /fareway/accounts/{name}/requires {"region"?, "retention"?} what routes must be, besides what its plan says
//	POST   /fareway/accounts/{name}/mail    {"mail"} the addresses that are told what is about it; []: nobody
//	POST   /fareway/accounts/{name}/state   {"state": "active" | "suspended" | "inactive"}
//	POST   /fareway/configuration           {"text", "file"?, "was"} writes one of its files, where the portal block has
//	                                        edit_configuration, and loads it; on a socket only
//	POST   /fareway/keys                    {"account", "name", "expires"?, "spend_cap_credits"?} makes a key, shown once
//	PATCH  /fareway/keys/{id}               {"name"?, "expires"?, "spend_cap_credits"?} changes what is given
//	POST   /fareway/keys/{id}/rotate        {"overlap_seconds"} makes a key that replaces it, and shows that, this once
//	DELETE /fareway/keys/{id}               revokes a key
//	POST   /fareway/credits                 {"account", "credits", "reference"?, "reason"?} tops up
//	POST   /fareway/adjustments             {"account", "microcents", "reason", "reference"?} corrects a balance
//	POST   /fareway/payments                {"account", "credits", "return", "keep"?} begins one: {"address"} to pay at
//	POST   /fareway/payments/{id}/check     asks Stripe how far it is, and does what follows
//	POST   /fareway/payments/{id}/close     {"reason"} says that one that waits for an operator is decided
//	POST   /fareway/accounts/{name}/top-up  {"active", "threshold_credits", "credits", "monthly_credits", "forget"?}
//	POST   /fareway/refunds                 {"request", "reason", "microcents"?, "reference"?} gives a charge back
//	POST   /fareway/portal/first            makes the link of the first admin, if there is none: {"url", "path"}
//	POST   /fareway/portal/invitations      {"email", "account"?, "role"?, "operator"?} makes a link to hand over
//	DELETE /fareway/portal/invitations/{id} has it open nothing any more
//	POST   /fareway/portal/people/{email}/reset    makes a link by which they set a new password
//	POST   /fareway/portal/people/{email}/state    {"disabled"} keeps them out, at once, or lets them in again
//	POST   /fareway/portal/people/{email}/role     {"account", "role"} or {"operator"}; "none" takes it away
//	DELETE /fareway/portal/people/{email}/sessions[/{id}]  ends their sessions, or one
//	POST   /fareway/routes/feedback         {"request", "verdict": "good" | "bad"} says how good a reply was
//	POST   /fareway/ledger/checkpoints      makes a checkpoint over the journal
//	POST   /fareway/ledger/prune            {"before"} removes the detail of old requests
//	POST   /fareway/ledger/accept-loss      {"reason"} goes on without what the ledger has lost
//	POST   /fareway/ledger/spool/{id}/apply    {"reason"} charges what could not be applied
//	POST   /fareway/ledger/spool/{id}/discard  {"reason"} lets it be
//
// Bodies are JSON; the files view*.go have the replies. A list (*) is JSON lines, one object a line, in bounded
// memory whatever its length: it is whole when the reply ends as HTTP has it; when it fails on the way, its last line
// is {"error": ...} and the connection breaks. An error is otherwise Caddy's own shape, {"error": "what is wrong and
// what to do"}, with status 400 (the request makes no sense), 401 (the token is missing or wrong), 404, 409
// (the name is taken), 503 (no gateway, or its database is away) or 500. About a request whose detail was pruned it is
// 410 with a PrunedProblem, which has a code beside the text and what the journal still has.
//
// On a unix socket the socket's permissions decide who may. A request over TLS (Listener) needs `Authorization:
// Bearer TOKEN` with the token in admin.token in the data folder, or, at Caddy's own endpoint for remote
// administration, the client certificate that this asks for. Whatever changes something takes effect on the next
// request of a client, and is recorded in the audit trail with what X-Fareway-Actor says (see actorOf).
type API struct {
	engine *engine.Engine // nil when this Caddy's configuration has no gateway
	token  adminToken
	books  booksAPI

	metricsToken adminToken
	exposition   http.Handler

	strangers *strangers
	foretold  foretold
}

// CaddyModule returns the Caddy module information.
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.fareway", New: func() caddy.Module { return new(API) }}
}

// Provision finds the gateway of the configuration, and opens it. Caddy does this before it starts the apps and before
// it takes the admin address, so that a gateway that cannot start leaves a running one's admin socket alone.
func (a *API) Provision(ctx caddy.Context) error {
	v, err := ctx.AppIfConfigured("fareway")
	if err != nil && !errors.Is(err, caddy.ErrNotConfigured) {
		return err
	}
	address, addressErr := gateway.AdminAddress(ctx)
	if addressErr != nil {
		return addressErr
	}
	if err := gateway.MakeAdminFolder(address); err != nil {
		return err
	}
	if err != nil {
		return nil // there is no gateway
	}
	app := v.(*gateway.App)
	if err := app.ShareSockets(ctx); err != nil {
		return err
	}
	if err := app.Open(); err != nil {
		return err
	}
	return a.serve(app.Engine())
}

// serve makes the API that of an engine.
func (a *API) serve(e *engine.Engine) (err error) {
	a.attach(e)
	a.strangers = newStrangers(e.Logger)
	if a.token, err = loadToken(e.DataDir(), adminTokenFile); err != nil {
		return err
	}
	if a.metricsToken, err = loadToken(e.DataDir(), metricsTokenFile); err != nil {
		return err
	}
	a.exposition, err = newExposition(e.Metrics())
	return err
}

// attach has it answer for an engine.
func (a *API) attach(e *engine.Engine) {
	a.engine = e
	a.books = booksAPI{books: e.Store(), now: e.Now, config: func() *config.Config {
		if g := e.Current(); g != nil {
			return g.Config
		}
		return nil
	}, spool: func() (engine.SpoolState, []spool.Item, error) { return e.Spool(), e.Aside().Items(), nil },
		logged: e.FindRequest, failure: e.FailureOf}
}

// Routes returns the routes under /fareway/.
func (a *API) Routes() []caddy.AdminRoute {
	routes := a.handlers()
	for i, r := range routes {
		routes[i].Handler = a.guard(r.Handler, a.mayAll)
	}
	return append(routes, caddy.AdminRoute{Pattern: "GET /fareway/metrics",
		Handler: a.guard(caddy.AdminHandlerFunc(a.metrics), a.mayMeasure)})
}

// handlers are the routes that need the token, before anybody has asked for it.
func (a *API) handlers() []caddy.AdminRoute {
	routes := []caddy.AdminRoute{
		{Pattern: "GET /fareway/status", Handler: reply(a.status)},
		{Pattern: "GET /fareway/nodes", Handler: reply(a.nodes)},
		{Pattern: "GET /fareway/plugins", Handler: reply(a.plugins)},
		{Pattern: "GET /fareway/plugins/{name}", Handler: reply(a.plugin)},
		{Pattern: "GET /fareway/routes", Handler: reply(a.routes)},
		{Pattern: "GET /fareway/profiles", Handler: reply(a.profiles)},
		{Pattern: "GET /fareway/profiles/curve", Handler: reply(a.curve)},
		{Pattern: "GET /fareway/profiles/calibration", Handler: reply(a.calibration)},
		{Pattern: "POST /fareway/routes/feedback", Handler: a.change(a.feedback)},
		{Pattern: "POST /fareway/accounts", Handler: a.change(a.createAccount)},
		{Pattern: "POST /fareway/accounts/{name}/name", Handler: a.change(a.renameAccount)},
		{Pattern: "POST /fareway/accounts/{name}/plan", Handler: a.change(a.setPlan)},
		{Pattern: "POST /fareway/accounts/{name}/limit", Handler: a.change(a.setLimit)},
		{Pattern: "POST /fareway/accounts/{name}/own-cap", Handler: a.change(a.setOwnCap)},
		{Pattern: "POST /fareway/accounts/{name}/profile", Handler: a.change(a.setProfile)},
		{Pattern: "POST /fareway/accounts/{name}/requires", Handler: a.change(a.setRequires)},
		{Pattern: "POST /fareway/accounts/{name}/mail", Handler: a.change(a.setMail)},
		{Pattern: "POST /fareway/accounts/{name}/state", Handler: a.change(a.setState)},
		{Pattern: "POST /fareway/keys", Handler: a.change(a.createKey)},
		{Pattern: "PATCH /fareway/keys/{id}", Handler: a.change(a.changeKey)},
		{Pattern: "POST /fareway/keys/{id}/rotate", Handler: a.change(a.rotateKey)},
		{Pattern: "DELETE /fareway/keys/{id}", Handler: a.change(a.revokeKey)},
		{Pattern: "POST /fareway/credits", Handler: a.change(a.addCredit)},
		{Pattern: "POST /fareway/adjustments", Handler: a.change(a.adjust)},
		{Pattern: "POST /fareway/refunds", Handler: a.change(a.refund)},
		{Pattern: "POST /fareway/ledger/checkpoints", Handler: a.change(a.makeCheckpoint)},
		{Pattern: "POST /fareway/ledger/prune", Handler: a.change(a.prune)},
		{Pattern: "POST /fareway/reload", Handler: reply(a.reload)},
		{Pattern: "POST /fareway/upgrade", Handler: reply(a.upgrade)},
		{Pattern: "GET /fareway/alerts", Handler: reply(a.alerts)},
		{Pattern: "POST /fareway/hooks/test", Handler: acting(a.testHooks)},
		{Pattern: "POST /fareway/probes", Handler: reply(a.makeProbe)},
		{Pattern: "POST /fareway/plan", Handler: reply(a.plan)},
		{Pattern: "POST /fareway/replay", Handler: lines(a.replanRequests)},
		{Pattern: "GET /fareway/requests", Handler: reply(a.recent)},
		{Pattern: "POST /fareway/explain", Handler: reply(a.explainBody)},
		{Pattern: "GET /fareway/explain/{request}", Handler: reply(a.explain)},
		{Pattern: "GET /fareway/configuration", Handler: reply(a.savedConfiguration)},
		{Pattern: "POST /fareway/configuration", Handler: acting(a.editConfiguration)},
		{Pattern: "GET /fareway/configurations", Handler: reply(a.configurations)},
		{Pattern: "GET /fareway/configurations/{number}", Handler: reply(a.configuration)},
		{Pattern: "/fareway/", Handler: reply(unknownRoute)},
	}
	routes = append(routes, a.books.routes()...)
	routes = append(routes, a.portalRoutes()...)
	routes = append(routes, a.paymentRoutes()...)
	for i := range routes {
		if slices.Contains(takeLong, routes[i].Pattern) {
			routes[i].Handler = a.oneForPages(routes[i].Handler)
		}
	}
	decisions := decisionsAPI{aside: func() *engine.Aside { return a.engine.Aside() }, books: &a.books,
		acceptLoss: func(ctx context.Context, reason string) (ledger.Loss, error) {
			return a.engine.AcceptLoss(ctx, reason)
		}}
	return append(routes, decisions.routes(a.change)...)
}

// takeLong are of what pages may ask for one thing at a time: programs are started by it, and all of a ledger, or a
// week's decisions, are read.
var takeLong = []string{"POST /fareway/plan", "POST /fareway/replay", "POST /fareway/ledger/verify"}

// oneForPages refuses a page while another one's request is answered, which may go on when that page has given up.
func (a *API) oneForPages(next caddy.AdminHandler) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if fromPage(r) {
			if !a.engine.PageWork.TryLock() {
				return problem(http.StatusTooManyRequests, "something large is being looked at for another page: try again in a "+
					"moment")
			}
			defer a.engine.PageWork.Unlock()
		}
		return next.ServeHTTP(w, r)
	})
}

// guard lets nobody in but those who may, and lets a request take its time once it has arrived.
func (a *API) guard(next caddy.AdminHandler, may func(*http.Request) error) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if a.engine == nil {
			return problem(http.StatusServiceUnavailable, "this Caddy runs no gateway: its configuration has no fareway app")
		}
		if err := may(r); err != nil {
			a.strangers.refused(r)
			return err
		}
		if err := readBody(w, r); err != nil {
			return err
		}
		return next.ServeHTTP(w, r)
	})
}

// readBody reads the body, and then takes off the 10 seconds that Caddy gives a request to be read: net/http would
// take the client for gone when they are over, in the middle of a long answer.
func readBody(w http.ResponseWriter, r *http.Request) error {
	limit := maxAdminBody
	if r.URL.Path == "/fareway/plan" || r.URL.Path == "/fareway/replay" || r.URL.Path == "/fareway/configuration" {
		limit = maxPlanBody
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)))
	if err != nil {
		return problem(http.StatusBadRequest, "reading the request body: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	if len(b) == limit {
		return nil // readJSON refuses it; what is left of it keeps its 10 seconds
	}
	// What cannot set it has none.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

// change is for what changes accounts, keys or money: it says who did it, and makes the engine look at every key anew.
func (a *API) change(handle func(*http.Request) (any, error)) caddy.AdminHandler {
	return reply(func(r *http.Request) (any, error) {
		// Also when it has failed: an answer that came too late may be about something that was done.
		defer a.engine.ForgetKeys()
		return handle(r.WithContext(ledger.WithActor(r.Context(), actorOf(r))))
	})
}

// acting is for what is an act and changes nothing that is remembered of accounts and keys.
func acting(handle func(*http.Request) (any, error)) caddy.AdminHandler {
	return reply(func(r *http.Request) (any, error) {
		return handle(r.WithContext(ledger.WithActor(r.Context(), actorOf(r))))
	})
}

// reply answers with one JSON value.
func reply(handle func(*http.Request) (any, error)) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		v, err := handle(r)
		if pruned, ok := errors.AsType[*PrunedProblem](err); ok {
			return pruned.write(w)
		}
		if err != nil {
			return asAPIError(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store") // a new key may be in it
		return json.NewEncoder(w).Encode(v)
	})
}

func unknownRoute(r *http.Request) (any, error) {
	return nil, problem(http.StatusNotFound, "there is no %s %s in the admin API", r.Method, r.URL.Path)
}

// problem is an error with a status of its own.
func problem(status int, format string, args ...any) error {
	return caddy.APIError{HTTPStatus: status, Err: fmt.Errorf(format, args...)}
}

// asAPIError gives an error the status that its kind asks for.
func asAPIError(err error) caddy.APIError {
	if e, ok := errors.AsType[caddy.APIError](err); ok {
		if e.Err != nil {
			e.Err = gateway.OwnError(e.Err)
		}
		return e
	}
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, ledger.ErrExists), errors.Is(err, ledger.ErrLost), errors.Is(err, people.ErrLastOwner),
		errors.Is(err, people.ErrLastAdmin):
		status = http.StatusConflict
	case errors.Is(err, ledger.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, ledger.ErrUnavailable):
		status = http.StatusServiceUnavailable
	}
	return caddy.APIError{HTTPStatus: status, Err: gateway.OwnError(err)}
}

// maxAdminBody is far above any request of this API, in bytes.
const maxAdminBody = 64 << 10

// readJSON decodes the body, which must be one JSON value with no fields that we do not know.
func readJSON[T any](r *http.Request) (T, error) { return readJSONUpTo[T](r, maxAdminBody) }

func readJSONUpTo[T any](r *http.Request, limit int64) (T, error) {
	var v T
	d := json.NewDecoder(io.LimitReader(r.Body, limit))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, problem(http.StatusBadRequest, "reading the request body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, problem(http.StatusBadRequest, "reading the request body: there is more after the JSON value")
	}
	return v, nil
}

var (
	_ caddy.Provisioner = (*API)(nil)
	_ caddy.AdminRouter = (*API)(nil)
)
