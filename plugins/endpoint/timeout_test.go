package endpoint_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// alarm is a time-out that the test lets run out.
type alarm struct {
	set  chan time.Duration // each time that it is waited for
	ring func()
}

func (a *alarm) Reset(d time.Duration) bool { a.set <- d; return true }
func (a *alarm) Stop() bool                 { return true }

// alarmed makes a caller whose time-outs are told to the test, the first of each call beside the others.
func alarmed(t *testing.T, e endpoint.Endpoint) (*caller, <-chan *alarm) {
	t.Helper()
	c := start(t, e)
	alarms := make(chan *alarm, 8)
	c.client.AfterFunc = func(d time.Duration, f func()) endpoint.Timer {
		a := &alarm{set: make(chan time.Duration, 64), ring: f}
		a.set <- d
		alarms <- a
		return a
	}
	return c, alarms
}

// begin makes a call in the background.
func begin(c *caller) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ended <- c.Generate(context.Background(), ask("x"), ignore)
	}()
	return ended
}

// TestHeadTimeouts: the head of a stream comes at its beginning, that of a reply in one piece at its end, and each has
// a bound of its own, also where a provider makes the calls by itself.
func TestHeadTimeouts(t *testing.T) {
	t.Parallel()
	limits := endpoint.Timeouts{FirstByte: time.Minute, Whole: 4 * time.Minute}
	for name, test := range map[string]struct {
		whole, always, own bool
		limit              time.Duration
		setting            string
	}{
		"a stream":                            {false, false, false, time.Minute, "first_byte_timeout (1m0s)"},
		"in one piece":                        {true, false, false, 4 * time.Minute, "whole_reply_timeout (4m0s)"},
		"in one piece, asked for as a stream": {true, true, false, time.Minute, "first_byte_timeout (1m0s)"},
		"a stream of the provider's own":      {false, false, true, time.Minute, "first_byte_timeout (1m0s)"},
		"in one piece, of the provider's own": {true, false, true, 4 * time.Minute, "whole_reply_timeout (4m0s)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			e := endpoint.Endpoint{URL: s.BaseURL(), Timeouts: limits, AlwaysStream: test.always}
			c, alarms := alarmed(t, e)
			s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Wait("never")}})
			ended := make(chan error, 1)
			go func() {
				if !test.own {
					req := ask("x")
					req.Whole = test.whole
					ended <- c.Generate(context.Background(), req, ignore)
					return
				}
				do := c.client.Do
				if test.whole {
					do = c.client.DoWhole
				}
				ended <- post(t, do, &e)
			}()
			a := <-alarms
			require.Equal(t, test.limit, <-a.set)
			require.NoError(t, s.AtGate(withTimeout(t), "never", 1))
			a.ring()
			err := <-ended
			require.Equal(t, llm.ErrUpstream, llm.KindOf(err), "another route is worth trying")
			require.ErrorContains(t, err, test.setting)
			rec, err := s.Ended(withTimeout(t), 1)
			require.NoError(t, err)
			require.Equal(t, upstream.OutcomeLeft, rec.Outcome, "the upstream is let go of")
		})
	}
}

// TestWholeReplyTimeout: a reply in one piece has its bound up to its end, for some send the head long before the
// rest.
func TestWholeReplyTimeout(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"by the host": false, "of the provider's own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			e := endpoint.Endpoint{URL: s.BaseURL(), Timeouts: endpoint.Timeouts{Whole: 4 * time.Minute}}
			c, alarms := alarmed(t, e)
			s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Wait("never"), upstream.Text("x"),
				upstream.Finish("stop"), upstream.ReportUsage(), upstream.Done()}})
			ended := make(chan error, 1)
			go func() {
				if !own {
					req := ask("x")
					req.Whole = true
					ended <- c.Generate(context.Background(), req, ignore)
					return
				}
				ended <- post(t, func(e *endpoint.Endpoint, req *http.Request) (*http.Response, error) {
					resp, err := c.client.DoWhole(e, req)
					if err == nil {
						_, err = io.ReadAll(resp.Body)
						_ = resp.Body.Close()
					}
					return resp, err
				}, &e)
			}()
			a := <-alarms
			require.Equal(t, 4*time.Minute, <-a.set)
			require.NoError(t, s.AtGate(withTimeout(t), "never", 1))
			a.ring()
			err := <-ended
			require.Equal(t, llm.ErrUpstream, llm.KindOf(err), "another route is worth trying")
			require.ErrorContains(t, err, "did not answer within whole_reply_timeout (4m0s)")
		})
	}
}

