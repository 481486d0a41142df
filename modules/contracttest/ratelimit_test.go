package contracttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
)

// paced is a gateway whose limits go by a clock that the test turns.
type paced struct {
	*scripted
	ratelimittest.Clock
}

// limitedTo is the plan "limited": requests a minute of a key, an account and an address, 0 for no limit, and more
// attributes as HCL.
func limitedTo(key, account, address int, more ...string) string {
	return fmt.Sprintf("plan \"limited\" {\n requests_per_minute {\n key = %d\n account = %d\n address = %d\n }\n %s\n}\n",
		key, account, address, strings.Join(more, "\n"))
}

// pace starts a gateway with a clock. All its callers are on the plan "limited" of the configuration.
func pace(t testing.TB, hcl string, s setup) *paced {
	t.Helper()
	g := new(paced)
	s.Extra, s.Plan = hcl, "limited"
	s.Limiter = ratelimit.NewMemory(ratelimit.Options{Elapsed: g.Elapsed})
	g.scripted = startScripted(t, s)
	return g
}

// from is the caller at another address of this machine.
func (c *caller) from(t testing.TB, address string) *away {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &away{caller: c, client: &http.Client{Transport: transport}}
}

// away is a caller whose requests come from an address of its own.
type away struct {
	*caller
	client *http.Client
}

func (c *away) Do(method, path, body string, header ...string) answer {
	c.t.Helper()
	req, err := http.NewRequestWithContext(within(c.t), method, c.URL+path,
		strings.NewReader(strings.ReplaceAll(body, "PROMPT", c.Mark)))
	require.NoError(c.t, err)
	req.Header.Set("Authorization", "Bearer "+c.Key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.client.Do(req)
	require.NoError(c.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	return answer{resp, raw}
}

func (c *away) Ask(sh shape, fields ...string) answer {
	c.t.Helper()
	return c.Do("POST", sh.Path, sh.Body("PROMPT", fields...))
}

// withKey is the caller with another key of its account.
func (c *caller) withKey(t testing.TB) *caller {
	t.Helper()
	other, own := *c, *c.service
	own.Key = own.NewKey(own.Account, "another")
	other.service = &own
	return &other
}

// requireLimited checks the 429 of a limit, whole, and returns its Retry-After (LIM-05, LIM-06).
func requireLimited(t testing.TB, sh shape, a answer, reason string) time.Duration {
	t.Helper()
	requireError(t, sh, a, 429, "rate_limit_exceeded")
	require.Equal(t, []string{reason}, a.Header["X-Ratelimit-Reason"])
	require.Regexp(t, `^[1-9][0-9]?$`, a.Header.Get("Retry-After"))
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.LessOrEqual(t, seconds, 60)
	return time.Duration(seconds) * time.Second
}

// TestRateLimits proves each limit of requests a minute: 5 are answered, the 6th is not, others are not affected,
// and who waits as long as it is told is answered again.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	const free = "127.0.0.1"
	for _, limit := range []struct {
		clauses, hcl, reason string
		// asks are the callers that share the limit, and others those that it is none of.
		asks   func(t *testing.T, g *paced) []*away
		others func(t *testing.T, g *paced, limited *caller) []*away
	}{{
		"LIM-01 LIM-07", limitedTo(5, 0, 0), "key_requests_per_minute",
		func(t *testing.T, g *paced) []*away { return []*away{g.rich(t).from(t, free)} },
		func(t *testing.T, g *paced, c *caller) []*away {
			return []*away{c.withKey(t).from(t, free), g.rich(t).from(t, free)}
		},
	}, {
		"LIM-02 LIM-08", limitedTo(0, 5, 0), "tenant_requests_per_minute",
		func(t *testing.T, g *paced) []*away {
			c := g.rich(t)
			return []*away{c.from(t, free), c.withKey(t).from(t, "127.0.0.2")}
		},
		func(t *testing.T, g *paced, _ *caller) []*away { return []*away{g.rich(t).from(t, free)} },
	}, {
		"LIM-03 LIM-09", limitedTo(0, 0, 5), "ip_requests_per_minute",
		func(t *testing.T, g *paced) []*away {
			return []*away{g.rich(t).from(t, free), g.rich(t).from(t, free)}
		},
		func(t *testing.T, g *paced, c *caller) []*away {
			return []*away{c.from(t, "127.0.0.2"), g.rich(t).from(t, "127.0.0.3")}
		},
	}} {
		for _, sh := range shapes {
			for _, mode := range modes {
				t.Run(limit.clauses+" LIM-05 LIM-06 AUTH-20 ERR-23 "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					g := pace(t, limit.hcl, setup{})
					asks := limit.asks(t, g)
					for n := range 5 {
						outcomeOf(t, sh, asks[n%len(asks)].Ask(sh, mode.Field))
						g.Advance(3*time.Second + 500*time.Millisecond)
					}
					c := asks[0]
					before, called := c.Net(), len(c.Seen())
					var wait time.Duration
					for range 3 { // who does not wait is not made to wait longer
						wait = requireLimited(t, sh, c.Ask(sh, mode.Field), limit.reason)
						require.Equal(t, 43*time.Second, wait, "60 s after the first request, 42.5 s from now")
					}
					require.Equal(t, before, c.Net())
					require.Zero(t, c.Balance().Held)
					require.Len(t, c.Seen(), called, "the upstream was called")
					for _, other := range limit.others(t, g, c.caller) {
						outcomeOf(t, sh, other.Ask(sh, mode.Field))
					}
					g.Advance(wait - time.Second)
					require.Equal(t, time.Second, requireLimited(t, sh, c.Ask(sh, mode.Field), limit.reason))
					g.Advance(time.Second)
					outcomeOf(t, sh, c.Ask(sh, mode.Field))
					require.Equal(t, 3*time.Second, requireLimited(t, sh, c.Ask(sh, mode.Field), limit.reason),
						"only the first request was over")
				})
			}
		}
	}
}

