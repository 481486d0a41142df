package contracttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/entry"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// place is an endpoint of the contract at one of its paths.
type place struct {
	Method, Path string
	Shape        shape // of its errors, and of its body
}

// Send calls the place with a body that it accepts.
func (p place) Send(c *caller, header ...string) answer {
	c.t.Helper()
	body := ""
	if p.Method == http.MethodPost {
		body = p.Shape.Body("PROMPT")
	}
	return c.Do(p.Method, p.Path, body, header...)
}

// places are all endpoints at all their paths.
var places = []place{
	{"POST", "/v1/chat/completions", shapeOf("chat")}, {"POST", "/chat/completions", shapeOf("chat")},
	{"POST", "/v1/responses", shapeOf("responses")},
	{"POST", "/v1/messages", shapeOf("messages")}, {"POST", "/messages", shapeOf("messages")},
	{"POST", "/v1/messages/count_tokens", shapeOf("messages")}, {"POST", "/messages/count_tokens", shapeOf("messages")},
	{"GET", "/v1/models", shapeOf("chat")}, {"GET", "/models", shapeOf("chat")},
	{"GET", "/v1/models/service/auto", shapeOf("chat")}, {"GET", "/models/service/auto", shapeOf("chat")},
	{"GET", "/v1/account", shapeOf("chat")},
}

// neitherTrivialNorHard is a prompt for which profiles choose different routes.
const neitherTrivialNorHard = "PROMPT Compare two ways to heat a house."

func TestService(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{
		{Name: "cheap", Quality: 0.3, Input: "0.1", Output: "0.5"},
		{Name: "dear", Quality: 0.9, Input: "10", Output: "50"},
	}})

	t.Run("GEN-01 EP-07 every path is relative to the host", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		require.Equal(t, 200, c.Get("/v1/models").StatusCode)
		require.Equal(t, 200, c.Do("GET", "/v1/models", "{not json").StatusCode, "a body sent with a GET is ignored")
		requireError(t, shapeOf("chat"), c.Get("/v1/v1/models"), 404, "invalid_request_error")
	})
	for _, p := range places {
		t.Run("GEN-03 GEN-16 HTTP-01 VER-01 VER-02 "+p.Method+" "+p.Path, func(t *testing.T) {
			t.Parallel()
			a := p.Send(g.rich(t))
			require.Equal(t, 200, a.StatusCode, "body: %s", a.Raw)
			require.Equal(t, "application/json", a.Header.Get("Content-Type"))
			require.NotEmpty(t, a.JSON(t))
			require.Regexp(t, `^req_[0-9a-f]{32}$`, a.Header.Get("X-Request-Id"))
			require.Empty(t, a.Header.Get("X-Should-Retry"))
		})
	}
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("GEN-02 GEN-07 GEN-12 GEN-15 GEN-16 "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				before := c.Net()
				a := c.Ask(sh, mode.Field)
				o := outcomeOf(t, sh, a)
				require.Equal(t, "service/auto", o.Model)
				require.Equal(t, "Hello", o.Text)
				require.Equal(t, mode.Name == "streamed", strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream"))
				require.Regexp(t, `^req_[0-9a-f]{32}$`, a.Header.Get("X-Request-Id"))
				want := map[string]int64{"cheap": 10*10 + 2*50, "dear": 10*1000 + 2*5000}[c.Route(t)]
				require.Equal(t, want, o.Billed(t))
				require.Equal(t, want, before-c.Net())
			})
		}
	}
	t.Run("GEN-02 a body of another shape is not one of this", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		a := c.Post("/v1/responses", shapeOf("chat").Body("PROMPT"))
		requireError(t, shapeOf("responses"), a, 400, "invalid_request_error")
		c.RequireUntouched(t)
	})
	t.Run("GEN-04 credit first", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			c := g.caller(t, 0)
			requireError(t, sh, c.Ask(sh, `"max_tokens":10,"max_output_tokens":10`), 402, "budget_exceeded")
			c.RequireUntouched(t)
			c.TopUp(c.Account, 1000)
			require.Equal(t, 200, c.Ask(sh, `"max_tokens":10,"max_output_tokens":10`).StatusCode)
		}
	})
	t.Run("GEN-05 the service chooses the route", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			for profile, want := range map[string]string{"budget": "cheap", "max": "dear"} {
				c := g.rich(t)
				a := c.Post(sh.Path, sh.Body(neitherTrivialNorHard), "X-Service-Profile", profile)
				require.Equal(t, 200, a.StatusCode)
				require.Equal(t, want, c.Route(t))
				line := c.Access(a.Header.Get("X-Request-Id"))
				require.Equal(t, want, line["route"])
				require.Equal(t, profile, line["profile"])
			}
		}
	})
	t.Run("GEN-06 no client pins a model", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			for _, name := range []string{"cheap", "dear"} {
				pin := fmt.Sprintf(`"provider":%[1]q,"route":%[1]q,"models":[%[1]q]`, name)
				for profile, want := range map[string]string{"budget": "cheap", "max": "dear"} {
					c := g.rich(t)
					a := c.Post(sh.Path, sh.Body(neitherTrivialNorHard, pin), "X-Route", name, "X-Provider", "up", "X-Model", name,
						"X-Service-Profile", profile)
					require.Equal(t, 200, a.StatusCode, "body: %s", a.Raw)
					require.Equal(t, want, c.Route(t))
					require.NotContains(t, string(c.Seen()[0].Body), "provider")
				}

				refused := g.rich(t)
				requireError(t, sh, refused.Ask(sh, `"model":`+quote(name)), 404, "model_not_found")
				refused.RequireUntouched(t)
			}
		}
	})
	t.Run("GEN-13 replies are text", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			c := g.rich(t)
			a := c.Ask(sh, `"modalities":["audio"],"audio":{"voice":"x","format":"wav"}`)
			require.Equal(t, "Hello", outcomeOf(t, sh, a).Text)
			require.NotContains(t, strings.ToLower(string(a.Raw)), "audio")
			require.NotContains(t, string(c.Seen()[0].Body), "audio")
		}
	})
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, sh := range shapes {
		t.Run("GEN-18 the service assigns ids, "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			const sent = "req_00000000000000000000000000000000"
			seen := map[string]bool{sent: true}
			for _, header := range [][]string{{}, {}, {"Authorization", "Bearer wrong"}} {
				a := c.Post(sh.Path, sh.Body("PROMPT"), append(header, "X-Request-Id", sent)...)
				id := a.Header.Get("X-Request-Id")
				require.Len(t, a.Header.Values("X-Request-Id"), 1)
				require.False(t, seen[id], "%s was used before", id)
				seen[id] = true
				if sh.Name == "messages" {
					require.Equal(t, id, a.Header.Get("Request-Id"))
				}
			}
			require.NotContains(t, g.Log.String(), sent)
			for _, req := range c.Seen() {
				require.Empty(t, req.Header.Get("X-Request-Id"))
			}
		})
		t.Run("GEN-19 the id finds the request, "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, end := range []struct {
				reply  upstream.Reply
				fields string
				status int
				reason string
				micros int64
			}{
				{hello, `"stream":false`, 200, "ok", helloCost},
				{upstream.Refuse(upstream.ServerError()), `"stream":false`, 502, "upstream", 0},
				{upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Fail(upstream.ServerError())}},
					`"stream":true`, 200, "upstream", 0},
			} {
				c.Answers(end.reply)
				a := c.Ask(sh, end.fields)
				require.Equal(t, end.status, a.StatusCode, "body: %s", a.Raw)
				line := c.Access(a.Header.Get("X-Request-Id"))
				require.Equal(t, sh.Name, line["endpoint"])
				require.Equal(t, c.Account.Name, line["account"])
				require.Equal(t, end.reason, line["reason"])
				require.EqualValues(t, end.micros, line["microcents"])
			}
		})
	}
}

