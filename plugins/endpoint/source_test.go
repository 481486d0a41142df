package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// desk hands out endpoints of a service, each with a token of its own, for a minute of a clock that stands still.
type desk struct {
	caller
	base string

	mu      sync.Mutex
	now     time.Time
	asked   []string // the models asked for, with "!" where the last one was refused
	life    time.Duration
	same    bool          // always the same token
	failing error         // instead of an answer
	gate    chan struct{} // closed when it may answer; nil: at once
}

func newDesk(t *testing.T, base string) *desk {
	d := &desk{base: base, now: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), life: time.Minute}
	d.source.Now = func() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now }
	d.source.Ask = d.answer
	t.Cleanup(d.client.CloseIdle)
	return d
}

func (d *desk) answer(_ context.Context, model string, refused bool) (*endpoint.Endpoint, error) {
	d.mu.Lock()
	mark := ""
	if refused {
		mark = "!"
	}
	d.asked = append(d.asked, model+mark)
	token := fmt.Sprintf("tok-%d", len(d.asked))
	if d.same {
		token = "tok"
	}
	gate, failing, expires := d.gate, d.failing, d.now.Add(d.life)
	d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if failing != nil {
		return nil, failing
	}
	return &endpoint.Endpoint{
		Dialect: endpoint.Chat,
		URL:     d.base + "/chat/completions",
		Expires: expires,
		Headers: append(bearer(token), endpoint.Header{Name: "X-Token", Value: "Bearer " + token}),
	}, nil
}

func (d *desk) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func (d *desk) questions() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.asked...)
}

func TestAnEndpointIsUsedUntilItExpires(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	d := newDesk(t, s.BaseURL())
	calls := int64(0)
	call := func() string {
		t.Helper()
		calls++
		require.NoError(t, d.Generate(withTimeout(t), ask("x"), ignore))
		got, err := s.Request(withTimeout(t), calls)
		require.NoError(t, err)
		return got.Header.Get("X-Token")
	}
	require.False(t, d.source.Valid())
	require.Equal(t, "Bearer tok-1", call())
	d.pass(29 * time.Second)
	require.Equal(t, "Bearer tok-1", call())
	require.Equal(t, []string{"m"}, d.questions())
	require.True(t, d.source.Valid())

	d.pass(2 * time.Second) // less than half a minute is left: it is asked for, and the old one is used meanwhile
	require.Equal(t, "Bearer tok-1", call())
	require.Eventually(t, func() bool { return len(d.questions()) == 2 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return call() == "Bearer tok-2" }, 10*time.Second, time.Millisecond)
	require.Equal(t, []string{"m", "m"}, d.questions())

	d.pass(time.Minute)
	require.False(t, d.source.Valid())
	require.Equal(t, "Bearer tok-3", call(), "what has expired is not used")

	other := ask("x")
	other.Model = "n"
	require.NoError(t, d.Generate(withTimeout(t), other, ignore))
	calls++
	require.Equal(t, []string{"m", "m", "m", "n"}, d.questions(), "each model has its own")

	d.mu.Lock()
	d.failing = llm.Errorf(llm.ErrCredentials, "no token")
	d.mu.Unlock()
	d.pass(45 * time.Second)
	require.Equal(t, "Bearer tok-3", call(), "to its end, when there is no new one to be had")
	d.pass(time.Minute)
	err := d.Generate(withTimeout(t), ask("x"), ignore)
	require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
}

func TestOneQuestionForAllWhoWait(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	d := newDesk(t, s.BaseURL())
	d.gate = make(chan struct{})
	ctx, leave := context.WithCancelCause(t.Context())
	why := errors.New("the client left")
	left := make(chan error, 1)
	go func() { left <- d.Generate(ctx, ask("x"), ignore) }()
	require.Eventually(t, func() bool { return len(d.questions()) == 1 }, 10*time.Second, time.Millisecond)
	leave(why)
	require.ErrorIs(t, <-left, why, "who leaves does not wait")
	results := make(chan error, 8)
	for range cap(results) {
		go func() { results <- d.Generate(withTimeout(t), ask("x"), ignore) }()
	}
	close(d.gate)
	for range cap(results) {
		require.NoError(t, <-results)
	}
	require.Equal(t, []string{"m"}, d.questions())
}

