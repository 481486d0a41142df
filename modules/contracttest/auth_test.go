package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
)

// readsAPIKey reports whether an endpoint reads the header x-api-key.
func (p place) readsAPIKey() bool { return p.Shape.Name == "messages" }

func TestAuthentication(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	bearer := map[string]string{"chat": "AUTH-03", "responses": "AUTH-04", "messages": "AUTH-07",
		"count_tokens": "AUTH-09", "models": "AUTH-05", "account": "AUTH-06"}
	apiKey := map[string]string{"messages": "AUTH-08", "count_tokens": "AUTH-09"}
	kind := func(p place) string {
		for _, name := range []string{"account", "models", "count_tokens"} {
			if strings.Contains(p.Path, name) {
				return name
			}
		}
		return p.Shape.Name
	}
	for _, p := range places {
		at := p.Method + " " + p.Path
		t.Run(bearer[kind(p)]+" bearer "+at, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, value := range []string{"Bearer " + c.Key, "bearer " + c.Key, "BEARER " + c.Key} {
				require.Equal(t, 200, p.Send(c, "Authorization", value).StatusCode)
			}
		})
		t.Run("AUTH-01 AUTH-10 AUTH-11 HTTP-08 ERR-15 "+at, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			last := "A"
			if strings.HasSuffix(c.Key, last) {
				last = "B"
			}
			for _, header := range [][]string{
				{"Authorization", ""},
				{"Authorization", "Bearer "},
				{"Authorization", c.Key},
				{"Authorization", "Basic " + c.Key},
				{"Authorization", "Bearer " + c.Key[:len(c.Key)-1] + last},
				{"Authorization", "Bearer " + c.Key[:len(c.Key)-1]},
				{"Authorization", "Bearer " + strings.ToUpper(c.Key)},
				{"Authorization", "", "X-Api-Key", "nonsense"},
				{"Authorization", "Bearer nonsense", "X-Api-Key", c.Key},
			} {
				requireError(t, p.Shape, p.Send(c, header...), 401, "authentication_error")
			}
			elsewhere := p
			elsewhere.Path += "?api_key=" + c.Key
			requireError(t, p.Shape, elsewhere.Send(c, "Authorization", ""), 401, "authentication_error")
			c.RequireUntouched(t)
		})
		if p.readsAPIKey() {
			t.Run(apiKey[kind(p)]+" x-api-key "+at, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				require.Equal(t, 200, p.Send(c, "Authorization", "", "X-Api-Key", c.Key).StatusCode)
				requireError(t, p.Shape, p.Send(c, "Authorization", "", "X-Api-Key", c.Key+"x"), 401, "authentication_error")
				require.Equal(t, 200, p.Send(c, "X-Api-Key", "stale").StatusCode, "Authorization alone decides")
			})
			continue
		}
		t.Run("AUTH-13 ERR-15 x-api-key alone "+at, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			requireError(t, p.Shape, p.Send(c, "Authorization", "", "X-Api-Key", c.Key), 401, "authentication_error")
			c.RequireUntouched(t)
			require.Equal(t, 200, p.Send(c, "X-Api-Key", c.Key).StatusCode, "with a bearer token beside it")
		})
	}
	t.Run("AUTH-11 two keys at once", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, sh := range posts {
			a := c.raw(t, sh.Path, sh.Body("PROMPT"), "Authorization: Bearer "+c.Key, "Authorization: Bearer other")
			requireError(t, sh, a, 401, "authentication_error")
		}
		c.RequireUntouched(t)
	})
	t.Run("AUTH-19 ACCT-14 EP-14 checking a key is free", func(t *testing.T) {
		t.Parallel()
		c := g.caller(t, 5)
		for range 5 {
			require.Equal(t, 200, c.Get("/v1/account").StatusCode)
			require.Equal(t, 401, c.Get("/v1/account", "Authorization", "Bearer "+c.Key+"x").StatusCode)
		}
		c.RequireUntouched(t)
	})
}

func TestCredentialFields(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	// GAP-30, each name once in a spelling that has to be seen through.
	names := []string{"api_key", "Api-Key", "apiKey", "x-api-key", "api_secret", "secret", "SECRET_KEY", "client.secret",
		"password",
		"passwd", "authorization", "Proxy-Authorization", "auth", "auth_token", "access_token", "refresh token", "id_token",
		"Bearer",
		"bearer_token", "token", "JWT", "credential", "credentials", "cookie", "cookies", "Set-Cookie", "session",
		"session_id",
		"sessionToken", "session_key", "sid", "csrf_token", "private_key"}
	for _, sh := range posts {
		t.Run("AUTH-16 at the top level "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for i, name := range names {
				value := []string{`"hunter2"`, `null`, `7`, `{}`}[i%4]
				a := c.Ask(sh, quote(name)+":"+value, modes[i%2].Field)
				requireError(t, sh, a, 400, "invalid_request_error")
				message := str(a.At(t, "error", "message"))
				require.Contains(t, message, name)
				require.NotContains(t, message, "hunter2")
			}
			c.RequireUntouched(t)
		})
		t.Run("AUTH-17 inside metadata "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, name := range names {
				for _, metadata := range []string{`{%s:"hunter2"}`, `{"a":{"b":[{%s:null}]}}`, `[{%s:1}]`} {
					a := c.Ask(sh, `"metadata":`+strings.ReplaceAll(metadata, "%s", quote(name)))
					requireError(t, sh, a, 400, "invalid_request_error")
				}
			}
			c.RequireUntouched(t)
			for _, name := range []string{"user_id", "conversation_id", "tokens", "authority", "session_count"} {
				require.Equal(t, 200, c.Ask(sh, `"metadata":{`+quote(name)+`:"x"}`).StatusCode, name)
			}
			// A string is never parsed: Claude Code sends this one.
			require.Equal(t, 200, c.Ask(sh, `"metadata":{"user_id":"{\"session_id\":\"x\"}"}`).StatusCode)
		})
		t.Run("AUTH-18 nowhere else "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, members := range []string{
				`"client_metadata":{"session_id":"x","api_key":"y"}`,
				`"prompt_cache_key":"x","safety_identifier":"y","user_id":"z","conversation_id":"w"`,
				sh.Tools(
					wire.Function{Name: "login", Schema: `{"type":"object","properties":{"api_key":{"type":"string"},"session_id":{}}}`}),
			} {
				require.Equal(t, 200, c.Ask(sh, members).StatusCode, members)
			}
			require.Equal(t, 200, c.Post(sh.Path, sh.Body(`PROMPT {"api_key":"x"} cookie: y`)).StatusCode)
		})
	}
}
