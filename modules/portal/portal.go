// Package portal serves the portal at /portal/*: pages on which accounts see their money and their requests, and
// operators see their gateway. It is there where the configuration has a portal block.
//
// Who somebody is, package people knows. What a page shows and does goes through the admin API (admin.Local), so that
// it has the same checks and the same audit trail as the command line, and no power that those lack; what of it is for
// whom is decided here, at one place (places). How pages look is in views, what they say in texts.
package portal

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/klauspost/compress/gzhttp"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
)

func init() {
	caddy.RegisterModule(new(Handler))
	httpcaddyfile.RegisterHandlerDirective("fareway_portal", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler,
		error) {
		p := new(Handler)
		return p, p.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("fareway_portal", httpcaddyfile.Before, "reverse_proxy")
}

// Handler serves the portal at /portal and below, where the gateway's configuration has a portal block; anything else
// it leaves to what comes after it. The directive `fareway` has it in it.
type Handler struct {
	engine func() *engine.Engine // nil while the gateway is not open
	log    *slog.Logger
	mux    *http.ServeMux
	packed http.Handler // mux, which packs what it answers
	guard  *http.CrossOriginProtection
	site   http.Handler // the server that serves it, nil where that is not known
	live   liveViews
	// letters has a place for each link that is made and mailed at a time for who has asked.
	letters chan struct{}
	mu      sync.Mutex
	local   *admin.Local
	of      *engine.Engine // whose API it is
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.fareway_portal", New: func() caddy.Module { return new(Handler) }}
}

// UnmarshalCaddyfile reads the directive, which takes nothing:
//
//	fareway_portal [<matcher>]
func (*Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // its name
	if d.NextArg() {
		return d.ArgErr()
	}
	if d.NextBlock(0) {
		return d.Err("the directive fareway_portal takes no block: its configuration is the block portal in the HCL file")
	}
	return nil
}

// Provision finds the gateway.
func (h *Handler) Provision(ctx caddy.Context) error {
	app, err := gateway.FindApp(ctx)
	if err != nil {
		return err
	}
	h.prepare(app.Engine, ctx.Slogger())
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		// A live view would keep a server that ends from ending.
		server.RegisterOnShutdown(h.live.end)
		h.site = server
	}
	return nil
}

func (h *Handler) prepare(e func() *engine.Engine, log *slog.Logger) {
	h.engine, h.log, h.guard = e, log, http.NewCrossOriginProtection()
	h.live.over, h.letters = make(chan struct{}), make(chan struct{}, maxLetters)
	h.mux = http.NewServeMux()
	for _, p := range places {
		h.mux.HandleFunc(p.pattern, func(w http.ResponseWriter, r *http.Request) { h.enter(w, r, &p) })
	}
	h.mux.HandleFunc("GET /portal/assets/{name}", serveAsset)
	h.mux.HandleFunc("GET /portal", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/portal/", http.StatusMovedPermanently)
	})
	h.mux.HandleFunc("/portal/", func(w http.ResponseWriter, r *http.Request) {
		h.enter(w, r, &place{open: true, serve: func(*visit) error { return errNotFound }})
	})
	pack, err := gzhttp.NewWrapper(gzhttp.RandomJitter(64, 0, true))
	if err != nil {
		panic(err) // the options are fixed
	}
	h.packed = pack(h.mux)
}

// livePath is where requests are seen as they end.
const livePath = "/portal/live"

// IsHere reports whether a path is the portal's.
func IsHere(path string) bool { return path == "/portal" || strings.HasPrefix(path, "/portal/") }

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !IsHere(r.URL.Path) {
		return next.ServeHTTP(w, r)
	}
	// Caddy's own access log would print cookies, and the links of invitations.
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	e := h.engine()
	if e == nil || e.People() == nil {
		return next.ServeHTTP(w, r)
	}
	// What is live has to leave at once. And an answer that has a secret in it, as a form's may, or text of a link's
	// maker, says by how long it is packed what is in it.
	if r.Method != http.MethodGet || r.URL.RawQuery != "" || r.URL.Path == livePath {
		h.mux.ServeHTTP(w, r)
		return nil
	}
	h.packed.ServeHTTP(w, r)
	return nil
}

// api is the admin API of the engine, for one who acts.
func (h *Handler) api(e *engine.Engine, actor string) *admin.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.local == nil || h.of != e {
		h.local, h.of = admin.NewLocal(e), e
	}
	return h.local.As(actor)
}

// enter serves a place to who may see it.
func (h *Handler) enter(w http.ResponseWriter, r *http.Request, p *place) {
	start := time.Now()
	nonce := newNonce()
	secureHeaders(w.Header(), nonce)
	rec := &statusWriter{ResponseWriter: w}
	v := &visit{Handler: h, w: rec, r: r, engine: h.engine(), place: p, nonce: nonce}
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // what net/http compares
				panic(p)
			}
			what := "a value"
			if e, ok := p.(runtime.Error); ok {
				what = e.Error()
			}
			h.log.Error("recovered from a panic", "panic", what, "stack", string(debug.Stack()))
			if rec.status == 0 {
				v.fail(errors.New("a panic"))
			}
		}
		h.log.Info("portal", "method", r.Method, "page", p.pattern, "status", rec.status, "person", v.person.ID,
			"address", v.client.Address, "milliseconds", time.Since(start).Milliseconds())
	}()
	if v.engine == nil {
		http.Error(rec, "The gateway is starting.", http.StatusServiceUnavailable)
		return
	}
	if v.service = v.engine.People(); v.service == nil {
		http.NotFound(rec, r) // the configuration has just taken it away
		return
	}
	if err := v.open(); err != nil {
		v.fail(err)
		return
	}
	if err := p.serve(v); err != nil {
		v.fail(err)
	}
}

// newNonce is what scripts of one page are told apart by.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// secureHeaders forbid whatever the pages do not need. Forms may lead to issuers of OpenID Connect: browsers look at
// where they redirect.
func secureHeaders(h http.Header, nonce string) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+nonce+"'; style-src 'self'; "+
		"img-src 'self' data:; connect-src 'self'; form-action 'self' https:; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
}

// statusWriter remembers how a request was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
)