// TestRateLimitsOfEndpoints proves that all endpoints count, whatever they answer (GAP-16), and where in the order
// of the checks the limits stand (GAP-01).
func TestRateLimitsOfEndpoints(t *testing.T) {
	t.Parallel()
	g := pace(t, limitedTo(2, 0, 0), setup{Gateway: `max_body = "16KiB"`})
	for _, p := range places {
		t.Run("LIM-05 GAP-16 "+p.Method+" "+p.Path, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			require.Equal(t, 200, p.Send(c).StatusCode)
			require.Equal(t, 200, p.Send(c).StatusCode)
			before := c.Net()
			a := p.Send(c)
			require.Equal(t, time.Minute, requireLimited(t, p.Shape, a, "key_requests_per_minute"))
			require.Equal(t, before, c.Net())
			line := c.Access(a.Header.Get("X-Request-Id"))
			require.Equal(t, "key_requests_per_minute", line["reason"], "the operator sees which limit it was")
			require.Equal(t, c.Account.Name, line["account"])
		})
		t.Run("GAP-16 one minute for all endpoints "+p.Method+" "+p.Path, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			require.Equal(t, 200, p.Send(c).StatusCode)
			require.Equal(t, 200, c.Get("/v1/account").StatusCode)
			requireLimited(t, p.Shape, p.Send(c), "key_requests_per_minute")
		})
	}
	for _, sh := range posts {
		t.Run("GAP-01 before the body "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			requireError(t, sh, c.Post(sh.Path, `{"model":`), 400, "invalid_request_error")
			requireError(t, sh, c.Post(sh.Path, strings.Repeat(" ", 20<<10)), 413, "invalid_request_error")
			for _, body := range []string{`{"model":`, strings.Repeat(" ", 20<<10), sh.Body("PROMPT", `"model":"none"`), ``} {
				requireLimited(t, sh, c.Post(sh.Path, body), "key_requests_per_minute")
			}
			c.RequireUntouched(t)
		})
		t.Run("GAP-01 after the key and the account "+postName(sh), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			ask := func() answer { return c.Post(sh.Path, sh.Body("PROMPT")) }
			c.SetState(ledger.Suspended)
			for range 3 {
				requireError(t, sh, ask(), 403, "permission_denied")
			}
			c.SetState(ledger.Active)
			require.Equal(t, 200, ask().StatusCode, "what was forbidden did not count")
			require.Equal(t, 200, ask().StatusCode)
			requireLimited(t, sh, ask(), "key_requests_per_minute")
			requireError(t, sh, c.Post(sh.Path+"/none", ""), 404, unknownPath(sh))
			requireError(t, sh, c.Post(sh.Path, "", "Authorization", ""), 401, "authentication_error")
			c.SetState(ledger.Suspended)
			requireError(t, sh, ask(), 403, "permission_denied")
			c.SetState(ledger.Active)
			c.Revoke()
			requirePassing(t, sh, ask(), 401, "authentication_error")
		})
	}
}

