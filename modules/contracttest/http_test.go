package contracttest

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	const limit = 8 << 10
	g := startScripted(t, setup{Gateway: `max_body = "8KiB"`})
	for _, sh := range posts {
		t.Run("HTTP-02 ERR-11 not a JSON object "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, body := range []string{
				`{"model":`, ``, ` `, `[]`, `null`, `"PROMPT"`, `7`, sh.Body("PROMPT") + `x`, sh.Body("PROMPT") + `{}`,
				`{"model":"auto",}`, `{'model':'auto'}`, "{\"model\":\"auto\xff\"}", `{"model":"auto"} // PROMPT`,
				"\xef\xbb\xbf" + sh.Body("PROMPT"),
				sh.Body("PROMPT", `"x":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)),
			} {
				for _, contentType := range []string{"application/json", "text/plain"} {
					requireError(t, sh, c.Post(sh.Path, body, "Content-Type", contentType), 400, "invalid_request_error")
				}
			}
			c.RequireUntouched(t)
		})
		t.Run("HTTP-03 LIM-13 GAP-17 the size limit "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			pad := func(size int) string {
				start := strings.ReplaceAll(sh.Body("PROMPT"), "PROMPT", c.Mark)
				return start + strings.Repeat(" ", size-len(start))
			}
			a := c.Post(sh.Path, pad(limit+1))
			requireError(t, sh, a, 413, "invalid_request_error")
			requireError(t, sh, c.chunked(t, sh.Path, pad(limit+1)), 413, "invalid_request_error")
			requireError(t, sh, c.chunked(t, sh.Path, pad(10*limit)), 413, "invalid_request_error")
			c.RequireUntouched(t)
			require.Equal(t, 200, c.Post(sh.Path, pad(limit)).StatusCode)
			require.Equal(t, 200, c.chunked(t, sh.Path, pad(limit)).StatusCode)
		})
		t.Run("HTTP-01 any content type, no content encoding "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, kind := range []string{"", "text/plain", "application/json; charset=latin1", "nonsense"} {
				require.Equal(t, 200, c.Post(sh.Path, sh.Body("PROMPT"), "Content-Type", kind).StatusCode)
			}
			require.Equal(t, 200, c.Post(sh.Path, sh.Body("PROMPT"), "Content-Encoding", "identity").StatusCode)
			requireError(t, sh, c.Post(sh.Path, sh.Body("PROMPT"), "Content-Encoding", "gzip"), 400, "invalid_request_error")
		})
		t.Run("HTTP-04 the last of two equal members counts "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			require.Equal(t, 200, c.Ask(sh, `"model":7`, `"model":"auto"`).StatusCode)
			requireError(t, sh, c.Ask(sh, `"model":"auto"`, `"model":7`), 400, "invalid_request_error")
		})
	}
}

// chunked posts a body without telling its length.
func (c *caller) chunked(t testing.TB, path, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, c.URL+path,
		struct{ io.Reader }{strings.NewReader(body)})
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+c.Key)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp, raw}
}

func TestHeadersAreNotForwarded(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: threeRoutes, Extra: threeProfiles})
	for _, sh := range shapes {
		t.Run("HTTP-06 HTTP-07 VER-12 GAP-20 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			plain := g.rich(t)
			want := outcomeOf(t, sh, plain.Ask(sh))
			c := g.rich(t)
			header := []string{"X-Source", "tell-src", "Http-Referer", "https://tell-referer.example", "X-Title", "tell-title",
				"Anthropic-Version", "tell-version", "Anthropic-Beta", "tell-beta", "Openai-Organization", "tell-org",
				"Openai-Beta", "tell-beta", "Openai-Project", "tell-project",
				"X-Session-Id", "tell-session", "Idempotency-Key", "tell-key", "User-Agent", "tell-agent", "X-Stainless-Lang",
				"tell-lang"}
			require.Equal(t, want, outcomeOf(t, sh, c.Post(sh.Path, sh.Body("PROMPT"), header...)))
			require.Equal(t, plain.Route(t), c.Route(t))
			sent := c.Seen()[0]
			require.Equal(t, plain.Seen()[0].Header["Content-Type"], sent.Header["Content-Type"])
			for i := 0; i < len(header); i += 2 {
				if header[i] != "User-Agent" {
					require.NotContains(t, sent.Header, header[i])
				}
			}
			for name, values := range sent.Header {
				require.NotContains(t, strings.Join(values, " "), "tell-", name)
			}
			require.NotContains(t, string(sent.Body), "tell-")
			// Nothing is replayed by key: every POST is its own charged request (GAP-86).
			before := c.Net()
			outcomeOf(t, sh, c.Post(sh.Path, sh.Body("PROMPT"), header...))
			require.Less(t, c.Net(), before)
		})
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	bare := map[string]string{"chat": "EP-02", "messages": "EP-06"}
	for _, sh := range shapes {
		if sh.Name == "responses" {
			continue
		}
		t.Run(bare[sh.Name]+" VER-02 the same handler without /v1, "+sh.Name, func(t *testing.T) {
			t.Parallel()
			short := strings.TrimPrefix(sh.Path, "/v1")
			for _, mode := range modes {
				c := g.rich(t)
				a, b := c.Post(sh.Path, sh.Body("PROMPT", mode.Field)), c.Post(short, sh.Body("PROMPT", mode.Field))
				require.Equal(t, outcomeOf(t, sh, a), outcomeOf(t, sh, b))
				require.Equal(t, a.Header.Get("Content-Type"), b.Header.Get("Content-Type"))
				requireError(t, sh, c.Post(short, `{`), 400, "invalid_request_error")
				requireError(t, sh, c.Post(short, sh.Body("PROMPT"), "Authorization", "Bearer x"), 401, "authentication_error")
				requireError(t, sh, c.Post(short, sh.Body("PROMPT", `"model":"x"`)), 404, "model_not_found")
			}
		})
	}
	charged := map[string]string{"chat": "EP-01", "responses": "EP-03", "messages": "EP-05"}
	for _, sh := range shapes {
		t.Run(charged[sh.Name]+" BILL-08 charged, "+sh.Name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range modes {
				c := g.caller(t, 1000)
				require.EqualValues(t, helloCost, outcomeOf(t, sh, c.Ask(sh, mode.Field)).Billed(t))
				require.EqualValues(t, 1000*1_000_000-helloCost, c.Net())
				require.Zero(t, c.Balance().Held)
			}
		})
	}
	t.Run("EP-04 EP-12 ACCT-14 VER-03 no path without /v1", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, header := range [][]string{nil, {"Authorization", ""}} {
			requireError(t, shapeOf("chat"), c.Post("/responses", shapeOf("responses").Body("PROMPT"), header...), 404,
				"invalid_request_error")
			requireError(t, shapeOf("chat"), c.Do("GET", "/account", "", header...), 404, "invalid_request_error")
		}
		c.RequireUntouched(t)
	})
	t.Run("EP-13 EP-14 BILL-35 lookups are free", func(t *testing.T) {
		t.Parallel()
		c := g.caller(t, 2)
		for range 5 {
			for _, p := range places {
				if p.Method == "GET" {
					require.Equal(t, 200, p.Send(c).StatusCode)
				}
			}
		}
		c.RequireUntouched(t)
	})
	t.Run("VER-01 GEN-17 paths are exact (GAP-02, GAP-04, GAP-100, GAP-106)", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, p := range places {
			for _, path := range []string{p.Path + "/", "/" + p.Path, strings.Replace(p.Path, "/", "//", 2),
				strings.ToUpper(p.Path)} {
				wrong := p
				wrong.Path = path
				a := wrong.Send(c, "Authorization", "")
				require.Equal(t, 404, a.StatusCode, path)
				require.NotEmpty(t, a.Header.Get("X-Request-Id"))
				require.NotContains(t, string(a.Raw), "model_not_found")
			}
			queried := p
			queried.Path += "?beta=true"
			require.Equal(t, 200, queried.Send(c).StatusCode)
		}
		for _, path := range []string{"/", "/v1", "/v1/", "/metrics", "/v1/completions", "/v1/embeddings", "/portal"} {
			a := c.Get(path)
			requireError(t, shapeOf("chat"), a, 404, "invalid_request_error")
			require.Contains(t, str(a.At(t, "error", "message")), "GET "+path)
		}
		for _, path := range []string{"/v1/messages/batches", "/messages/x"} {
			a := c.Get(path)
			requireError(t, shapeOf("messages"), a, 404, "not_found_error")
			require.Contains(t, str(a.At(t, "error", "message")), "that is not offered. What is offered: GET /v1/account, ")
		}
		require.Equal(t, 404, c.Do("HEAD", "/api/hello", "", "Authorization", "").StatusCode)
		require.Equal(t, 200, c.Post("/v1/chat/%63ompletions", shapeOf("chat").Body("PROMPT")).StatusCode)
	})
	t.Run("HTTP-01 GEN-17 wrong methods (GAP-03, GAP-104)", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, p := range places {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
				if method == p.Method {
					continue
				}
				a := c.Do(method, p.Path, "", "Authorization", "")
				requireError(t, p.Shape, a, 405, "invalid_request_error")
				require.Equal(t, map[string]string{"GET": "GET, HEAD", "POST": "POST"}[p.Method], a.Header.Get("Allow"))
				for name := range a.Header {
					require.False(t, strings.HasPrefix(name, "Access-Control-"), name)
				}
			}
			if p.Method == "GET" {
				a := c.Do("HEAD", p.Path, "")
				require.Equal(t, 200, a.StatusCode)
				require.Empty(t, a.Raw)
				require.Equal(t, 401, c.Do("HEAD", p.Path, "", "Authorization", "").StatusCode)
			}
		}
		a := c.Get("/v1/responses", "Connection", "Upgrade", "Upgrade", "websocket")
		requireError(t, shapeOf("responses"), a, 426, "invalid_request_error")
	})
	t.Run("HTTP-01 every body is JSON with its length", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.Answers(script(upstream.Usage{Prompt: 1, Completion: 1}, "stop", upstream.Text(strings.Repeat("long ", 5000))))
		for _, sh := range shapes {
			a := c.Ask(sh)
			require.Equal(t, strconv.Itoa(len(a.Raw)), a.Header.Get("Content-Length"))
			require.False(t, bytes.Contains(a.Raw, []byte("\n")))
		}
	})
}