// post makes a call as a provider does by itself.
func post(
	t *testing.T, do func(*endpoint.Endpoint, *http.Request) (*http.Response, error), e *endpoint.Endpoint,
) error {
	t.Helper()
	const body = `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, e.URL+"/chat/completions",
		strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := do(e, req)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	c, alarms := alarmed(t, endpoint.Endpoint{URL: s.BaseURL(), Timeouts: endpoint.Timeouts{Idle: time.Hour}})
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Wait("never")}})
	ended := begin(c)
	require.NoError(t, s.AtGate(withTimeout(t), "never", 1))
	a := <-alarms
	for range 3 { // it is set when the reply begins, and whenever somebody waits for more
		require.Equal(t, time.Hour, <-a.set)
	}
	a.ring()
	err := <-ended
	require.Equal(t, llm.ErrBroken, llm.KindOf(err))
	require.ErrorContains(t, err, "idle_timeout (1h0m0s)")
}

// TestEndlessRefusal: a refusal whose body has no end is one by its status and by what has come of it.
func TestEndlessRefusal(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	t.Cleanup(s.Close)
	c, alarms := alarmed(t, endpoint.Endpoint{URL: s.URL})
	ended := begin(c)
	a := <-alarms
	require.Equal(t, 5*time.Second, <-a.set)
	a.ring()
	var failed *llm.Error
	require.ErrorAs(t, <-ended, &failed)
	require.Equal(t, llm.ErrCapacity, failed.Kind)
	require.Equal(t, 7*time.Second, failed.RetryAfter)
	<-left
}

// TestNoTimeout: a reply that comes is not disturbed, and an endpoint without time-outs waits for nothing.
func TestNoTimeout(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	for _, limits := range []endpoint.Timeouts{{}, {Connect: time.Hour, FirstByte: time.Hour, Whole: time.Hour,
		Idle: time.Hour}} {
		c, alarms := alarmed(t, endpoint.Endpoint{URL: s.BaseURL(), Timeouts: limits})
		require.NoError(t, <-begin(c))
		if (limits != endpoint.Timeouts{}) {
			require.Equal(t, time.Hour, <-(<-alarms).set)
			continue
		}
		for range len(alarms) { // that of the end of the body, behind the end of the reply
			require.Equal(t, time.Second, <-(<-alarms).set)
		}
	}
}

func TestRequestsHaveTheirUpstreamsNames(t *testing.T) {
	t.Parallel()
	s, c := pair(t, upstream.Options{})
	events, err := generate(t, c, ask("x"))
	require.NoError(t, err)
	require.Equal(t, "req-fake-1", events[0].ID)
	for n, reply := range []upstream.Reply{
		upstream.Refuse(upstream.RateLimited("")),
		{Steps: []upstream.Step{upstream.Text("half"), upstream.Cut()}},
	} {
		s.Enqueue(reply)
		_, err = generate(t, c, ask("x"))
		var failed *llm.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, []string{"req-fake-2", "req-fake-3"}[n], failed.RequestID)
	}
	s.Enqueue(upstream.Reply{Header: map[string]string{"X-Ratelimit-Remaining-Tokens": "0",
		"X-Ratelimit-Reset-Tokens": "2s"}, Steps: []upstream.Step{upstream.Fail(upstream.RateLimited(""))}})
	_, err = generate(t, c, ask("x"))
	var failed *llm.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, http.StatusTooManyRequests, failed.Status)
	require.Equal(t, 2*time.Second, failed.RetryAfter)
}

// TestProxyOfNoUse: what the operator reads names the setting, and not the password.
func TestProxyOfNoUse(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "socks5"} {
		c := start(t, endpoint.Endpoint{URL: "https://upstream.invalid", Proxy: scheme + "://user:geheim@127.0.0.1:1"})
		err := c.Generate(withTimeout(t), ask("x"), ignore)
		require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
		require.ErrorContains(t, err, "check proxy")
		require.NotContains(t, err.Error(), "geheim")
	}
}

// TestProxyThatRefuses: to connect to an upstream with TLS, and to pass a request on.
func TestProxyThatRefuses(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(proxy.Close)
	for _, address := range []string{"https://upstream.invalid", "http://upstream.invalid"} {
		err := start(t, endpoint.Endpoint{URL: address, Proxy: proxy.URL}).Generate(withTimeout(t), ask("x"), ignore)
		require.ErrorContains(t, err, "check proxy and proxy_credentials", address)
		require.ErrorContains(t, err, "status 407", address)
	}
}

// TestAccountWithoutMoney: the key is good then.
func TestAccountWithoutMoney(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
	}))
	t.Cleanup(s.Close)
	err := start(t, endpoint.Endpoint{URL: s.URL}).Generate(withTimeout(t), ask("x"), ignore)
	require.Equal(t, llm.ErrQuota, llm.KindOf(err))
	require.ErrorContains(t, err, "top up the account")
}

// TestTheUpstreamEndsTheHandshake: as one does that asks for a client certificate and gets none.
func TestTheUpstreamEndsTheHandshake(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return nil, errors.New("nobody is welcome")
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	err := start(t, endpoint.Endpoint{URL: s.URL}).Generate(withTimeout(t), ask("x"), ignore)
	require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
	require.ErrorContains(t, err, "refuses the connection: remote error: tls: internal error; check client_certificate")
}

// TestTheUpstreamIsToldThatNobodyWaits: before its reply, and in it.
func TestTheUpstreamIsToldThatNobodyWaits(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]upstream.Step{{upstream.Wait("never")}, {upstream.Text("half"), upstream.Wait("never")}} {
		s, c := pair(t, upstream.Options{})
		s.Enqueue(upstream.Reply{Steps: steps})
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Generate(ctx, ask("x"), ignore) }()
		require.NoError(t, s.AtGate(withTimeout(t), "never", 1))
		leave()
		rec, err := s.Ended(withTimeout(t), 1)
		require.NoError(t, err)
		require.Equal(t, upstream.OutcomeLeft, rec.Outcome)
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{Service: "openrouter", APIKey: "sk-zq11"})
	c := start(t, endpoint.Endpoint{URL: s.URL() + "/api/v1", Headers: bearer("sk-zq11")})
	require.NoError(t, c.Generate(withTimeout(t), ask("x"), ignore))
	rec, err := s.Ended(withTimeout(t), 1)
	require.NoError(t, err)
	body, err := c.client.Fetch(withTimeout(t), &endpoint.Endpoint{Dialect: endpoint.Chat, URL: s.URL(),
		Headers: bearer("sk-zq11")}, s.URL()+"/api/v1/generation?id="+rec.ID)
	require.NoError(t, err)
	require.Contains(t, string(body), `"native_tokens_completion":3`)
	for key, kind := range map[string]llm.ErrorKind{"sk-zq11": llm.ErrRejected, "sk-zq12": llm.ErrCredentials} {
		var client endpoint.Client
		defer client.CloseIdle()
		e := &endpoint.Endpoint{Dialect: endpoint.Chat, URL: s.URL() + "/api/v1/chat/completions", Headers: bearer(key)}
		_, err := client.Fetch(withTimeout(t), e, s.URL()+"/api/v1/generation?id=none")
		require.Equal(t, kind, llm.KindOf(err), "%v", err)
		require.NotContains(t, err.Error(), "zq1")
		_, err = client.Fetch(withTimeout(t), e, "http://127.0.0.1:1/")
		require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
		_, err = client.Fetch(withTimeout(t), e, "http://[")
		require.Error(t, err)
	}
}
