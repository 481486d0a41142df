// Package entry is the outermost handler of the gateway. It gives every request its id, finds the endpoint
// in the path table, recovers from panics, and writes the access line. It is placed by the site directive
// `fareway`; auth, limits and exchange come after it.
package entry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/plugins/families"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler gives requests their id and their endpoint. It must come before the gateway's other handlers, and
// what comes after it never returns an error to Caddy: Caddy would log the request's headers, keys included.
type Handler struct {
	engine func() *engine.Engine // nil while the gateway is not open
	table  *table
	log    *zap.Logger // not slog: there is a line for every request
	resets *resets
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.fareway", New: func() caddy.Module { return new(Handler) }}
}

// New makes the handler outside of a Caddy configuration, for tests and for embedding.
func New(e *engine.Engine, all []families.Server, log *zap.Logger) (*Handler, error) {
	return newHandler(func() *engine.Engine { return e }, all, log)
}

func newHandler(e func() *engine.Engine, all []families.Server, log *zap.Logger) (*Handler, error) {
	h := &Handler{engine: e, log: log, resets: new(resets)}
	var err error
	h.table, err = newTable(all)
	return h, err
}

// Provision builds the path table from the registered families.
func (h *Handler) Provision(ctx caddy.Context) error {
	app, err := gateway.FindApp(ctx)
	if err != nil {
		return err
	}
	all, err := loadFamilies(ctx)
	if err != nil {
		return err
	}
	made, err := newHandler(app.Engine, all, ctx.Logger())
	if err != nil {
		return err
	}
	*h = *made
	app.SetEndpoints(h.table.names())
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		server.RegisterConnContext(func(ctx context.Context, c net.Conn) context.Context {
			boundUnsent(c)
			return gateway.WithConn(ctx, c)
		})
		allowHeaders(server)
		boundBodies(server)
		keepFromRedirects(ctx, server)
	}
	return nil
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	// Caddy's own access log would print x-api-key; the gateway writes its own line.
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)

	now := time.Now()
	call := &gateway.Call{ID: gateway.NewID(now), Start: now, From: gateway.ClientAddress(r)}
	if e := h.engine(); e != nil {
		call.Work = e.Begin()
	}
	if call.Work != nil && gateway.Relays() {
		defer call.Work.Done()    // the proxy panics when the client has left
		_ = h.table.find(r, call) // only for the shape of a refusal
		gateway.Relay(w, r, call)
		return nil
	}
	rec := newRecorder(w, r, call)
	err := h.serve(rec, r, call, next)
	if rec.hasUnreadBody() {
		gateway.Lingering.End(w, r, call.Principal.Account.ID != "" && rec.status != http.StatusUnauthorized)
	}
	return err
}

// serve answers the request. When it returns, all that was taken for it is given back.
func (h *Handler) serve(rec *recorder, r *http.Request, call *gateway.Call, next caddyhttp.Handler) (err error) {
	refusal := h.table.find(r, call)
	if call.Work != nil {
		defer call.Work.Done()
	}
	rec.Header().Set("X-Request-Id", call.ID)
	if call.Family.APIKeyHeader() {
		// The messages family's client libraries read the id from this name (GAP-91).
		rec.Header().Set("Request-Id", call.ID)
	}
	defer func() {
		if p := recover(); p != nil {
			err = h.recovered(p, rec, call)
		}
		h.finish(r, rec, call)
		if rec.aborted {
			panic(http.ErrAbortHandler)
		}
	}()
	switch {
	case refusal != nil:
		return call.Refuse(rec, refusal)
	case call.Work == nil:
		return call.Refuse(rec, &families.Error{Status: http.StatusServiceUnavailable, Code: families.UpstreamError,
			Message: "The service is starting. Try again in a few seconds." + families.Support})
	}
	inner, err := gateway.Entered(r, call)
	if err == nil {
		err = next.ServeHTTP(rec, inner)
	}
	if err == nil && rec.status == 0 {
		err = gateway.ErrUnanswered // Caddy would make an empty 200 of it
	}
	if err != nil {
		// A handler placed by hand among ours may do what ours never do.
		h.log.Error("handling a request", zap.String("request_id", call.ID), zap.Error(err))
		if rec.status == 0 {
			return call.Refuse(rec, gateway.InternalError())
		}
	}
	return nil
}

// recovered answers a panic: 500 when nothing has been written (ERR-24), otherwise the connection is
// aborted so that the reply does not look complete.
func (h *Handler) recovered(p any, rec *recorder, call *gateway.Call) error {
	if e, ok := p.(error); ok && errors.Is(e, http.ErrAbortHandler) {
		rec.aborted = true
		return nil
	}
	// A panic of the runtime says what went wrong; any other value may hold a piece of a prompt.
	what := fmt.Sprintf("a %T", p)
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	h.log.Error("recovered from a panic", zap.String("request_id", call.ID), zap.String("panic", what),
		zap.ByteString("stack", debug.Stack()))
	if rec.status != 0 {
		rec.aborted = true
		return nil
	}
	return call.Refuse(rec, gateway.InternalError())
}

const (
	// caddysHeaders is what Caddy gives a server that says nothing of it, in bytes, before handlers are provisioned: one
	// that says just this cannot be told from it.
	caddysHeaders = 16 << 10
	// maxHeaders is how much a request's line and headers may take unless the server says otherwise, in bytes: net/http's
	// own measure. Agents send more than Caddy's in headers of their own.
	maxHeaders = http.DefaultMaxHeaderBytes
)

// allowHeaders lets a server take longer headers than Caddy does, unless its `max_header_size` says how long.
func allowHeaders(server *caddyhttp.Server) {
	if server.MaxHeaderBytes == caddysHeaders {
		server.MaxHeaderBytes = maxHeaders
	}
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
