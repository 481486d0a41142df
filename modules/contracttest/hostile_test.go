package contracttest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Bodies that are made to cost much. What is proven here is the answer; the tests take a moment each because the
// work is linear, and would take hours if it were not. The soak has the same at full size, and counts the memory.

// many is n elements, separated by commas.
func many(n int, element func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(element(i))
	}
	return b.String()
}

// hostile is a body and its answer.
type hostile struct {
	name   string
	body   string
	status int
	code   string // of an error
}

// hostileBodies are about size bytes each.
func hostileBodies(sh shape, size int) []hostile {
	member := map[string]string{"chat": "messages", "responses": "input", "messages": "messages"}[sh.Name]
	turns := func(n int, turn string) string {
		return sh.Body("PROMPT", fmt.Sprintf("%q:[%s]", member, many(n, func(int) string { return turn })))
	}
	declared := func(n int) string {
		return many(n, func(i int) string {
			name := fmt.Sprintf(`"name":"f%d"`, i)
			if sh.Name == "chat" {
				return `{"type":"function","function":{` + name + `}}`
			}
			if sh.Name == "responses" {
				return `{"type":"function",` + name + `}`
			}
			return "{" + name + "}"
		})
	}
	const invalid, large = "invalid_request_error", "feature_unavailable" // what fits no context window
	return []hostile{
		{"HTTP-02 nested 100,000 deep", sh.Body("PROMPT", `"x":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)),
			400, invalid},
		{"HTTP-02 opened and never closed", `{"x":` + strings.Repeat(`{"x":`, size/5), 400, invalid},
		{"HTTP-02 invalid UTF-8 at the end", strings.ReplaceAll(sh.Body("BAD"), "BAD", strings.Repeat("x", size)+"\xff"), 400,
			invalid},
		{"HTTP-02 a string that does not end", `{"x":"` + strings.Repeat(`\"`, size/2), 400, invalid},
		{"one string", sh.Body(strings.Repeat("x ", size/2)), 503, large},
		{"one string of escapes", sh.Body("PROMPT", fmt.Sprintf(`%q:[{"role":"user","content":"%s"}]`, member,
			strings.Repeat(`\ud800`, size/6))), 503, large},
		{"very many turns", turns(size/35, `{"role":"user","content":"x"}`), 503, large},
		{"very many tools", sh.Body("PROMPT", `"tools":[`+declared(size/40)+`]`), 503, large},
		{"very many tools of the same name", sh.Body("PROMPT",
			`"tools":[`+strings.Repeat(declared(1)+",", size/40)+declared(1)+`]`), 400, invalid},
		{"very many members in a part", turns(1, `{"role":"user","content":[{"type":"text"`+strings.Repeat(`,"audio":{}`,
			size/11)+`}]}`), 400, invalid},
		{"HTTP-04 very many equal members", sh.Body("PROMPT", many(size/10, func(int) string { return `"model":1` }),
			`"model":"auto"`), 200, ""},
		{"GAP-74 lone surrogates", strings.ReplaceAll(sh.Body("PROMPT SURROGATE"), "SURROGATE", `\ud800 \udc00\udc00 \ud83d`),
			200, ""},
		{"a number of very many digits", sh.Body("PROMPT", `"max_tokens":1`+strings.Repeat("0", size),
			`"max_output_tokens":`+strings.Repeat("9", size)), 400, invalid},
		{"a model of great length", sh.Body("PROMPT", `"model":"gpt-5-`+strings.Repeat("x", size)+`"`), 404,
			"model_not_found"},
		{"a credential of great length", sh.Body("PROMPT", `"metadata":{"`+strings.Repeat("-", size)+`secret":1}`), 400,
			invalid},
	}
}

func TestHostileBodies(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{{Name: "standard", Window: 20_000, Max: 4_000}}})
	for _, sh := range shapes {
		for _, h := range hostileBodies(sh, 1<<20) {
			t.Run(h.name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				a := c.Post(sh.Path, h.body)
				if h.status == http.StatusOK {
					require.Equal(t, http.StatusOK, a.StatusCode, "%s", a.Raw)
					return
				}
				requireError(t, sh, a, h.status, h.code)
				require.Less(t, len(a.Raw), 1<<10, "nothing of the request comes back")
				c.RequireUntouched(t)
			})
		}
	}
}

// TestMemoryOfBodies proves max_body_memory for what a body is made into, which may be far more than its bytes.
func TestMemoryOfBodies(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `
max_body        = "64KiB"
max_body_memory = "1MiB"
`})
	objects := func(n int) string { return `"metadata":[` + many(n, func(int) string { return "{}" }) + `]` }
	for _, sh := range shapes { // one after the other, for they share the memory
		t.Run("LIM-12 together "+sh.Name, func(t *testing.T) {
			first, second := g.rich(t), g.rich(t)
			first.Blocked(hello)
			blocked := first.Start(t, sh, objects(1500))
			a := second.Ask(sh, objects(1500))
			requireFull(t, sh, a)
			second.RequireUntouched(t)
			require.Equal(t, http.StatusOK, second.Ask(sh).StatusCode, "there is room for small ones")
			first.Upstream.Open(first.Mark)
			require.Equal(t, http.StatusOK, (<-blocked).StatusCode)
			eventuallyOK(t, second, sh, objects(1500))
		})
		t.Run("HTTP-03 alone "+sh.Name, func(t *testing.T) {
			c := g.rich(t)
			requireError(t, sh, c.Ask(sh, objects(2100)), 413, "invalid_request_error")
			require.Equal(t, http.StatusOK, c.Ask(sh, `"metadata":"`+strings.Repeat("{", 2100)+`"`).StatusCode,
				"a text of braces")
		})
	}
}

