package provider

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/memory"
)

const byHand = `This is a Fareway provider plugin; it does nothing on its own.
Put it into the gateway's plugin_dir under the name fareway-provider-NAME, and name it in the gateway's
configuration: provider "mine" { plugin = "NAME" }
`

// Serve is the whole of a plugin's main: it speaks to the gateway that started the process and returns when
// the gateway has no more use for it. It does not outlive the gateway. Started by hand, it says what the
// program is and exits with status 1.
//
// What is logged by log/slog, or written to stderr, reaches the gateway's log. Stdout belongs to the
// protocol until Serve is running: print nothing there before. Files that are made from then on, and the socket,
// are their owner's only (umask 077).
func Serve(p Provider) {
	if os.Getenv(wire.CookieKey) != wire.CookieValue {
		fmt.Fprint(os.Stderr, byHand)
		os.Exit(1)
	}
	syscall.Umask(0o077)
	slog.SetDefault(newLogger(os.Stderr))
	memory.Tune(gcPercent, memoryLimit, nil)
	s, err := newService(p)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// go-plugin replaces both by pipes that travel over gRPC, and so lose what is written right before an
	// exit. The host reads the real ones.
	stdout, stderr := os.Stdout, os.Stderr
	s.onCall = sync.OnceFunc(func() { os.Stdout, os.Stderr = stdout, stderr })
	go watchHost()
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: wire.Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{
			wire.Version: {wire.PluginName: &served{service: s}},
		},
		GRPCServer: newServer,
		Logger: hclog.New(&hclog.LoggerOptions{
			Name: "go-plugin", Level: hclog.Warn, Output: os.Stderr, JSONFormat: true,
		}),
	})
}

// gcPercent is far, for a provider has little that lives, and makes much garbage if the calls are its own.
const gcPercent = 400

// memoryLimit, in bytes, is near what no provider needs: there it collects its garbage as often as it takes.
const memoryLimit = 1 << 30

// ServeListener serves a provider on a listener until ctx ends: without a process, a handshake or TLS, and
// otherwise by the same protocol. It is for tests (package providertest uses it). It returns once the
// listener is closed; its error says what is wrong with the provider's settings.
func ServeListener(ctx context.Context, l net.Listener, p Provider) error {
	s, err := newService(p)
	if err != nil {
		return err
	}
	server := newServer(nil)
	s.register(server)
	defer context.AfterFunc(ctx, server.Stop)()
	if err := server.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving the provider: %w", err)
	}
	return nil
}

// served is the service in the form that go-plugin takes.
type served struct {
	plugin.NetRPCUnsupportedPlugin
	service *service
}

func (s *served) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	s.service.register(server)
	return nil
}

// GRPCClient is the host's half of go-plugin's interface.
func (s *served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("a plugin is no host")
}

// A process that a gateway started does not wait for Serve with it: its other packages may take their time.
func init() {
	if os.Getenv(wire.CookieKey) == wire.CookieValue {
		ignoreSignals()
	}
}

// ignoreSignals keeps the process alive while the gateway drains: a service manager may signal the whole
// group, and a terminal does so on Ctrl-C. watchHost and the host's own kill end it. The signals are caught
// and not set to be ignored, for a child process of the plugin would inherit that.
func ignoreSignals() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, os.Interrupt)
	go func() {
		for range signals {
		}
	}()
}

var _ plugin.GRPCPlugin = (*served)(nil)
