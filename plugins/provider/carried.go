package provider

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// Target is what an endpoint is asked for.
type Target struct {
	// Model is the upstream's own name of the model.
	Model string
	// Refused says that the upstream did not take the credential of the last endpoint: make a new one.
	Refused bool
}

// Endpointer is a provider whose upstream speaks a dialect that Fareway knows. It embeds Carried, which has its
// Generate. Unless the operator wants it otherwise (carry = "process"), or the provider is a CancelProver, the gateway
// makes the calls itself; then a request costs half, and no reply ends with the provider's process.
type Endpointer interface {
	// Endpoint says where the calls of a model go. It is asked before the first call of a model, a while before the
	// answer expires, and when the upstream did not take the credential. It has 30 seconds, to fetch a token for
	// example. Errors are like those of Generate.
	Endpoint(ctx context.Context, target Target) (*endpoint.Endpoint, error)
}

// Carried is the Generate of an Endpointer, which embeds it: it makes the calls in the provider's own process, with
// the code that the gateway makes them with in its own.
type Carried struct {
	client endpoint.Client
	source endpoint.Source
}

// carrier is what embeds a Carried.
type carrier interface{ bind(Endpointer) }

func (c *Carried) bind(e Endpointer) {
	c.source.Ask = func(ctx context.Context, model string, refused bool) (answer *endpoint.Endpoint, err error) {
		err = guard("Endpoint", func() error {
			answer, err = e.Endpoint(ctx, Target{Model: model, Refused: refused})
			return err
		})
		return answer, err
	}
}

// Generate implements Provider.
func (c *Carried) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	if c.source.Ask == nil {
		return llm.Errorf(llm.ErrProtocol, "the provider was not started; call provider.Start or provider.Serve first")
	}
	call, err := c.client.Call(ctx, &c.source, req)
	if err != nil {
		return err
	}
	defer call.Close()
	carried, ok := ctx.Value(carriageKey{}).(*carriage)
	if !ok {
		return call.Each(send)
	}
	carried.begin(call)
	if !isOwn(send) {
		return call.Each(send) // what stands before it may hand the events to another goroutine
	}
	carried.attempt.gather(true)
	defer carried.attempt.gather(false)
	return call.EachBatch(send, carried.attempt.flush)
}

// carriage is an attempt whose call a Carried makes. It is in the context of Generate.
type carriage struct {
	attempt *attempt

	mu     sync.Mutex
	wanted bool           // the call is to stop (endpoint.Call.Stop)
	call   *endpoint.Call // nil until it is made
}

type carriageKey struct{}

func (c *carriage) begin(call *endpoint.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call = call; c.wanted {
		call.Stop()
	}
}

func (c *carriage) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted = true; c.call != nil {
		c.call.Stop()
	}
}

// Fetch gets something from the upstream of an endpoint, over its connections and with its headers: up to 64 KiB, of
// a reply that is a 2xx. Errors are *llm.Error.
func (c *Carried) Fetch(ctx context.Context, e *endpoint.Endpoint, url string) ([]byte, error) {
	return c.client.Fetch(ctx, e, url)
}

// FetchUpTo is Fetch of at most so many bytes.
func (c *Carried) FetchUpTo(ctx context.Context, e *endpoint.Endpoint, url string, most int64) ([]byte, error) {
	return c.client.FetchUpTo(ctx, e, url, most)
}

// HTTP is a client for what else the provider has to ask, see endpoint.Client.HTTP.
func (c *Carried) HTTP(e *endpoint.Endpoint) (*http.Client, error) { return c.client.HTTP(e) }

// check says what is wrong with how a provider is written, nil if nothing is.
func check(p Provider) error {
	_, carried := p.(carrier)
	_, answers := p.(Endpointer)
	if carried && !answers {
		return fmt.Errorf(
			"%T embeds provider.Carried and has no method "+
				"Endpoint(context.Context, provider.Target) (*endpoint.Endpoint, error)",
			p,
		)
	}
	return nil
}

// Configure fills a provider's settings, which it may have none of, and starts it, as Serve does when the gateway
// asks. Tests of a provider use it.
func Configure(ctx context.Context, p Provider, values settings.Values) error {
	var into any = new(struct{})
	if c, ok := p.(Configurable); ok {
		into = c.Settings()
	}
	if err := DecodeSettings(values, into); err != nil {
		return err
	}
	return Start(ctx, p)
}

// Start makes a provider whose settings are filled ready for Generate.
func Start(ctx context.Context, p Provider) error {
	if err := check(p); err != nil {
		return err
	}
	if c, ok := p.(carrier); ok {
		c.bind(p.(Endpointer))
	}
	if starter, ok := p.(Starter); ok {
		return guard("Start", func() error { return starter.Start(ctx) })
	}
	return nil
}
