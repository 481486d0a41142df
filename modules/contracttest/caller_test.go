package contracttest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// scripted is a gateway that parallel subtests share: each is a caller of its own, with its own money, its
// own reply from the upstream, and its own view of what the upstream was asked.
type scripted struct {
	*service

	mu      sync.Mutex
	callers int
	replies map[string]func(*upstream.Request) upstream.Reply
	calls   map[string][]*upstream.Request
}

func startScripted(t testing.TB, s setup) *scripted {
	t.Helper()
	g := &scripted{replies: make(map[string]func(*upstream.Request) upstream.Reply),
		calls: make(map[string][]*upstream.Request)}
	s.Script.Script = g.answer
	g.service = start(t, s)
	t.Cleanup(func() { // whatever failed, nothing of it goes on upstream
		g.mu.Lock()
		callers := g.callers
		g.mu.Unlock()
		for n := range callers + 1 {
			g.Upstream.Open(markOf(n))
		}
	})
	return g
}

// markOf is the mark of the n-th caller. 0 is nobody's: tests make that one by themselves.
func markOf(n int) string { return fmt.Sprintf("caller-%d-", n) }

var markPattern = regexp.MustCompile(`caller-[0-9]+-`)

// hello is what the upstream says to callers that want nothing else: 10 tokens in, 2 out, which costs 6,000
// microcents at the standard prices.
var hello = script(upstream.Usage{Prompt: 10, Completion: 2}, "stop", upstream.Text("Hel"), upstream.Text("lo"))

const helloCost = 10*300 + 2*1500

// script makes a reply of these steps that reports this usage.
func script(u upstream.Usage, finish string, steps ...upstream.Step) upstream.Reply {
	return upstream.Reply{Steps: append(steps, upstream.Finish(finish), upstream.ReportTokens(u), upstream.Done())}
}

func (g *scripted) answer(req *upstream.Request) upstream.Reply {
	mark := markPattern.FindString(string(req.Body))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[mark] = append(g.calls[mark], req)
	if reply, ok := g.replies[mark]; ok {
		return reply(req)
	}
	return hello
}

// caller is a customer with an account of its own. Its requests carry its mark wherever their body says PROMPT.
type caller struct {
	*service
	gateway *scripted
	Mark    string // also free to use as the name of a gate of the upstream
	Credits int64
}

// caller makes a customer with so many credits.
func (g *scripted) caller(t testing.TB, credits int64) *caller {
	t.Helper()
	g.mu.Lock()
	g.callers++
	mark := markOf(g.callers)
	g.mu.Unlock()
	own := *g.service
	own.t = t
	own.Account, own.Key = own.NewAccount(mark, own.plan, credits)
	return &caller{service: &own, gateway: g, Mark: mark, Credits: credits}
}

// rich makes a customer whose money is no matter.
func (g *scripted) rich(t testing.TB) *caller { return g.caller(t, 1_000_000) }

// Answers sets what the upstream says to the caller.
func (c *caller) Answers(r upstream.Reply) {
	c.AnswersBy(func(*upstream.Request) upstream.Reply { return r })
}

// AnswersBy sets how what the upstream says to the caller is found.
func (c *caller) AnswersBy(f func(*upstream.Request) upstream.Reply) {
	c.gateway.mu.Lock()
	defer c.gateway.mu.Unlock()
	c.gateway.replies[c.Mark] = f
}

// Do sends a request with the caller's key.
func (c *caller) Do(method, path, body string, header ...string) answer {
	c.t.Helper()
	return c.service.Do(method, path, strings.ReplaceAll(body, "PROMPT", c.Mark), header...)
}

// Post is Do for POST.
func (c *caller) Post(path, body string, header ...string) answer {
	c.t.Helper()
	return c.Do(http.MethodPost, path, body, header...)
}

// SetState changes the state of the caller's account, as an operator does.
func (c *caller) SetState(to ledger.State) {
	c.t.Helper()
	_, err := c.Engine.Store().SetState(context.Background(), c.Account.ID, to)
	require.NoError(c.t, err)
	c.Engine.ForgetKeys()
}

