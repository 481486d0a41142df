package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
)

// passed is the status of a request that came through.
const passed = http.StatusNoContent

// ask sends a request with headers through the handler.
func ask(t *testing.T, e *engine.Engine, f families.Server, headers ...string) (*gateway.Call, *http.Response) {
	t.Helper()
	call := &gateway.Call{ID: "req_of_the_test", Family: f, Work: e.Begin()}
	defer call.Work.Done()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.RemoteAddr = "192.0.2.1:1234"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	call.From = gateway.ClientAddress(r)
	r, err := gateway.Entered(r, call)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	next := func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(passed)
		return nil
	}
	require.NoError(t, new(Handler).ServeHTTP(w, r, caddyhttp.HandlerFunc(next)))
	return call, w.Result()
}

func TestModule(t *testing.T) {
	t.Parallel()
	info, err := caddy.GetModule("http.handlers.fareway_auth")
	require.NoError(t, err)
	require.IsType(t, new(Handler), info.New())
}

func TestWhoARequestActsFor(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	who, key := enginetest.Account(t, e, "acme")
	other, otherKey := enginetest.Account(t, e, "other")

	t.Run("AUTH-03 AUTH-08 the account of the key", func(t *testing.T) {
		t.Parallel()
		call, resp := ask(t, e, chat.Server{}, "Authorization", "Bearer "+key)
		require.Equal(t, passed, resp.StatusCode)
		require.Empty(t, call.Record.KeyState)
		require.Equal(t, who.Account.ID, call.Principal.Account.ID)
		require.Equal(t, who.Key.ID, call.Principal.Key.ID)
		call, resp = ask(t, e, messages.Server{}, "X-Api-Key", otherKey)
		require.Equal(t, passed, resp.StatusCode)
		require.Equal(t, other.Account.ID, call.Principal.Account.ID)
	})
	t.Run("AUTH-10 nobody", func(t *testing.T) {
		t.Parallel()
		unknown, _, err := ledger.NewKey(new(zeros))
		require.NoError(t, err)
		for _, headers := range [][]string{{}, {"X-Api-Key", key}, {"Authorization", "Bearer " + unknown},
			{"Authorization", "Bearer x"}, {"Authorization", "Basic " + key}} {
			call, resp := ask(t, e, chat.Server{}, headers...)
			state := gateway.KeyMissing
			switch {
			case slices.Contains(headers, "Bearer "+unknown):
				state = gateway.KeyUnknown
			case slices.Contains(headers, "Bearer x"):
				state = gateway.KeyMalformed
			}
			require.Equal(t, state, call.Record.KeyState)
			require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
			require.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
			require.Zero(t, call.Principal)
		}
	})
	t.Run("the handler is behind its own only", func(t *testing.T) {
		t.Parallel()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		require.NoError(t, new(Handler).ServeHTTP(w, r, nil))
		require.Equal(t, http.StatusInternalServerError, w.Code)
	})
}

// zeros are the bits of a key that nobody has.
type zeros struct{}

func (*zeros) Read(b []byte) (int, error) { return len(b), nil }

func TestKeysAndAccountsThatMayNot(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := enginetest.Start(t, new(config.Config), engine.Options{Now: func() time.Time { return now }})
	t.Run("GAP-119 a key that has expired may be given more time", func(t *testing.T) {
		t.Parallel()
		who, key := enginetest.Account(t, e, "late")
		soon := now.Add(-time.Second)
		_, err := e.Store().ChangeKey(t.Context(), who.Key.ID, ledger.KeyChange{Expires: &soon})
		require.NoError(t, err)
		call, resp := ask(t, e, chat.Server{}, "Authorization", "Bearer "+key)
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		require.Empty(t, resp.Header.Get("X-Should-Retry"))
		require.Equal(t, who.Account.ID, call.Principal.Account.ID, "the access line says whose it was")
		require.Equal(t, gateway.KeyExpired, call.Record.KeyState)
		_, err = e.Store().RevokeKey(t.Context(), who.Key.ID)
		require.NoError(t, err)
		e.ForgetKeys()
		call, _ = ask(t, e, chat.Server{}, "Authorization", "Bearer "+key)
		require.Equal(t, gateway.KeyRevoked, call.Record.KeyState)
		require.Equal(t, who.Key.Last4, call.Principal.Key.Last4)
	})
	t.Run("a suspended account", func(t *testing.T) {
		t.Parallel()
		who, key := enginetest.Account(t, e, "suspended")
		_, err := e.Store().SetState(t.Context(), who.Account.ID, ledger.Suspended)
		require.NoError(t, err)
		call, resp := ask(t, e, chat.Server{}, "Authorization", "Bearer "+key)
		require.Equal(t, http.StatusForbidden, resp.StatusCode)
		require.Equal(t, who.Account.ID, call.Principal.Account.ID)
		var body [1 << 10]byte
		n, _ := resp.Body.Read(body[:])
		require.Contains(t, string(body[:n]), "The account is suspended.")
		require.Contains(t, string(body[:n]), "req_of_the_test")
	})
}

