// Package host runs provider plugins: it finds their executables, starts, configures, watches and restarts
// their processes, and makes attempts on them. It is for the gateway only; the author of a plugin wants
// package plugins/provider, and the protocol between the two is plugins/internal/proto/provider.proto.
//
// What it keeps apart, for the gateway decides by it: a provider's process died (llm.ErrDied), the caller
// left (llm.ErrCanceled), and what the provider says of its upstream (every other kind).
package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// DefaultStartTimeout is how long a start may take where a Spec does not say.
const DefaultStartTimeout = 10 * time.Second

// Options are what a Host needs of the gateway.
type Options struct {
	// Builtin returns the command that starts a built-in provider, normally this program again:
	// {"/proc/self/exe", "gateway", "provider", name}. nil: nothing is built in.
	Builtin func(name string) (argv []string, ok bool)
	// Logger takes what plugins log and what happens to them. nil: slog.Default().
	Logger *slog.Logger
	// OnState is told when a provider's state changes, by one goroutine for each process. It must not call
	// the host. May be nil.
	OnState func(provider string, s State)
	// OnFailure is told why a provider's process has to be started again. It must not call the host. May be nil.
	OnFailure func(provider string, c Cause)
	// OnViolation is told when a provider breaks the plugin protocol. It must not call the host. May be nil.
	OnViolation func(provider string, v Violation)
	// Clock paces restarts, health checks and drains. nil: the real one.
	Clock Clock
}

// Clock is time, which tests turn by hand.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Source says where a plugin comes from.
type Source struct {
	// Plugin is its name: built in, or of the file fareway-provider-NAME in Dir.
	Plugin string
	// Dir is the absolute path of the plugin folder, "" for built-in providers only.
	Dir string
	// SHA256, in hex, pins the file's content. "" pins nothing. With it the file in Dir is used even where
	// a provider of that name is built in.
	SHA256 string
	// StartTimeout bounds the start in which Schema asks for the settings; Acquire goes by its Spec's. 0:
	// DefaultStartTimeout.
	StartTimeout time.Duration
}

// Spec is a provider as configured.
type Spec struct {
	Name     string // the operator's name for it
	Source   Source
	Settings settings.Values // never logged
	// StartTimeout bounds the start: handshake, settings and first health check. 0: DefaultStartTimeout.
	StartTimeout time.Duration
	// DrainTimeout is how long the streams of a released provider may go on. 0: not at all.
	DrainTimeout time.Duration
	// MaxMemory bounds the resident memory that the process and what it starts have to themselves, in bytes. From nine
	// tenths of it on it is replaced, its streams going on; beyond it, it is killed; and a start that ends there fails.
	// Linux only. 0: no bound.
	MaxMemory int64
	Confine   Confine
	// Telemetry: the process gets the environment variables OTEL_*, to send spans of its own.
	Telemetry bool
}

// Host runs plugins. Its methods may be called concurrently.
type Host struct {
	builtin     func(string) ([]string, bool)
	log         *slog.Logger
	onState     func(string, State)
	onFailure   func(string, Cause)
	onViolation func(string, Violation)
	clock       Clock

	life    context.Context // ends with Close
	end     context.CancelCauseFunc
	running sync.WaitGroup
	scrub   scrubber        // what the configuration has from outside
	calls   endpoint.Client // of providers that say where calls go

	mu     sync.Mutex
	closed bool
	pool   map[string]*Plugin // by poolKey
	abouts map[string]About   // by executable.key
}