// TestRateLimitOrder proves which limit is named when a request is over several, and that what is refused counts
// nowhere.
func TestRateLimitOrder(t *testing.T) {
	t.Parallel()
	sh := shapeOf("chat")
	t.Run("GAP-89 key, account, address", func(t *testing.T) {
		t.Parallel()
		g := pace(t, limitedTo(2, 3, 4), setup{})
		a, b := g.rich(t), g.rich(t)
		second := a.withKey(t)
		for range 2 {
			outcomeOf(t, sh, a.Ask(sh))
		}
		requireLimited(t, sh, a.Ask(sh), "key_requests_per_minute")
		outcomeOf(t, sh, second.Ask(sh)) // had the refused one counted, the account would be full
		requireLimited(t, sh, a.Ask(sh), "key_requests_per_minute")
		requireLimited(t, sh, second.Ask(sh), "tenant_requests_per_minute")
		outcomeOf(t, sh, b.Ask(sh))
		requireLimited(t, sh, b.Ask(sh), "ip_requests_per_minute")
		requireLimited(t, sh, second.Ask(sh), "tenant_requests_per_minute")
		requireLimited(t, sh, a.Ask(sh), "key_requests_per_minute")
	})
	t.Run("GAP-89 LIM-06 the wait is that of the limit that takes longest", func(t *testing.T) {
		t.Parallel()
		g := pace(t, limitedTo(1, 2, 0), setup{})
		c := g.rich(t)
		second := c.withKey(t)
		outcomeOf(t, sh, c.Ask(sh))
		g.Advance(20 * time.Second)
		outcomeOf(t, sh, second.Ask(sh))
		require.Equal(t, 40*time.Second, requireLimited(t, sh, c.Ask(sh), "key_requests_per_minute"))
		require.Equal(t, 60*time.Second, requireLimited(t, sh, second.Ask(sh), "key_requests_per_minute"))
	})
}

