package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/requestlog"
)

// TestEveryIDIsFound proves that each X-Request-Id is found: in the ledger, or else in the request log.
func TestEveryIDIsFound(t *testing.T) {
	t.Parallel()
	g := pace(t, limitedTo(0, 0, 0), setup{Gateway: `max_body = "8KiB"`})
	find := func(t *testing.T, a answer) (requestlog.Record, bool) {
		t.Helper()
		id := a.Header.Get("X-Request-Id")
		_, err := g.Engine.Store().Request(t.Context(), id)
		if err == nil {
			return requestlog.Record{}, false
		}
		require.ErrorIs(t, err, ledger.ErrNotFound)
		r, err := g.Engine.FindRequest(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, id, r.ID)
		require.Equal(t, a.StatusCode, r.Status)
		require.NotZero(t, r.Time)
		return r, true
	}
	for _, sh := range shapes {
		for name, tc := range map[string]struct {
			send    func(c *caller) answer
			status  int
			code    string
			unknown bool // nobody knows whose it is
		}{
			"400": {send: func(c *caller) answer { return c.Post(sh.Path, "{") }, status: 400, code: "invalid_request_error"},
			"401": {func(c *caller) answer { return c.Post(sh.Path, "{}", "Authorization", "") }, 401, "authentication_error",
				true},
			"401 of a key that has ended": {send: func(c *caller) answer {
				c.Revoke()
				return c.Ask(sh)
			}, status: 401, code: "authentication_error"},
			"402": {send: func(c *caller) answer {
				c.setLimit(ledger.LimitSpendCap, 1)
				return c.Ask(sh)
			}, status: 402, code: "budget_exceeded"},
			"403": {send: func(c *caller) answer {
				c.SetState(ledger.Suspended)
				return c.Ask(sh)
			}, status: 403, code: "permission_denied"},
			"404": {send: func(c *caller) answer { return c.Ask(sh, `"model":"x"`) }, status: 404,
				code: "model_not_found"},
			"404 of a path": {func(c *caller) answer { return c.Post(sh.Path+"/none", "{}") }, 404, unknownPath(sh), true},
			"405":           {func(c *caller) answer { return c.Get(sh.Path) }, 405, "invalid_request_error", true},
			"413": {send: func(c *caller) answer { return c.Ask(sh, `"metadata":"`+strings.Repeat("x", 9000)+`"`) },
				status: 413, code: "invalid_request_error"},
			"429": {send: func(c *caller) answer {
				c.setLimit("requests_per_minute.key", 1)
				require.Equal(t, 200, c.Get("/v1/account").StatusCode)
				return c.Ask(sh)
			}, status: 429, code: "rate_limit_exceeded"},
			"503": {send: func(c *caller) answer { return c.Ask(sh, allowance(sh, 10_000_000)) }, status: 503,
				code: "feature_unavailable"},
		} {
			t.Run("GEN-16 GEN-19 GAP-122 "+name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				a := tc.send(c)
				require.Equal(t, tc.status, a.StatusCode, "body: %s", a.Raw)
				r, logged := find(t, a)
				require.True(t, logged)
				require.Equal(t, tc.code, r.Code)
				if tc.unknown {
					require.Empty(t, r.Account+r.Key)
				} else {
					require.Equal(t, c.Account.ID, r.Account)
					require.NotEmpty(t, r.Key)
				}
				require.Equal(t, map[bool]string{true: "key_requests_per_minute"}[tc.status == 429], r.Limit)
			})
		}
		t.Run("GEN-16 GAP-122 charged requests are in the ledger alone, "+sh.Name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range modes {
				a := g.rich(t).Ask(sh, mode.Field)
				require.Equal(t, 200, a.StatusCode)
				_, logged := find(t, a)
				require.False(t, logged)
				_, err := g.Engine.FindRequest(t.Context(), a.Header.Get("X-Request-Id"))
				require.ErrorIs(t, err, requestlog.ErrNotFound)
			}
		})
	}
	for _, p := range places {
		if p.Method == "GET" || strings.Contains(p.Path, "count_tokens") {
			t.Run("GEN-16 GAP-122 what costs nothing, "+p.Path, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				a := p.Send(c)
				require.Equal(t, 200, a.StatusCode)
				r, logged := find(t, a)
				require.True(t, logged)
				require.Equal(t, requestlog.Record{
					ID: r.ID, Time: r.Time, Endpoint: r.Endpoint, Status: 200, Account: c.Account.ID, Key: r.Key,
				}, r)
				require.NotEmpty(t, r.Endpoint)
			})
		}
	}
}