// eventuallyOK asks until the gateway has given back what the request before took: it does so after the reply.
func eventuallyOK(t testing.TB, c *caller, sh shape, fields ...string) {
	t.Helper()
	ctx := within(t)
	for {
		a := c.Ask(sh, fields...)
		if a.StatusCode == http.StatusOK {
			return
		}
		requireFull(t, sh, a)
		require.NoError(t, ctx.Err())
	}
}

// TestTricklingBody proves that a body which never arrives is waited for no longer than request_timeout, whatever
// the server's own timeouts are: the server of these tests has none.
func TestTricklingBody(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Gateway: `request_timeout = "300ms"`})
	for _, sh := range shapes {
		for _, length := range []string{"Content-Length: 1000000", "Transfer-Encoding: chunked"} {
			t.Run(sh.Name+" "+length, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				conn, err := net.Dial("tcp", strings.TrimPrefix(c.URL, "http://"))
				require.NoError(t, err)
				defer conn.Close()
				deadline, _ := within(t).Deadline()
				require.NoError(t, conn.SetDeadline(deadline))
				_, err = io.WriteString(conn, strings.Join([]string{"POST " + sh.Path + " HTTP/1.1", "Host: gateway",
					"Authorization: Bearer " + c.Key, length, "", ""}, "\r\n"))
				require.NoError(t, err)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					tick := time.NewTicker(10 * time.Millisecond)
					defer tick.Stop()
					for range tick.C {
						if _, err := io.WriteString(conn, strconv.Itoa(1)+"\r\n \r\n"); err != nil {
							return // closed
						}
					}
				}()
				reply, err := io.ReadAll(conn) // up to where the gateway closes the connection
				if err != nil {
					require.ErrorContains(t, err, "reset", "it was read on while the bytes came")
				}
				<-ended
				if len(reply) > 0 { // otherwise the reset has overtaken it
					require.Contains(t, string(reply), "HTTP/1.1 400 ")
					require.Contains(t, string(reply), "did not arrive in time")
					require.NotContains(t, strings.ToLower(string(reply)), "x-should-retry", "GAP-119")
				}
				c.RequireUntouched(t)
			})
		}
	}
}
