package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/fareway/fareway/plugins/endpoint"
	endpointwire "github.com/fareway/fareway/plugins/endpoint/wire"
	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// Carries reports whether the provider says where calls go, so that the host can make them: see Carry. One that proves
// usage after a cancel carries them itself.
func (p *Plugin) Carries() bool {
	c := p.Capabilities()
	return c.Endpoint && !c.CancelUsage
}

// Carrying reports whether Carry can make calls at the moment: also while the provider's process is being started
// again, for an endpoint outlives it.
func (p *Plugin) Carrying() bool {
	switch p.State() {
	case Ready:
		return true
	case Starting, Restarting:
		return p.source.Valid()
	}
	return false
}

// Proves reports whether usage of a model is proven after a cancel, so that Cancel ends an attempt, whoever makes it:
// by the provider, or by its upstream, as its endpoint says.
func (p *Plugin) Proves(ctx context.Context, model string) bool {
	c := p.Capabilities()
	return c.CancelUsage || c.Endpoint && p.source.Proves(ctx, model)
}

// Refuses reports whether the upstream of a model is known to refuse that (llm.Restrictions), by its endpoint.
func (p *Plugin) Refuses(model, restriction string) bool { return p.source.Refuses(model, restriction) }

// Address is where calls of a model go.
type Address struct {
	URL   string      // without what is in its query, which may be secret
	Proxy string      // without a user and a password; "" for none
	TLS   *tls.Config // what the address has to show; nil for what the system trusts
}

// Address asks the provider where calls of a model go. One that carries all its traffic itself does not say.
func (p *Plugin) Address(ctx context.Context, model string) (Address, error) {
	if !p.Capabilities().Endpoint {
		return Address{}, fmt.Errorf("provider %q does not say where its calls go", p.spec.Name)
	}
	e, err := p.source.Endpoint(ctx, model)
	if err != nil {
		return Address{}, err
	}
	return addressOf(e)
}

// addressOf is an endpoint without its secrets.
func addressOf(e *endpoint.Endpoint) (a Address, err error) {
	for _, part := range []struct {
		from string
		to   *string
	}{{e.URL, &a.URL}, {e.Proxy, &a.Proxy}} {
		u, err := url.Parse(part.from)
		if err != nil {
			return a, errors.New("its address is not a URL") // which the error would show
		}
		u.User, u.RawQuery = nil, ""
		*part.to = u.String()
	}
	a.TLS, err = e.TLS.Config()
	return a, err
}

// Carry makes an attempt by the provider's endpoint, in this process. The error is an *llm.Error.
func (p *Plugin) Carry(ctx context.Context, req *llm.Request) (*Carried, error) {
	p.carrying.Add(1)
	call, err := p.host.calls.Call(ctx, &p.source, req)
	if err != nil {
		p.carrying.Add(-1)
		return nil, p.clean(err)
	}
	return &Carried{plugin: p, call: call}, nil
}

// Carried is the reply of an attempt that the host makes. Like Stream otherwise.
type Carried struct {
	plugin *Plugin
	call   *endpoint.Call
	closed atomic.Bool
}

// Recv returns the next events. With the last ones, or after them, comes the end: io.EOF behind EventFinish, otherwise
// an *llm.Error. It is called by one goroutine.
func (c *Carried) Recv() (events []llm.Event, err error) {
	defer func() {
		// What an upstream sends must not end the gateway.
		if v := recover(); v != nil {
			c.plugin.log.Error("reading an upstream's reply panicked", "panic", fmt.Sprintf("a %T", v),
				"stack", string(debug.Stack()))
			c.call.Close()
			events, err = nil, llm.Errorf(
				llm.ErrProtocol,
				"provider %q: reading the upstream's reply panicked",
				c.plugin.spec.Name,
			)
		}
	}()
	events, err = c.call.Recv()
	if _, typed := errors.AsType[*llm.Error](err); err != nil && !typed && !errors.Is(err, io.EOF) {
		err = llm.Errorf(llm.ErrCanceled, "the caller left")
	}
	return events, c.plugin.clean(err)
}

// clean is an error of a call that the host makes as people may see it: an upstream may repeat what it was sent.
func (p *Plugin) clean(err error) error {
	typed, ok := errors.AsType[*llm.Error](err)
	if !ok || err == nil {
		return err
	}
	p.mu.Lock()
	secrets := &p.host.scrub
	if p.proc != nil {
		secrets = &p.proc.child.scrub
	}
	p.mu.Unlock()
	if message := secrets.clean(typed.Message); message != typed.Message {
		cleaned := *typed
		cleaned.Message = message
		return &cleaned
	}
	return err
}

// Cancel stops the attempt as soon as its usage is proven, where the upstream proves it: see Plugin.Proves. The stream
// then goes on to that and to its end, an error of kind ErrCanceled.
func (c *Carried) Cancel(context.Context) error {
	c.call.Stop()
	return nil
}

// Close abandons the attempt, if it is still running. It may be called more than once, and while Recv waits.
func (c *Carried) Close() {
	if !c.closed.Swap(true) {
		c.plugin.carrying.Add(-1)
	}
	c.call.Close()
}

// askEndpoint asks the provider for the endpoint of a model.
func (p *Plugin) askEndpoint(ctx context.Context, model string, refused bool) (*endpoint.Endpoint, error) {
	proc, err := p.lease()
	if err != nil {
		return nil, err
	}
	defer p.returned(proc)
	answer, err := proc.rpc.Endpoint(ctx, &proto.EndpointRequest{Model: model, Refused: refused})
	if err != nil {
		err = p.unaryError(ctx, proc, err)
		if llm.KindOf(err) == llm.ErrDied { // nothing was sent upstream
			err = llm.Errorf(llm.ErrUpstream, "asking for its endpoint: %v", err)
		}
		return nil, err
	}
	if f := proc.failure(answer.GetFailure()); f != nil {
		return nil, f
	}
	e := endpointwire.FromProto(answer.GetEndpoint())
	if e != nil {
		proc.child.scrub.add(credentials(e))
		e.References = e.References || proc.about.GetCapabilities().GetAttempted() // see Receipts
	}
	return e, nil
}

// credentials are the secrets of an endpoint.
func credentials(e *endpoint.Endpoint) []string {
	secrets := []string{e.Proxy, e.TLS.Key}
	for _, h := range e.Headers {
		_, token, _ := strings.Cut(h.Value, " ") // "Bearer ..."
		secrets = append(secrets, h.Value, token)
	}
	return secrets
}
