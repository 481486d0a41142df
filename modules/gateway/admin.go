package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func init() {
	caddy.RegisterModule(new(AdminAPI))
}

// AdminAPI serves the gateway's part of Caddy's admin endpoint, for operators and for the command line:
//
//	GET    /fareway/status                  what runs
//	POST   /fareway/accounts                {"name", "plan"?} makes an account with a balance of 0
//	GET    /fareway/accounts                all accounts
//	GET    /fareway/accounts/{name}         one account, by name or id
//	POST   /fareway/accounts/{name}/state   {"state": "active" | "suspended" | "inactive"}
//	POST   /fareway/keys                    {"account", "name"} makes a key and shows it, this once
//	GET    /fareway/keys[?account=NAME]     keys, without their secrets
//	DELETE /fareway/keys/{id}               revokes a key
//	POST   /fareway/credits                 {"account", "credits", "reference"?, "reason"?} tops up
//	POST   /fareway/ledger/verify           recomputes the ledger
//
// Bodies are JSON; admin_view.go has the replies. An error is Caddy's own shape, {"error": "what is wrong and
// what to do"}, with status 400 (the request makes no sense), 401 (the token is missing or wrong), 404, 409
// (the name is taken), 503 (no gateway, or its database is away) or 500.
//
// A request over TCP needs `Authorization: Bearer TOKEN` with the token in admin.token in the data folder. On
// a unix socket the socket's permissions decide.
type AdminAPI struct {
	engine *engine.Engine // nil when this Caddy's configuration has no gateway
	token  adminToken
}

// CaddyModule returns the Caddy module information.
func (*AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.fareway", New: func() caddy.Module { return new(AdminAPI) }}
}

// Provision finds the gateway of the configuration. Caddy does this before it starts the apps and before it
// takes the admin address, so that a gateway that cannot start leaves a running one's admin socket alone.
func (a *AdminAPI) Provision(ctx caddy.Context) error {
	app, err := ctx.AppIfConfigured("fareway")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil
	}
	if err != nil {
		return err
	}
	a.engine = app.(*App).Engine()
	a.token, err = loadAdminToken(a.engine.DataDir())
	return err
}

// Routes returns the routes under /fareway/.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		a.route("GET /fareway/status", a.status),
		a.route("POST /fareway/accounts", a.createAccount),
		a.route("GET /fareway/accounts", a.listAccounts),
		a.route("GET /fareway/accounts/{name}", a.showAccount),
		a.route("POST /fareway/accounts/{name}/state", a.setState),
		a.route("POST /fareway/keys", a.createKey),
		a.route("GET /fareway/keys", a.listKeys),
		a.route("DELETE /fareway/keys/{id}", a.revokeKey),
		a.route("POST /fareway/credits", a.addCredit),
		a.route("POST /fareway/ledger/verify", a.verify),
		a.route("/fareway/", a.unknown),
	}
}

// route wraps what all routes share: the token, and JSON for results and errors.
func (a *AdminAPI) route(pattern string, handle func(*http.Request) (any, error)) caddy.AdminRoute {
	serve := func(w http.ResponseWriter, r *http.Request) error {
		if a.engine == nil {
			return problem(http.StatusServiceUnavailable, "this Caddy runs no gateway: its configuration has no fareway app")
		}
		if err := a.token.authorize(r); err != nil {
			return err
		}
		v, err := handle(r)
		if err != nil {
			return asAPIError(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store") // a new key may be in it
		return json.NewEncoder(w).Encode(v)
	}
	return caddy.AdminRoute{Pattern: pattern, Handler: caddy.AdminHandlerFunc(serve)}
}

func (a *AdminAPI) unknown(r *http.Request) (any, error) {
	return nil, problem(http.StatusNotFound, "there is no %s %s in the admin API", r.Method, r.URL.Path)
}

func (a *AdminAPI) verify(r *http.Request) (any, error) {
	return a.engine.Store().Verify(r.Context())
}

// problem is an error with a status of its own.
func problem(status int, format string, args ...any) error {
	return caddy.APIError{HTTPStatus: status, Err: fmt.Errorf(format, args...)}
}

// asAPIError gives an error the status that its kind asks for.
func asAPIError(err error) error {
	if e, ok := errors.AsType[caddy.APIError](err); ok {
		return e
	}
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, ledger.ErrExists):
		status = http.StatusConflict
	case errors.Is(err, ledger.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, ledger.ErrUnavailable):
		status = http.StatusServiceUnavailable
	}
	return caddy.APIError{HTTPStatus: status, Err: err}
}

// maxAdminBody is far above any request of this API, in bytes.
const maxAdminBody = 64 << 10

// readJSON decodes the body, which must be one JSON value with no fields that we do not know.
func readJSON[T any](r *http.Request) (T, error) {
	var v T
	d := json.NewDecoder(io.LimitReader(r.Body, maxAdminBody))
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
	_ caddy.Provisioner = (*AdminAPI)(nil)
	_ caddy.AdminRouter = (*AdminAPI)(nil)
)
