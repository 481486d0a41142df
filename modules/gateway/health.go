package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/modules/internal/engine"
)

// healthServer answers GET /healthz (the process runs) and /readyz (it would take a request) on a listener
// of its own, never under the public address (GAP-100).
type healthServer struct {
	engine  *engine.Engine
	address string
	server  *http.Server
}

func (h *healthServer) start(log *slog.Logger) error {
	addr, err := caddy.ParseNetworkAddressWithDefaults(h.address, "tcp", 0)
	if err != nil {
		return fmt.Errorf("reading the health address %q: %w", h.address, err)
	}
	ln, err := Listen(addr)
	if err != nil {
		return fmt.Errorf("listening for health checks on %s: %w", h.address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, h.engine.Ready()) })
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := h.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serving health checks", "error", err)
		}
	}()
	return nil
}

func (h *healthServer) stop() {
	if h.server != nil {
		h.server.Close()
	}
}

func writeHealth(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