// TestErrorsCarryIDs makes every status that an error can have.
func TestErrorsCarryIDs(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `max_body = "4KiB"`})
	silent := startScripted(t, setup{Gateway: `request_timeout = "200ms"`})
	refuse := func(e upstream.Error) upstream.Reply { return upstream.Refuse(e) }
	wordless := func(finish string) upstream.Reply { return script(upstream.Usage{Prompt: 1, Completion: 1}, finish) }

	for _, sh := range shapes {
		name := func(status int, what string) string {
			return fmt.Sprintf("GEN-17 GEN-20 %d %s %s", status, what, sh.Name)
		}
		check := func(status int, code, what string, send func(c *caller) answer) {
			t.Run(name(status, what), func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				first := send(c)
				requireError(t, sh, first, status, code)
				if first.Header.Get("X-Should-Retry") == "false" {
					again := send(c)
					requireError(t, sh, again, status, code)
					require.NotEqual(t, first.Header.Get("X-Request-Id"), again.Header.Get("X-Request-Id"))
					c.RequireUntouched(t)
				}
			})
		}
		answers := func(r upstream.Reply, fields ...string) func(c *caller) answer {
			return func(c *caller) answer {
				c.Answers(r)
				return c.Ask(sh, fields...)
			}
		}
		check(400, "invalid_request_error", "broken rule", func(c *caller) answer { return c.Post(sh.Path, `{`) })
		check(401, "authentication_error", "bad key", func(c *caller) answer {
			return c.Post(sh.Path, sh.Body("PROMPT"), "Authorization", "Bearer nonsense")
		})
		check(403, "permission_denied", "suspended", func(c *caller) answer {
			c.SetState(ledger.Suspended)
			return c.Ask(sh)
		})
		check(404, "model_not_found", "model", func(c *caller) answer { return c.Ask(sh, `"model":"service/turbo"`) })
		check(405, "invalid_request_error", "method",
			func(c *caller) answer { return c.Do("PUT", sh.Path, sh.Body("PROMPT")) })
		check(413, "invalid_request_error", "body", func(c *caller) answer {
			return c.Ask(sh,
				`"pad":"`+strings.Repeat("x", 5000)+`"`)
		})
		check(422, "invalid_request_error", "no room", answers(wordless("length"), `"max_tokens":1,"max_output_tokens":1`))
		check(429, "rate_limit_exceeded", "capacity", answers(refuse(upstream.RateLimited("7"))))
		check(502, "upstream_error", "route failed", answers(refuse(upstream.ServerError())))
		check(502, "no_visible_answer", "nothing said", answers(wordless("stop")))
		check(503, "feature_unavailable", "too large", func(c *caller) answer {
			return c.Ask(sh, `"max_tokens":10000000,"max_output_tokens":10000000`)
		})
		t.Run(name(402, "no credits"), func(t *testing.T) {
			t.Parallel()
			requireError(t, sh, g.caller(t, 0).Ask(sh), 402, "budget_exceeded")
		})
		t.Run(name(504, "time limit"), func(t *testing.T) {
			t.Parallel()
			c := silent.rich(t)
			c.Answers(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}})
			requireError(t, sh, c.Ask(sh), 504, "upstream_error")
		})
	}
	t.Run("GEN-17 GEN-20 404 unknown path", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		requireError(t, shapeOf("chat"), c.Get("/v1/nothing"), 404, "invalid_request_error")
		require.Equal(t, "false", c.Get("/nothing").Header.Get("X-Should-Retry"))
	})
	t.Run("GEN-17 GEN-20 500 panic", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			a := panicking(t, g, sh)
			requireError(t, sh, a, 500, "internal_server_error")
			require.NotContains(t, string(a.Raw), "boom")
		}
	})
}

