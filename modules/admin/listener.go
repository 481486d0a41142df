package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
)

// Listener is an address of our own for the gateway's part of the admin API, and nothing of Caddy's: who has the
// token can operate the gateway, and cannot change the configuration of the web server around it.
type Listener struct {
	// Listen is host:port, where the listener speaks TLS and asks for the token in admin.token in the data folder, or
	// unix//path for a socket that only the gateway's user can use.
	Listen string `json:"listen,omitempty"`

	// Certificate and Key are PEM files. Default: a certificate that the gateway makes for itself, admin.crt in the data
	// folder, which clients have to be given.
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`

	server *http.Server
}

func init() {
	caddy.RegisterModule(new(Listener))
}

// CaddyModule returns the Caddy module information.
func (*Listener) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "fareway.admin", New: func() caddy.Module { return new(Listener) }}
}

// UnmarshalCaddyfile sets the listener from the app's option:
//
//	admin <address> [<certificate> <key>]
func (l *Listener) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // "admin"
	switch args := d.RemainingArgs(); len(args) {
	case 1:
		l.Listen = args[0]
	case 3:
		l.Listen, l.Certificate, l.Key = args[0], gateway.Beside(d.File(), args[1]), gateway.Beside(d.File(), args[2])
	default:
		return d.ArgErr()
	}
	if err := l.Validate(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// Validate reports what is wrong with the settings.
func (l *Listener) Validate() error {
	_, err := l.parse()
	if err == nil && (l.Certificate == "") != (l.Key == "") {
		err = errors.New("a certificate needs its key, and a key its certificate: name both files")
	}
	if err != nil {
		return fmt.Errorf("the gateway's admin address %q: %w", l.Listen, err)
	}
	return nil
}

func (l *Listener) parse() (caddy.NetworkAddress, error) {
	addr, err := caddy.ParseNetworkAddress(l.Listen)
	switch {
	case err != nil:
	case addr.IsUnixNetwork():
		err = gateway.CheckAdminEndpoint(l.Listen)
	case addr.Network != "tcp" || addr.PortRangeSize() != 1 || addr.StartPort == 0:
		err = errors.New("write host:port or unix//path/to/admin.sock")
	}
	return addr, err
}

// Address is how commands reach the listener.
func (l *Listener) Address() string { return l.Listen }

// Start listens, for the engine on a data folder.
func (l *Listener) Start(data string, e *engine.Engine, log *slog.Logger) error {
	addr, err := l.parse()
	if err != nil {
		return err
	}
	api := new(API)
	if err := api.serve(e); err != nil {
		return err
	}
	server := &http.Server{
		Handler: api.handler(),
		// As Caddy has them at its own endpoint.
		ReadTimeout:       10 * time.Second,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		// Whoever scans the port, or does not know the certificate, fails the handshake: no news.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if !addr.IsUnixNetwork() {
		certificate, err := l.certificate(data)
		if err != nil {
			return err
		}
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
			NextProtos: []string{"http/1.1"}}
	}
	ln, err := listenAdmin(addr)
	if err != nil {
		return fmt.Errorf("listening for administration on %s: %w", l.Listen, err)
	}
	if server.TLSConfig != nil {
		ln = tls.NewListener(ln, server.TLSConfig)
	}
	l.server = server
	go func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serving the admin API", "address", l.Listen, "error", err)
		}
	}()
	return nil
}

// listenAdmin takes an address; a socket's file is its owner's alone.
func listenAdmin(addr caddy.NetworkAddress) (net.Listener, error) {
	if addr.IsUnixNetwork() {
		if parsed, err := caddy.ParseNetworkAddress(gateway.WithMode(addr.String())); err == nil {
			addr = parsed
		}
	}
	return gateway.Listen(addr)
}

func (l *Listener) certificate(data string) (tls.Certificate, error) {
	certificate, key := l.Certificate, l.Key
	if certificate == "" {
		var err error
		if certificate, key, err = makeAdminCertificate(data); err != nil {
			return tls.Certificate{}, err
		}
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading the certificate of the admin address: %w", err)
	}
	return pair, nil
}

// Cleanup stops listening.
func (l *Listener) Cleanup() error {
	if l.server == nil {
		return nil
	}
	// A list that is being read may go on; it looks at the engine, which outlives a reload.
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if l.server.Shutdown(ctx) != nil {
			_ = l.server.Close() // its time is over
		}
	}()
	return nil
}

// handler serves the routes as Caddy's admin endpoint does.
func (a *API) handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range a.Routes() {
		mux.HandleFunc(route.Pattern, plain(route.Handler))
	}
	return mux
}

var (
	_ caddy.Validator       = (*Listener)(nil)
	_ caddy.CleanerUpper    = (*Listener)(nil)
	_ caddyfile.Unmarshaler = (*Listener)(nil)
)
