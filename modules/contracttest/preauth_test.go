package contracttest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

const preAuthReason = "pre_auth_ip_requests_per_minute"

// failuresTo is a configuration in which an address may fail so often a minute, and nothing else is limited.
func failuresTo(n int) string {
	return limitedTo(0, 0, 0) + fmt.Sprintf("pre_auth {\n failures_per_minute = %d\n}\n", n)
}

// badKeys are the headers of requests that fail to authenticate on every endpoint.
func badKeys(c *caller) [][]string {
	unknown := strings.Replace(c.Key, "fwk_", "fwk-", 1)
	return [][]string{
		{"Authorization", ""},
		{"Authorization", "Bearer nonsense"},
		{"Authorization", "Bearer " + unknown},
		{"Authorization", "", "X-Api-Key", "nonsense"},
		{"Authorization", "Basic " + c.Key, "X-Api-Key", c.Key},
	}
}

// early is a limiter that is asked before others have been counted.
type early struct{ *ratelimit.Memory }

func (early) Check(context.Context, []ratelimit.Ask) (*ratelimit.Refusal, error) { return nil, nil }

// TestFailedAuthentications proves that nobody can go on trying keys out (GAP-90).
func TestFailedAuthentications(t *testing.T) {
	t.Parallel()
	for _, p := range places {
		t.Run("LIM-10 LIM-05 LIM-06 ERR-23 GAP-90 "+p.Method+" "+p.Path, func(t *testing.T) {
			t.Parallel()
			g := pace(t, failuresTo(5), setup{})
			c := g.rich(t)
			for n, header := range badKeys(c) {
				require.Equal(t, 200, p.Send(c).StatusCode, "good keys are not limited, before failure %d", n+1)
				requireError(t, p.Shape, p.Send(c, header...), 401, "authentication_error")
				g.Advance(2 * time.Second)
			}
			before, called := c.Net(), len(c.Seen())
			var wait time.Duration
			for range 3 {
				for _, header := range append(badKeys(c), nil) { // the last one is the good key
					a := p.Send(c, header...)
					wait = requireLimited(t, p.Shape, a, preAuthReason)
					require.Equal(t, 50*time.Second, wait)
					line := c.Access(a.Header.Get("X-Request-Id"))
					require.Equal(t, preAuthReason, line["reason"])
					require.NotContains(t, line, "account", "the key was not looked at")
				}
			}
			require.Equal(t, before, c.Net())
			require.Len(t, c.Seen(), called, "the upstream was called")
			require.Equal(t, 200, c.from(t, "127.0.0.2").Do("GET", "/v1/account", "").StatusCode, "another address")

			g.Advance(wait - time.Second)
			require.Equal(t, time.Second, requireLimited(t, p.Shape, p.Send(c), preAuthReason))
			g.Advance(time.Second)
			require.Equal(t, 200, p.Send(c).StatusCode)
			requireError(t, p.Shape, p.Send(c, "Authorization", ""), 401, "authentication_error")
			require.Equal(t, 2*time.Second, requireLimited(t, p.Shape, p.Send(c), preAuthReason),
				"only the first failure was over")
		})
	}
	t.Run("LIM-10 GAP-90 keys of all kinds that open nothing count", func(t *testing.T) {
		t.Parallel()
		g := pace(t, failuresTo(3), setup{})
		sh := shapeOf("messages")
		revoked, c := g.rich(t), g.rich(t)
		revoked.Revoke()
		unknown, _, err := ledger.NewKey(strings.NewReader(strings.Repeat("k", 32)))
		require.NoError(t, err)
		requirePassing(t, sh, revoked.Ask(sh), 401, "authentication_error")
		requireError(t, sh, c.Post(sh.Path, sh.Body("PROMPT"), "Authorization", "Bearer "+unknown), 401,
			"authentication_error")
		requireError(t, sh, c.Post(sh.Path, sh.Body("PROMPT"), "Authorization", "", "X-Api-Key", unknown), 401,
			"authentication_error")
		requireLimited(t, sh, c.Ask(sh), preAuthReason)
	})
	t.Run("GAP-90 what is forbidden or wrong in another way is no failed authentication", func(t *testing.T) {
		t.Parallel()
		g := pace(t, failuresTo(1), setup{})
		sh := shapeOf("chat")
		suspended, c := g.rich(t), g.rich(t)
		suspended.SetState(ledger.Suspended)
		for range 3 {
			requireError(t, sh, suspended.Ask(sh), 403, "permission_denied")
			requireError(t, sh, c.Post(sh.Path, "{"), 400, "invalid_request_error")
			requireError(t, sh, c.Get("/v1/none", "Authorization", ""), 404, unknownPath(sh))
			requireError(t, sh, c.Get(sh.Path, "Authorization", ""), 405, "invalid_request_error")
		}
		outcomeOf(t, sh, c.Ask(sh))
		requireError(t, sh, c.Post(sh.Path, sh.Body("PROMPT"), "Authorization", ""), 401, "authentication_error")

		// GAP-01: after the path, before the key, the account and everything in the request.
		requireError(t, sh, c.Get("/v1/none", "Authorization", ""), 404, unknownPath(sh))
		requireError(t, sh, c.Get(sh.Path, "Authorization", ""), 405, "invalid_request_error")
		requireLimited(t, sh, suspended.Ask(sh), preAuthReason)
		requireLimited(t, sh, c.Post(sh.Path, "{"), preAuthReason)
	})
	t.Run("LIM-10 GAP-88 an address cannot be made up", func(t *testing.T) {
		t.Parallel()
		g := pace(t, failuresTo(2), setup{})
		c := g.rich(t)
		for n, status := range []int{401, 401, 429, 429} {
			a := c.Get("/v1/models", "Authorization", "", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", n), "X-Real-Ip",
				fmt.Sprintf("203.0.113.%d", n))
			require.Equal(t, status, a.StatusCode)
		}
	})
	t.Run("LIM-10 GAP-90 whoever guesses with many requests at the same time", func(t *testing.T) {
		t.Parallel()
		// Each of them was looked at before the others had failed.
		g := startScripted(t, setup{Extra: failuresTo(2), Plan: "limited",
			Limiter: early{ratelimit.NewMemory(ratelimit.Options{})}})
		c, sh := g.rich(t), shapeOf("chat")
		for n := range 5 {
			a := c.Post(sh.Path, sh.Body("PROMPT"), "Authorization", "Bearer nonsense")
			if n < 2 {
				requireError(t, sh, a, 401, "authentication_error")
				continue
			}
			requireLimited(t, sh, a, preAuthReason)
		}
		outcomeOf(t, sh, c.Ask(sh))
	})
	t.Run("GAP-90 without the limit", func(t *testing.T) {
		t.Parallel()
		g := pace(t, failuresTo(0), setup{})
		c := g.rich(t)
		for range 200 {
			require.Equal(t, 401, c.Get("/v1/models", "Authorization", "").StatusCode)
		}
	})
	t.Run("LIM-10 the default", func(t *testing.T) {
		t.Parallel()
		g := pace(t, limitedTo(0, 0, 0), setup{})
		c := g.rich(t)
		for range 120 {
			require.Equal(t, 401, c.Get("/v1/models", "Authorization", "").StatusCode)
		}
		requireLimited(t, shapeOf("chat"), c.Get("/v1/models"), preAuthReason)
	})
}