func TestARefusedCredentialIsAskedForAnewOnce(t *testing.T) {
	t.Parallel()
	var accepts sync.Map
	fake := upstream.New(upstream.Options{})
	posts := make(chan string, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		posts <- r.Header.Get("Authorization")
		if _, ok := accepts.Load(r.Header.Get("Authorization")); !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	d := newDesk(t, server.URL+"/v1")

	accepts.Store("Bearer tok-2", true)
	require.NoError(t, d.Generate(withTimeout(t), ask("x"), ignore))
	require.Equal(t, []string{"m", "m!"}, d.questions())
	require.Equal(t, "Bearer tok-1", <-posts)
	require.Equal(t, "Bearer tok-2", <-posts)
	require.NoError(t, d.Generate(withTimeout(t), ask("x"), ignore))
	require.Equal(t, "Bearer tok-2", <-posts, "the new one is kept")

	accepts.Clear()
	err := d.Generate(withTimeout(t), ask("x"), ignore)
	require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
	require.NotContains(t, err.Error(), "tok")
	require.Len(t, d.questions(), 3, "once")
	require.Equal(t, "Bearer tok-2", <-posts)
	require.Equal(t, "Bearer tok-3", <-posts)

	d.same = true
	err = d.Generate(withTimeout(t), ask("x"), ignore)
	require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
	require.Equal(t, "Bearer tok-3", <-posts)
	require.Equal(t, "Bearer tok", <-posts)
	err = d.Generate(withTimeout(t), ask("x"), ignore)
	require.Equal(t, llm.ErrCredentials, llm.KindOf(err))
	require.Equal(t, "Bearer tok", <-posts)
	require.Empty(t, posts, "the same credential is not sent twice")
}

func TestEndpointsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	at := func(change func(e *endpoint.Endpoint)) *endpoint.Endpoint {
		e := &endpoint.Endpoint{Dialect: endpoint.Chat, URL: "http://127.0.0.1:1/v1/chat/completions"}
		change(e)
		return e
	}
	for name, c := range map[string]struct {
		endpoint *endpoint.Endpoint
		want     string
	}{
		"none":           {nil, "there is none"},
		"no dialect":     {at(func(e *endpoint.Endpoint) { e.Dialect = "" }), "one of chat, gemini, messages, responses"},
		"no URL":         {at(func(e *endpoint.Endpoint) { e.URL = "http://%zz" }), "not a URL"},
		"another scheme": {at(func(e *endpoint.Endpoint) { e.URL = "file:///etc/geheim" }), "http:// or https://"},
		"no host":        {at(func(e *endpoint.Endpoint) { e.URL = "http:///v1" }), "no host"},
		"a password":     {at(func(e *endpoint.Endpoint) { e.URL = "http://u:geheim@h/" }), "user name"},
		"a fragment":     {at(func(e *endpoint.Endpoint) { e.URL = "http://h/#geheim" }), "fragment"},
		"a header's name": {
			at(func(e *endpoint.Endpoint) { e.Headers = []endpoint.Header{{Name: "a b", Value: "geheim"}} }), "name of one",
		},
		"a header's value": {
			at(func(e *endpoint.Endpoint) { e.Headers = bearer("geheim\r\nX: y") }), "value of its header Authorization",
		},
		"the connection's": {
			at(func(e *endpoint.Endpoint) { e.Headers = []endpoint.Header{{Name: "host", Value: "geheim"}} }), "header Host",
		},
		"expired":           {at(func(e *endpoint.Endpoint) { e.Expires = time.Now().Add(-time.Second) }), "expired"},
		"no proxy":          {at(func(e *endpoint.Endpoint) { e.Proxy = "geheim" }), "proxy is not a URL"},
		"no authority":      {at(func(e *endpoint.Endpoint) { e.TLS.CA = "geheim" }), "no certificate in PEM"},
		"no pair":           {at(func(e *endpoint.Endpoint) { e.TLS.Key = "geheim" }), "no pair in PEM"},
		"a proxy of no use": {at(func(e *endpoint.Endpoint) { e.Proxy = "ftp://u:geheim@h" }), "proxy is not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &caller{
				source: endpoint.Source{
					Ask: func(context.Context, string, bool) (*endpoint.Endpoint, error) { return c.endpoint, nil },
				},
			}
			err := d.Generate(withTimeout(t), ask("x"), ignore)
			require.Equal(t, llm.ErrProtocol, llm.KindOf(err), "an error of the provider: %v", err)
			require.ErrorContains(t, err, "the provider's endpoint cannot be used")
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "geheim")
		})
	}
}

// TestSourceKnowsWhatIsRefused: of the dialect and of the endpoint, once somebody has asked for it (GAP-127).
func TestSourceKnowsWhatIsRefused(t *testing.T) {
	t.Parallel()
	asked := 0
	s := endpoint.Source{Ask: func(context.Context, string, bool) (*endpoint.Endpoint, error) {
		asked++
		return &endpoint.Endpoint{Dialect: endpoint.Gemini, URL: "http://127.0.0.1/v1", Refuses: []string{"temperature"}}, nil
	}}
	require.False(t, s.Refuses("gemini-2.5-pro", "json_with_tools"))
	require.Zero(t, asked, "nobody is asked")
	for _, model := range []string{"gemini-2.5-pro", "gemini-3-pro"} {
		_, err := endpoint.Get(t.Context(), &s, model)
		require.NoError(t, err)
		require.True(t, s.Refuses(model, "temperature"))
		require.False(t, s.Refuses(model, "strict"))
	}
	require.True(t, s.Refuses("gemini-2.5-pro", "json_with_tools"))
	require.False(t, s.Refuses("gemini-3-pro", "json_with_tools"), "it takes a format beside tools")
}