// panicking sends a request to the outermost handler before one that panics.
func panicking(t *testing.T, g *scripted, sh shape) answer {
	t.Helper()
	all := []families.Server{chat.Server{}, responses.Server{}, messages.Server{}}
	first, err := entry.New(g.Engine, all, g.Log.entry())
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, sh.Path, strings.NewReader("{}"))
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, make(map[string]any)))
	w := httptest.NewRecorder()
	boom := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { panic("boom") })
	require.NoError(t, first.ServeHTTP(w, r, boom))
	return answer{w.Result(), w.Body.Bytes()}
}

// conversation is a list of turns in a shape, as its clients send it.
func conversation(sh shape, turns ...[2]string) string {
	var items []string
	for _, turn := range turns {
		b, err := json.Marshal(map[string]string{"role": turn[0], "content": turn[1]})
		if err != nil {
			panic(err)
		}
		items = append(items, string(b))
	}
	list := map[string]string{"chat": "messages", "responses": "input", "messages": "messages"}[sh.Name]
	return quote(list) + ":[" + strings.Join(items, ",") + "]"
}

func TestNoStateIsKept(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, sh := range shapes {
		t.Run("GEN-10 RESP-04 STATE-07 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			first := c.Ask(sh, conversation(sh, [2]string{"user", "PROMPT my name is Ada"}))
			require.Equal(t, 200, first.StatusCode)
			second := c.Ask(sh, conversation(sh, [2]string{"user", "PROMPT what is my name?"}))
			require.Equal(t, 200, second.StatusCode)
			require.Equal(t, []any{map[string]any{"role": "user", "content": c.Mark + " what is my name?"}},
				c.Sent(t)["messages"])

			id := str(first.At(t, "id"))
			require.NotEmpty(t, id)
			for _, r := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/cancel"}} {
				requireError(t, sh, c.Do(r[0], sh.Path+"/"+id+r[1], ""), 404, unknownPath(sh))
			}
		})
		for _, mode := range modes {
			t.Run("GEN-11 RESP-04 ten turns reach the route "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				turns := [][2]string{{"system", "Be brief, PROMPT."}}
				want := []any{map[string]any{"role": "system", "content": "Be brief, " + c.Mark + "."}}
				if sh.Name != "messages" {
					turns = append(turns, [2]string{"developer", "And kind."})
					want = append(want, map[string]any{"role": "system", "content": "And kind."})
				}
				for i := range 10 {
					role := []string{"user", "assistant"}[i%2]
					text := fmt.Sprintf("turn %d \"é\" 日本 \n", i)
					turns = append(turns, [2]string{role, text})
					want = append(want, map[string]any{"role": role, "content": text})
				}
				turns = append(turns, [2]string{"user", "Last."})
				want = append(want, map[string]any{"role": "user", "content": "Last."})
				outcomeOf(t, sh, c.Ask(sh, conversation(sh, turns...), mode.Field))
				require.Equal(t, want, c.Sent(t)["messages"])
			})
		}
	}
}