// Revoke revokes the caller's key, as an operator does.
func (c *caller) Revoke() {
	c.t.Helper()
	ctx := context.Background()
	err := c.Engine.Store().Keys(ctx, ledger.KeyQuery{Account: c.Account.ID}, func(k ledger.Key) error {
		if k.Name != "first" {
			return nil
		}
		_, err := c.Engine.Store().RevokeKey(ctx, k.ID)
		return err
	})
	require.NoError(c.t, err)
	c.Engine.ForgetKeys()
}

// raw posts a body with header lines as they are, for what Go's client would tidy up.
func (c *caller) raw(t testing.TB, path, body string, header ...string) answer {
	t.Helper()
	body = strings.ReplaceAll(body, "PROMPT", c.Mark)
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	lines := append([]string{"POST " + path + " HTTP/1.1", "Host: gateway", "Connection: close"}, header...)
	if !strings.Contains(strings.ToLower(strings.Join(lines, "\n")), "\nauthorization:") {
		lines = append(lines, "Authorization: Bearer "+c.Key)
	}
	lines = append(lines, "Content-Length: "+strconv.Itoa(len(body)), "", body)
	_, err = io.WriteString(conn, strings.Join(lines, "\r\n"))
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp, content}
}

// Ask posts the smallest request of a shape, with more members.
func (c *caller) Ask(sh shape, fields ...string) answer {
	c.t.Helper()
	return c.Post(sh.Path, sh.Body("PROMPT", fields...))
}

// Seen returns what the upstream was asked for the caller so far.
func (c *caller) Seen() []*upstream.Request {
	c.gateway.mu.Lock()
	defer c.gateway.mu.Unlock()
	return c.gateway.calls[c.Mark]
}

// Sent is the body of the caller's latest request upstream.
func (c *caller) Sent(t testing.TB) map[string]any {
	t.Helper()
	seen := c.Seen()
	require.NotEmpty(t, seen, "the upstream was not called")
	var body map[string]any
	require.NoError(t, json.Unmarshal(seen[len(seen)-1].Body, &body))
	return body
}

// Route is the upstream model of the caller's latest request upstream, which the tests' routes are named by.
func (c *caller) Route(t testing.TB) string {
	t.Helper()
	seen := c.Seen()
	require.NotEmpty(t, seen, "the upstream was not called")
	return seen[len(seen)-1].Model
}

// RequireUntouched checks that nothing the caller did had a price: no call upstream, no hold, NET unchanged.
func (c *caller) RequireUntouched(t testing.TB) {
	t.Helper()
	require.Empty(t, c.Seen(), "the upstream was called")
	require.Equal(t, ledger.Balance{Credits: c.Credits}, c.Balance())
}

// Blocked answers with a reply that waits at the gate of the caller's name, after its header was sent.
func (c *caller) Blocked(r upstream.Reply) {
	r.Steps = append([]upstream.Step{upstream.Headers(), upstream.Wait(c.Mark)}, r.Steps...)
	c.Answers(r)
}

// Start sends a request that Blocked keeps waiting upstream, and returns when it waits there. The reply comes
// when the gate opens.
func (c *caller) Start(t testing.TB, sh shape, fields ...string) <-chan answer {
	t.Helper()
	done, ended := make(chan answer, 1), make(chan struct{})
	ctx, answered := context.WithCancelCause(within(t))
	go func() {
		defer close(ended)
		a := c.Ask(sh, fields...)
		done <- a
		answered(fmt.Errorf("the gateway answered %d: %s", a.StatusCode, a.Raw))
	}()
	t.Cleanup(func() { // whatever failed, the request does not outlive the test
		c.Upstream.Open(c.Mark)
		<-ended
	})
	require.NoError(t, c.Upstream.AtGate(ctx, c.Mark, 1))
	return done
}