// TestPlansLimit proves where the numbers come from: each account's own plan, now.
func TestPlansLimit(t *testing.T) {
	t.Parallel()
	t.Run("LIM-01 GAP-16 without a plan, the defaults", func(t *testing.T) {
		t.Parallel()
		g := pace(t, limitedTo(0, 0, 0), setup{})
		_, key := g.NewAccount("plain", "", 0)
		get := func() answer { return g.Get("/v1/models", "Authorization", "Bearer "+key) }
		for range 600 {
			require.Equal(t, 200, get().StatusCode)
		}
		requireLimited(t, shapeOf("chat"), get(), "key_requests_per_minute")
		require.Equal(t, 200, g.rich(t).Get("/v1/models").StatusCode)
	})
	t.Run("LIM-03 an address is limited by the plan of the account that asks", func(t *testing.T) {
		t.Parallel()
		g := pace(t, limitedTo(0, 0, 2)+"plan \"wide\" {\n requests_per_minute {\n address = 4\n }\n}\n", setup{})
		_, wide := g.NewAccount("wide", "wide", 0)
		narrow := g.rich(t)
		get := func() answer { return g.Get("/v1/models", "Authorization", "Bearer "+wide) }
		require.Equal(t, 200, get().StatusCode)
		require.Equal(t, 200, get().StatusCode)
		requireLimited(t, shapeOf("chat"), narrow.Get("/v1/models"), "ip_requests_per_minute")
		require.Equal(t, 200, get().StatusCode)
		require.Equal(t, 200, get().StatusCode)
		requireLimited(t, shapeOf("chat"), get(), "ip_requests_per_minute")
	})
	t.Run("LIM-01 LIM-06 a reload keeps what was counted and changes the limit at once", func(t *testing.T) {
		t.Parallel()
		g := pace(t, limitedTo(3, 0, 0), setup{})
		c, sh := g.rich(t), shapeOf("messages")
		limit := func(from, to int) {
			g.Reload(func(hcl string) string {
				return strings.Replace(hcl, fmt.Sprintf("key = %d", from), fmt.Sprintf("key = %d", to), 1)
			})
		}
		for range 3 {
			outcomeOf(t, sh, c.Ask(sh))
			g.Advance(10 * time.Second)
		}
		limit(3, 4)
		outcomeOf(t, sh, c.Ask(sh))
		requireLimited(t, sh, c.Ask(sh), "key_requests_per_minute")
		limit(4, 2)
		wait := requireLimited(t, sh, c.Ask(sh), "key_requests_per_minute")
		require.Equal(t, 50*time.Second, wait, "three of four have to be over")
		g.Advance(wait)
		outcomeOf(t, sh, c.Ask(sh))
		requireLimited(t, sh, c.Ask(sh), "key_requests_per_minute")
		limit(2, 0)
		for range 10 {
			outcomeOf(t, sh, c.Ask(sh))
		}
	})
}

// TestClientAddress proves that an address cannot be made up: no header that a client can send is believed.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	g := pace(t, limitedTo(0, 0, 3), setup{})
	c := g.rich(t).from(t, "127.0.0.7")
	spoofs := []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Cf-Connecting-Ip", "True-Client-Ip", "X-Client-Ip",
		"Client-Ip",
		"X-Cluster-Client-Ip", "Fastly-Client-Ip", "X-Forwarded", "X-Original-Forwarded-For", "Via", "X-Source"}
	for n, name := range spoofs {
		a := c.Do("GET", "/v1/account", "", name, fmt.Sprintf("203.0.113.%d", n), "Forwarded",
			fmt.Sprintf("for=203.0.113.%d", n))
		if n < 3 {
			require.Equal(t, 200, a.StatusCode)
			continue
		}
		t.Run("LIM-03 GAP-88 "+name, func(t *testing.T) {
			requireLimited(t, shapeOf("chat"), a, "ip_requests_per_minute")
		})
	}
}

// broken is a limiter that knows nothing.
type broken struct{ boundless }

func (broken) Acquire(context.Context, []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	return 0, nil, fmt.Errorf("connecting to the limiter: %w", net.ErrClosed)
}

// TestBrokenLimiter proves that nobody is served uncounted, and nobody is told of the inside.
func TestBrokenLimiter(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Limiter: broken{}})
	for _, sh := range shapes {
		c := g.rich(t)
		a := c.Ask(sh)
		requireError(t, sh, a, 500, "internal_server_error")
		require.False(t, bytes.Contains(a.Raw, []byte("limiter")), "%s", a.Raw)
		c.RequireUntouched(t)
		line := c.Log.Await(t, func(line map[string]any) bool {
			return line["msg"] == "counting a request" && line["request_id"] == a.Header.Get("X-Request-Id")
		})
		require.Contains(t, line["error"], "connecting to the limiter")
	}
}
