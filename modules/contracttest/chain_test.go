package contracttest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/fareway/fareway/modules/auth"
	"github.com/fareway/fareway/modules/entry"
	"github.com/fareway/fareway/modules/exchange"
	"github.com/fareway/fareway/modules/limits"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
)

// TestMisplacedHandlersServeNobody: a chain that is not whole is refused when it is loaded; should one run all the
// same, no request comes through it, whatever its key.
func TestMisplacedHandlersServeNobody(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	all := []families.Server{chat.Server{}, responses.Server{}, messages.Server{}}
	first, err := entry.New(s.Engine, all, zap.NewNop())
	require.NoError(t, err)
	handlers := map[string]caddyhttp.MiddlewareHandler{
		"entry": first, "auth": new(auth.Handler), "limits": new(limits.Handler), "exchange": new(exchange.Handler),
	}
	serve := func(t *testing.T, chain, key, method, path, body string) *http.Response {
		t.Helper()
		// What Caddy has behind the last handler: an empty 200.
		var next caddyhttp.Handler = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
		names := strings.Fields(chain)
		for i := range names {
			h, inner := handlers[names[len(names)-1-i]], next
			next = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, inner) })
		}
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		vars := make(map[string]any)
		r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		require.NoError(t, next.ServeHTTP(w, r), "Caddy would log the headers of the request with the error")
		require.Equal(t, true, vars[caddyhttp.LogSkipVar], "and in its access log")
		return w.Result()
	}
	const whole = "entry auth limits exchange"
	for name, request := range map[string][3]string{
		"a charged request": {"POST", "/v1/chat/completions",
			`{"model":"service/auto","messages":[{"role":"user","content":"hi"}]}`},
		"a list of models": {"GET", "/v1/models", ""},
		"an account":       {"GET", "/v1/account", ""},
	} {
		resp := serve(t, whole, s.Key, request[0], request[1], request[2])
		require.Equal(t, http.StatusOK, resp.StatusCode, name)
		for _, chain := range []string{
			"entry limits auth exchange", "entry auth exchange", "entry limits exchange", "entry exchange", "exchange",
			"auth limits exchange", "auth entry limits exchange", "entry entry auth limits exchange",
			"entry auth auth limits exchange", "entry auth limits limits exchange", "entry auth limits", "entry auth", "entry",
			"auth", "limits exchange", "entry auth entry limits exchange",
		} {
			for who, key := range map[string]string{"with a key": s.Key, "without one": "x"} {
				t.Run(name+"/"+chain+"/"+who, func(t *testing.T) {
					resp := serve(t, chain, key, request[0], request[1], request[2])
					body, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					if resp.StatusCode == http.StatusUnauthorized {
						require.Equal(t, "x", key, "a handler in its right place did its work")
						return
					}
					require.Equal(t, http.StatusInternalServerError, resp.StatusCode, "%s", body)
					require.Contains(t, string(body), `"internal_server_error"`)
				})
			}
		}
	}
}
