package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// grace is how long a process has to end by itself once it is asked to.
const grace = 2 * time.Second

// process is one running plugin.
type process struct {
	exe    executable
	child  *child
	client *plugin.Client
	conn   *grpc.ClientConn
	rpc    proto.ProviderClient

	about  *proto.DescribeResponse
	schema settings.Schema

	verdict  atomic.Pointer[failure] // why the host killed it; nil when it did not
	unfit    chan *failure           // capacity 1: why it is to be replaced
	stopping atomic.Bool             // the host ends it

	// Behind the plugin's mu.
	streams  int
	idle     chan struct{} // closed when the last stream ends; nil while nobody waits for that
	offences offences
}

// launch starts a plugin and asks it what it is. ctx has a deadline (withStartTimeout); what launch starts
// does not depend on it once launch has returned.
func launch(ctx context.Context, exe executable, secrets *scrubber, log *slog.Logger) (*process, error) {
	p := &process{exe: exe, child: newChild(exe, secrets, log), unfit: make(chan *failure, 1)}
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{wire.Version: {wire.PluginName: client{}}},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			p.child.prepare(cmd.Env)
			return p.child, nil
		},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     time.Hour,             // ctx ends first, and tells why
		Logger:           hclog.NewNullLogger(), // what it would say, our errors and our log say
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: socketDir()},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithInitialWindowSize(wire.Window),
			grpc.WithInitialConnWindowSize(4 * wire.Window),
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(wire.MaxResponse),
				grpc.MaxCallSendMsgSize(wire.MaxRequest),
				// A request is not kept until its reply begins in order to be sent once more by gRPC: its copy
				// would take 1 MiB for as long as the upstream is silent. The gateway tries another route.
				grpc.MaxRetryRPCBufferSize(0),
			),
		},
	})
	stop := context.AfterFunc(ctx, p.child.killGroup)
	err := p.connect(ctx)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// withStartTimeout bounds a start; its error names the setting.
func withStartTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d,
		fail(CauseSlowStart, "it was not ready within its start_timeout of %s; see its log, or allow it more", d))
}

// socketDir is where the folder of the plugin's socket is made: a socket's name has a limit of about 100
// bytes, and some systems have long names for temporary folders.
func socketDir() string {
	if dir := os.TempDir(); len(dir) <= 50 {
		return dir
	}
	return "/tmp"
}

// connect makes the handshake and asks the plugin what it is.
func (p *process) connect(ctx context.Context) error {
	conn, err := p.client.Client()
	if err != nil {
		return p.handshakeError(ctx, err)
	}
	if network := p.client.ReattachConfig().Addr.Network(); network != "unix" {
		return fail(CauseHandshake, "starting plugin %q: it listens on the network %q; a plugin listens on a unix socket in "+
			"PLUGIN_UNIX_SOCKET_DIR, which no other user reaches", p.exe.plugin, network)
	}
	raw, err := conn.Dispense(wire.PluginName)
	if err != nil {
		return fmt.Errorf("connecting to plugin %q: %w", p.exe.plugin, err)
	}
	p.conn = raw.(*grpc.ClientConn)
	p.rpc = proto.NewProviderClient(p.conn)
	p.about, err = p.rpc.Describe(ctx, &proto.DescribeRequest{})
	if err != nil {
		return p.callError(ctx, "asking what it is", err)
	}
	p.schema = wire.SchemaFromProto(p.about.GetSchema())
	return nil
}

// handshakeError says in the operator's words why there was no handshake. err is go-plugin's account, which
// is for developers.
func (p *process) handshakeError(ctx context.Context, err error) error {
	p.child.killGroup()
	doing := fmt.Sprintf("starting plugin %q (%s)", p.exe.plugin, strings.Join(p.exe.argv, " "))
	if p.child.ID() == "0" {
		return fmt.Errorf("%s: %w; check that it is built for this machine", doing, err)
	}
	select {
	case <-p.child.exited:
	case <-time.After(grace):
		return fmt.Errorf("%s: %w, and it does not die", doing, err)
	}
	line := p.child.firstLine()
	parts := strings.Split(line, "|")
	line = p.child.scrub.clean(line)
	switch {
	case line == "" && ctx.Err() != nil:
		return fmt.Errorf("%s: %w; %s", doing, context.Cause(ctx), p.child.say)
	case line == "":
		return fail(CauseCrash, "%s: it ended before the handshake (%s); %s", doing, p.child.exitText(), p.child.say)
	case len(parts) < 4 || parts[0] != fmt.Sprint(plugin.CoreProtocolVersion):
		return fail(CauseHandshake, "%s: it printed %q on stdout before the handshake; stdout belongs to the protocol, "+
			"a plugin prints to stderr", doing, line)
	case parts[1] != fmt.Sprint(wire.Version):
		return fail(CauseHandshake, "%s: it speaks version %s of the plugin protocol, and this gateway version %d; %sbuild "+
			"it with the gateway's version of github.com/fareway/fareway/plugins/provider, or, in another language, by what "+
			"`fareway gateway plugin proto` prints", doing,
			p.child.scrub.clean(parts[1][:min(len(parts[1]), 20)]), wire.Version, newer(parts[1]))
	}
	if len(parts) < 6 || parts[4] != "grpc" {
		return fail(CauseHandshake, "%s: its handshake is %q, and has to be 1|%d|unix|PATH|grpc|CERTIFICATE in one line; "+
			"see `fareway gateway plugin proto`", doing, line, wire.Version)
	}
	return fail(CauseHandshake, "%s: making the handshake: %w; %s", doing, err, p.child.say)
}