// New makes a host. Close ends it.
func New(o Options) *Host {
	h := &Host{
		builtin:     o.Builtin,
		log:         o.Logger,
		onState:     o.OnState,
		onFailure:   o.OnFailure,
		onViolation: o.OnViolation,
		clock:       o.Clock,
		pool:        make(map[string]*Plugin),
		abouts:      make(map[string]About),
	}
	h.life, h.end = context.WithCancelCause(context.Background())
	if h.builtin == nil {
		h.builtin = func(string) ([]string, bool) { return nil, false }
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	if h.onState == nil {
		h.onState = func(string, State) {}
	}
	if h.onFailure == nil {
		h.onFailure = func(string, Cause) {}
	}
	if h.onViolation == nil {
		h.onViolation = func(string, Violation) {}
	}
	if h.clock == nil {
		h.clock = systemClock{}
	}
	return h
}

// Redact makes a value known that the configuration has from outside, of an environment variable or a file: it is
// replaced in all that plugins and upstreams say from then on, wherever that is shown. Values of less than four bytes
// are not, nor numbers of up to seven digits.
func (h *Host) Redact(value string) { h.scrub.redact(value) }

var errClosed = errors.New("the plugin host is closed")

// Schema returns the settings that a plugin takes. It starts the plugin for as long as it takes to ask, once
// for each content of its file. The error is for the operator: it names the plugin and the next step.
func (h *Host) Schema(ctx context.Context, source Source) (settings.Schema, error) {
	about, err := h.described(ctx, source)
	return about.Schema, err
}

// KnownModels returns the models that a plugin knows without asking anybody, as Schema does.
func (h *Host) KnownModels(ctx context.Context, source Source) ([]llm.Model, error) {
	about, err := h.described(ctx, source)
	return about.Models, err
}

// Capabilities returns what a plugin says that it can do beside Generate, as Schema does. With some settings it may be
// less.
func (h *Host) Capabilities(ctx context.Context, source Source) (Capabilities, error) {
	about, err := h.described(ctx, source)
	return about.Capabilities, err
}

func (h *Host) described(ctx context.Context, source Source) (About, error) {
	exe, err := h.find(source)
	if err != nil {
		return About{}, err
	}
	key := exe.key()
	h.mu.Lock()
	about, known := h.abouts[key]
	h.mu.Unlock()
	if known {
		return about, nil
	}
	about, err = h.ask(ctx, exe, cmp.Or(source.StartTimeout, DefaultStartTimeout))
	if err != nil {
		return About{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abouts[key] = about
	return about, nil
}

// Acquire returns the provider of a spec, started, configured and healthy, or the reason why not, for the
// operator. Equal specs (but for their timeouts) share one process, so that a reload that changes nothing
// keeps it; one that is already known is returned at once, also while it is being restarted. Every
// successful Acquire needs one Release. ctx bounds the wait and not the life of the process.
func (h *Host) Acquire(ctx context.Context, spec Spec) (*Plugin, error) {
	exe, err := h.find(spec.Source)
	if err != nil {
		return nil, fmt.Errorf("starting provider %q: %w", spec.Name, err)
	}
	exe.confine, exe.telemetry = spec.Confine, spec.Telemetry
	if spec.StartTimeout == 0 {
		spec.StartTimeout = DefaultStartTimeout
	}
	p, err := h.join(spec, exe)
	if err != nil {
		return nil, fmt.Errorf("starting provider %q: %w", spec.Name, err)
	}
	select {
	case <-p.started:
	case <-ctx.Done():
		p.Release()
		return nil, fmt.Errorf("starting provider %q: %w", spec.Name, context.Cause(ctx))
	}
	if p.startErr != nil {
		return nil, fmt.Errorf("starting provider %q: %w", spec.Name, p.startErr)
	}
	return p, nil
}

// join takes a reference on the process of a spec, starting one if there is none.
func (h *Host) join(spec Spec, exe executable) (*Plugin, error) {
	key := poolKey(spec, exe)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	if p := h.pool[key]; p != nil {
		p.share(spec.DrainTimeout)
		return p, nil
	}
	p := newPlugin(h, key, spec, exe)
	h.pool[key] = p
	h.running.Go(p.run)
	return p, nil
}

// leave takes a plugin out of the pool: the next Acquire starts a process of its own.
func (h *Host) leave(p *Plugin) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pool[p.key] == p {
		delete(h.pool, p.key)
	}
}

// rekey notes that a plugin is started from another file. Where one of that content runs already, as of a later
// configuration, the pool keeps that one.
func (h *Host) rekey(p *Plugin, exe executable) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pooled := h.pool[p.key] == p
	if pooled {
		delete(h.pool, p.key)
	}
	p.mu.Lock()
	p.exe = exe
	p.mu.Unlock()
	p.key = poolKey(p.spec, exe)
	if pooled && h.pool[p.key] == nil {
		h.pool[p.key] = p
	}
}

// Close kills all processes and waits until they are gone. Drain before: streams end with llm.ErrDied.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end(errClosed)
	h.running.Wait()
	h.calls.CloseIdle()
}

// poolKey hashes everything that shapes a process. The settings may hold secrets, and a hash keeps them out
// of whatever may come to print the pool.
func poolKey(spec Spec, exe executable) string {
	b, err := json.Marshal([]any{spec.Name, exe.key(), exe.pinned, string(spec.Settings), spec.MaxMemory, spec.Confine,
		spec.Telemetry})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