// guessing is a limiter of failures. It notes what it is asked.
type guessing struct {
	ratelimit.Limiter
	checked, taken   int
	checking, taking *ratelimit.Refusal
	err              error
}

func (g *guessing) Check(context.Context, []ratelimit.Ask) (*ratelimit.Refusal, error) {
	g.checked++
	return g.checking, g.err
}

func (g *guessing) Acquire(context.Context, []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	g.taken++
	return 0, g.taking, nil
}

func TestWhoGuesses(t *testing.T) {
	t.Parallel()
	limiter := new(guessing)
	cfg := &config.Config{PreAuth: config.PreAuth{FailuresPerMinute: 1}}
	e := enginetest.Start(t, cfg, engine.Options{Limiter: limiter})
	who, key := enginetest.Account(t, e, "acme")
	_, resp := ask(t, e, chat.Server{}, "Authorization", "Bearer "+key)
	require.Equal(t, passed, resp.StatusCode)
	require.Equal(t, [2]int{1, 0}, [2]int{limiter.checked, limiter.taken}, "GAP-90 a good key counts nowhere")
	_, resp = ask(t, e, chat.Server{})
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.Equal(t, [2]int{2, 1}, [2]int{limiter.checked, limiter.taken})

	limiter.taking = &ratelimit.Refusal{Wait: 7 * time.Second}
	_, resp = ask(t, e, chat.Server{})
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "others were the last that may fail")
	require.Equal(t, "7", resp.Header.Get("Retry-After"))

	limiter.checking = &ratelimit.Refusal{Wait: 9 * time.Second}
	call, resp := ask(t, e, chat.Server{}, "Authorization", "Bearer "+key)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "9", resp.Header.Get("Retry-After"))
	require.Zero(t, call.Principal, "LIM-10 the key is not looked at")
	require.Equal(t, 2, limiter.taken, "and what is refused does not count")

	limiter.checking, limiter.err = nil, errors.New("broken by the test")
	_, resp = ask(t, e, chat.Server{}, "Authorization", "Bearer "+key)
	require.Equal(t, http.StatusInternalServerError, resp.StatusCode, "what cannot be counted is not served")

	limiter.err = nil
	_, err := e.Store().SetState(t.Context(), who.Account.ID, ledger.Suspended)
	require.NoError(t, err)
	e.ForgetKeys()
	_, resp = ask(t, e, chat.Server{}, "Authorization", "Bearer "+key)
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.Equal(t, 2, limiter.taken, "GAP-90 what is forbidden is no guess")
}

// A client that leaves while its key is looked up is told nothing, and nobody else is told that a key was wrong.
func TestALookupThatFails(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	_, key := enginetest.Account(t, e, "acme")
	ctx, leave := context.WithCancel(t.Context())
	leave()
	call := &gateway.Call{Family: chat.Server{}, Work: e.Begin()}
	defer call.Work.Done()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { _, _ = authenticate(r, call) })
	require.Equal(t, gateway.ReasonLeft, call.Record.Reason)
}

func TestCredential(t *testing.T) {
	t.Parallel()
	const bearer, apiKey = "Authorization", "X-Api-Key"
	for name, test := range map[string]struct {
		header    http.Header
		both, one string // where x-api-key is read, and where not
	}{
		"none":                       {http.Header{}, "", ""},
		"bearer":                     {http.Header{bearer: {"Bearer k"}}, "k", "k"},
		"bearer, spaces":             {http.Header{bearer: {"bEARER  k "}}, "k", "k"},
		"bearer twice":               {http.Header{bearer: {"Bearer k", "Bearer k"}}, "k", "k"},
		"two bearers":                {http.Header{bearer: {"Bearer k", "Bearer l"}}, "", ""},
		"another scheme":             {http.Header{bearer: {"Basic k"}}, "", ""},
		"no scheme":                  {http.Header{bearer: {"k"}}, "", ""},
		"x-api-key":                  {http.Header{apiKey: {" k "}}, "k", ""},
		"x-api-key twice":            {http.Header{apiKey: {"k", "k"}}, "", ""},
		"GAP-19 bearer decides":      {http.Header{bearer: {"Bearer k"}, apiKey: {"l"}}, "k", "k"},
		"GAP-19 also an empty one":   {http.Header{bearer: {""}, apiKey: {"l"}}, "", ""},
		"GAP-19 also of two bearers": {http.Header{bearer: {"Bearer k", "Bearer l"}, apiKey: {"l"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.both, credential(test.header, true))
			require.Equal(t, test.one, credential(test.header, false))
		})
	}
}