// newer is what else to do about a plugin of a later version of the protocol.
func newer(version string) string {
	if n, err := strconv.Atoi(version); err == nil && n > wire.Version {
		return "update the gateway, or "
	}
	return ""
}

// callError says why a call of the start failed.
func (p *process) callError(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded {
		<-ctx.Done() // the plugin has the same deadline, and can see it a moment earlier
		err = context.Cause(ctx)
	} else if how := p.death(err); how != "" {
		err = fail(CauseCrash, "%s", how)
	} else {
		err = errors.New(p.child.scrub.clean(err.Error()))
	}
	return fmt.Errorf("starting plugin %q: %s: %w", p.exe.plugin, doing, err)
}

// death says how the process died, "" while it lives. A broken connection, which err may tell of, can be seen a moment
// before the end of its process; that moment is waited for.
func (p *process) death(err error) string {
	moment := 100 * time.Millisecond
	if status.Code(err) == codes.Unavailable {
		moment = grace
	}
	select {
	case <-p.child.exited:
		return p.ending().Error()
	case <-time.After(moment):
		return ""
	}
}

// ending says why the process, which is gone, has ended.
func (p *process) ending() *failure {
	if f := p.verdict.Load(); f != nil {
		return fail(f.cause, "%w; %s", f.err, p.child.say)
	}
	return fail(CauseCrash, "its process died (%s); %s", p.child.exitText(), p.child.say)
}

// condemn kills the process at once. The first reason counts.
func (p *process) condemn(f *failure) {
	p.verdict.CompareAndSwap(nil, f)
	p.child.killGroup()
}

// replace has the process replaced as soon as another one is ready. It goes on until then.
func (p *process) replace(f *failure) {
	select {
	case p.unfit <- f:
	default: // there is a reason already
	}
}

// configure hands over the settings and checks the health. ctx has a deadline, as for launch.
func (p *process) configure(ctx context.Context, values settings.Values) error {
	p.child.scrub.learn(&p.schema, values) // before it has anything to tell
	configured, err := p.rpc.Configure(ctx, &proto.ConfigureRequest{Settings: values})
	if err != nil {
		return p.callError(ctx, "configuring it", err)
	}
	if problem := configured.GetError(); problem != "" {
		return fmt.Errorf("configuring plugin %q: %s", p.exe.plugin, p.child.scrub.clean(problem))
	}
	if less := configured.GetCapabilities(); less != nil {
		p.about.Capabilities = less
	}
	health, err := p.rpc.Health(ctx, &proto.HealthRequest{})
	if err != nil {
		return p.callError(ctx, "checking its health", err)
	}
	if problem := health.GetError(); problem != "" {
		return fmt.Errorf("checking the health of plugin %q: %s", p.exe.plugin, p.child.scrub.clean(problem))
	}
	return nil
}

// failure is how a call ended, as the plugin says; nil when it did not fail.
func (p *process) failure(f *proto.Failure) *llm.Error {
	err := wire.FailureFromProto(f)
	if err != nil {
		err.Message = p.child.scrub.clean(err.Message)
	}
	return err
}

// stop asks the process to end, and kills it if it does not.
func (p *process) stop() {
	p.stopping.Store(true)
	watchdog := time.AfterFunc(grace, p.child.killGroup)
	defer watchdog.Stop()
	p.client.Kill()
}

// kill ends the process at once.
func (p *process) kill() {
	p.stopping.Store(true)
	p.child.killGroup()
	p.client.Kill() // removes the socket, and waits for go-plugin's goroutines
}

// client is the host's half of what go-plugin knows of a plugin.
type client struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCClient implements plugin.GRPCPlugin.
func (client) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// GRPCServer is the plugin's half.
func (client) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a host is no plugin")
}

var _ plugin.GRPCPlugin = client{}
