package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// carrier is a provider that says where calls go. It proves the length of an attempt's reference with a receipt.
type carrier struct {
	provider.Carried
	settings struct {
		URL    string `hcl:"url" doc:"Where calls go."`
		Broken string `hcl:"broken,optional" doc:"What is wrong with the endpoint."`
	}
}

func (c *carrier) Settings() any { return &c.settings }

func (c *carrier) Endpoint(_ context.Context, target provider.Target) (*endpoint.Endpoint, error) {
	const token = "geheim-zq11"
	if c.settings.Broken == "" {
		slog.Warn("handing out " + token)
	}
	e := &endpoint.Endpoint{Dialect: endpoint.Chat, URL: c.settings.URL, Expires: time.Now().Add(time.Hour),
		References: true,
		Headers: []endpoint.Header{{Name: "Authorization", Value: "Bearer " + token},
			{Name: "X-Model", Value: target.Model}}}
	switch c.settings.Broken {
	case "none":
		return nil, nil
	case "dialect":
		e.Dialect = "morse"
	case "error":
		return nil, llm.Errorf(llm.ErrCredentials, "no token today")
	case "panic":
		panic("nothing works")
	case "exit":
		os.Exit(7)
	}
	slog.Warn("handed out an endpoint")
	return e, nil
}

// GivesReceipts implements provider.SometimesReceipter.
func (c *carrier) GivesReceipts() bool { return c.settings.Broken != "receipts" }

func (c *carrier) Receipts(_ context.Context, attempts []provider.Attempt) ([]provider.Receipt, error) {
	var receipts []provider.Receipt
	for _, a := range attempts {
		n := int64(len(a.Reference))
		if a.ID == "pid" {
			n = int64(os.Getpid())
		}
		if n > 0 {
			receipts = append(receipts, provider.Receipt{Attempt: a.ID, Usage: llm.Usage{Output: &n}})
		}
	}
	return receipts, nil
}

// reference is the one that came with the events of a reply.
func reference(t *testing.T, events []llm.Event) string {
	t.Helper()
	for _, ev := range events {
		if ev.Kind == llm.EventReference {
			return ev.ID
		}
	}
	require.Fail(t, "no reference came")
	return ""
}

// carries makes a provider that has its calls carried to a fake upstream.
func carries(t *testing.T, h *host.Host, broken string) (*upstream.Server, *host.Plugin) {
	t.Helper()
	up := upstream.Start(t, upstream.Options{})
	s := spec("carrier")
	values, err := json.Marshal(map[string]string{"url": up.BaseURL() + "/chat/completions", "broken": broken})
	require.NoError(t, err)
	s.Settings = values
	return up, acquire(t, h, s)
}

// carry makes an attempt by the endpoint and reads it to its end. The error is nil after io.EOF.
func carry(ctx context.Context, p *host.Plugin, req *llm.Request) ([]llm.Event, error) {
	c, err := p.Carry(ctx, req)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var all []llm.Event
	for {
		events, err := c.Recv()
		all = append(all, events...)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// TestSettingsTakeReceiptsAway: without receipts no attempt waits for one.
func TestSettingsTakeReceiptsAway(t *testing.T) {
	t.Parallel()
	_, p := carries(t, newHost(t), "receipts")
	require.Equal(t, host.Capabilities{Endpoint: true}, p.Capabilities())
}

func TestCarriedByTheHost(t *testing.T) {
	t.Parallel()
	up, p := carries(t, newHost(t), "")
	require.True(t, p.Carries())
	require.True(t, p.Carrying())
	req := ask("hello")
	events, err := carry(t.Context(), p, req)
	require.NoError(t, err)
	require.Equal(t, "You said: hello", text(events))
	got, err := up.Request(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "m", got.Header.Get("X-Model"))

	require.Equal(t, host.Capabilities{Receipts: true, Endpoint: true}, p.Capabilities())
	name := reference(t, events)
	receipts, err := p.Receipts(t.Context(),
		append(asked("another"), host.Attempt{ID: req.Attempt, Reference: name}))
	require.NoError(t, err)
	used := llm.Usage{Output: llm.Count(int64(len(name)))}
	require.Equal(t, []host.Receipt{{Attempt: req.Attempt, Usage: used}}, receipts)

	c, err := p.Carry(t.Context(), ask("hello"))
	require.NoError(t, err)
	require.False(t, p.Proves(t.Context(), "m"))
	require.NoError(t, c.Cancel(t.Context()))
	for err == nil {
		_, err = c.Recv()
	}
	require.ErrorIs(t, err, io.EOF, "one that proves nothing is read to its end")
	c.Close()
	ctx, leave := context.WithCancel(t.Context())
	up.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Silence()}})
	c, err = p.Carry(ctx, ask("hello"))
	require.NoError(t, err)
	_, err = c.Recv()
	require.NoError(t, err)
	leave()
	for err == nil {
		_, err = c.Recv()
	}
	require.Equal(t, llm.ErrCanceled, kindOf(t, err))
	require.NoError(t, up.Idle(t.Context()))

	_, err = talk(t.Context(), acquire(t, newHost(t), spec("script")), "greeting")
	require.NoError(t, err)
	require.False(t, acquire(t, newHost(t), spec("script")).Carries())
}

