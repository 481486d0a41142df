package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/modules/internal/spool"
)

// read does what only reads the ledger, with the gateway that runs or, with none and no address to insist on, with
// the database in the data folder: then the reading half of the admin API is served in this process. So there is one
// way to ask, and the answers are the same.
func (t *target) read(cmd *cobra.Command, ask func(c *client) error) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	c.source = "the gateway at " + c.address
	err = ask(c)
	if t.admin != "" || !errors.Is(err, errNoGateway) {
		return err
	}
	data, err := t.dir()
	if err != nil {
		return err
	}
	path, cfg, err := ledgerFile(cmd.Context(), data)
	if err != nil {
		return err
	}
	books, err := sqlite.OpenBooks(cmd.Context(), path)
	if err != nil {
		return err
	}
	api := booksAPI{books: books, now: time.Now, config: func() *config.Config { return cfg },
		spool:  func() (engine.SpoolState, []spool.Item, error) { return engine.ReadSpool(path) },
		logged: func(_ context.Context, id string) (requestlog.Record, error) { return findLogged(data, cfg, id) }}
	return errors.Join(serveHere(api.routes(), path, ask), books.Close())
}

// decide is for what changes the ledger and is possible without a gateway, too: then it is done in this process,
// which takes the ledger's lock for it. Beside a gateway that starts or ends that is refused.
func (t *target) decide(cmd *cobra.Command, ask func(c *client) error) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	if err := ask(c); t.admin != "" || !errors.Is(err, errNoGateway) {
		return err
	}
	data, err := t.dir()
	if err != nil {
		return err
	}
	path, cfg, err := ledgerFile(cmd.Context(), data)
	if err != nil {
		return err
	}
	aside, books, closeAside, err := engine.OpenAside(path, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	api := booksAPI{books: books, now: time.Now, config: func() *config.Config { return cfg },
		spool: func() (engine.SpoolState, []spool.Item, error) {
			return engine.SpoolState{Aside: aside.Path()}, aside.Items(), nil
		},
		logged: func(_ context.Context, id string) (requestlog.Record, error) { return findLogged(data, cfg, id) }}
	decisions := asideAPI{aside: func() *engine.Aside { return aside }, books: &api}
	routes := append(decisions.routes(func(handle func(*http.Request) (any, error)) caddy.AdminHandler {
		return reply(func(r *http.Request) (any, error) {
			return handle(r.WithContext(ledger.WithActor(r.Context(), localActor()+" via file")))
		})
	}), caddy.AdminRoute{Pattern: "GET /fareway/ledger/spool", Handler: list(api.listAside)})
	return errors.Join(serveHere(routes, path, ask), closeAside())
}

// ledgerFile is where a data folder's ledger is, and the folder's configuration, nil when it cannot be read.
func ledgerFile(ctx context.Context, data string) (path string, cfg *config.Config, err error) {
	cfg = readConfig(ctx, data)
	store := config.DefaultStore()
	if cfg != nil {
		store = cfg.Store
	}
	path = store.File(data)
	if _, err := os.Stat(path); err != nil {
		return path, cfg, fmt.Errorf("no gateway is running on %s, and there is no ledger to read: %w; "+
			"name the data folder with --data", data, err)
	}
	return path, cfg, nil
}

// findLogged looks for a request in the log of a gateway that does not run.
func findLogged(data string, cfg *config.Config, id string) (requestlog.Record, error) {
	age := config.DefaultRequestLog
	if cfg != nil {
		age = cfg.Gateway.RequestLog
	}
	return requestlog.Find(engine.RequestLogDir(data), id, time.Now().Add(-age))
}

// readConfig reads the data folder's gateway.hcl; nil when it cannot be read (here and now, without the service's
// environment).
func readConfig(ctx context.Context, data string) *config.Config {
	cfg, diags := engine.CheckConfig(ctx, filepath.Join(data, "gateway.hcl"), slog.New(slog.DiscardHandler))
	if diags.HasErrors() {
		return nil
	}
	return cfg
}

// serveHere serves the admin API's routes to a client in this process, for as long as ask takes.
func serveHere(routes []caddy.AdminRoute, path string, ask func(c *client) error) error {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.Pattern, plain(route.Handler))
	}
	ln := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: mux}
	ended := make(chan struct{})
	go func() {
		_ = srv.Serve(ln) // its only end is Close
		close(ended)
	}()
	c := &client{address: path, source: path, offline: true, network: "unix", http: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: ln.dial},
	}}
	err := ask(c)
	if closing := srv.Close(); err == nil {
		err = closing
	}
	<-ended
	return err
}

// plain answers errors as Caddy's admin endpoint does.
func plain(h caddy.AdminHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h.ServeHTTP(w, r)
		if err == nil {
			return
		}
		e := asAPIError(err)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(e.HTTPStatus)
		// The client may be gone; there is nobody left to tell.
		_ = json.NewEncoder(w).Encode(adminError{Message: e.Err.Error()})
	}
}

// pipeListener accepts connections that are dialled in this process.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The server calls it once.
func (l *pipeListener) Close() error {
	close(l.done)
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "this process", Net: "unix"} }

var _ net.Listener = (*pipeListener)(nil)