// The same provider makes the calls in its own process.
func TestCarriedInTheProvidersProcess(t *testing.T) {
	t.Parallel()
	_, p := carries(t, newHost(t), "")
	req := ask("hello")
	s, err := p.Generate(t.Context(), req)
	require.NoError(t, err)
	defer s.Close()
	events, err := rest(s)
	require.NoError(t, err)
	require.Equal(t, "You said: hello", text(events))
	name := reference(t, events)
	receipts, err := p.Receipts(t.Context(), []host.Attempt{{ID: req.Attempt, Reference: name}})
	require.NoError(t, err)
	used := llm.Usage{Output: llm.Count(int64(len(name)))}
	require.Equal(t, []host.Receipt{{Attempt: req.Attempt, Usage: used}}, receipts)
}

func TestAnEndpointOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	h, _, states := observed(t)
	until := func(want host.State) {
		t.Helper()
		for s := host.State(""); s != want; {
			s = <-states
		}
	}
	_, p := carries(t, h, "")
	until(host.Ready)
	_, err := carry(t.Context(), p, ask("hello"))
	require.NoError(t, err)
	receipts, err := p.Receipts(t.Context(), asked("pid"))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(int(*receipts[0].Usage.Output), syscall.SIGKILL))
	until(host.Restarting) // its clock stands still: there is no process from now on
	require.True(t, p.Carrying())
	events, err := carry(t.Context(), p, ask("hello"))
	require.NoError(t, err)
	require.Equal(t, "You said: hello", text(events))
	other := ask("hello")
	other.Model = "another"
	_, err = carry(t.Context(), p, other)
	require.Error(t, err, "nobody says where the calls of another model go")
	p.Release()
	until(host.Stopped)
	require.False(t, p.Carrying())
}

func TestEndpointsThatTheHostCannotUse(t *testing.T) {
	t.Parallel()
	for broken, c := range map[string]struct {
		kind llm.ErrorKind
		want string
	}{
		"none":    {llm.ErrProtocol, "there is none"},
		"dialect": {llm.ErrProtocol, "its dialect is not one of"},
		"error":   {llm.ErrCredentials, "no token today"},
		"panic":   {llm.ErrProtocol, "panicked"},
		"exit":    {llm.ErrUpstream, "asking for its endpoint"},
	} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			up, p := carries(t, newHost(t), broken)
			events, err := carry(t.Context(), p, ask("hello"))
			require.Empty(t, events)
			require.Equal(t, c.kind, kindOf(t, err), "%v", err)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "zq11")
			require.Empty(t, up.Records())
		})
	}
}

// What an endpoint holds is as secret as the settings it was made of.
func TestCredentialsOfEndpointsAreNotLogged(t *testing.T) {
	t.Parallel()
	var log *strings.Builder
	h := newHost(t, func(o *host.Options) { log = capture(o) })
	_, p := carries(t, h, "")
	_, err := carry(t.Context(), p, ask("hello"))
	require.NoError(t, err)
	other := ask("hello")
	other.Model = "another"
	_, err = carry(t.Context(), p, other)
	require.NoError(t, err)
	h.Close()
	require.Contains(t, log.String(), "handed out")
	require.Contains(t, log.String(), "handing out [redacted]", "once it is known")
}
