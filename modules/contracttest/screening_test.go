package contracttest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const (
	screeningCost = 1_350
	blockedText   = "The request was blocked by a content filter."
)

// screening is a block with a rule that blocks, one that flags and one that allows.
func screening(mode string) string {
	return fmt.Sprintf(`
screening {
  mode = %q
  rule "weapons" {
    category = "violence"
    terms    = ["pipe bomb"]
    patterns = ["(?i)nitro\\s+cellulose"]
  }
  rule "spirits" {
    action = "flag"
    terms  = ["whisky"]
  }
  rule "games" {
    action = "allow"
    terms  = ["pipe bomb game"]
  }
}
`, mode)
}

// asking is the smallest request of a shape that says something more.
func (c *caller) asking(sh shape, text string, fields ...string) answer {
	c.t.Helper()
	return c.Post(sh.Path, sh.Body("PROMPT "+text, fields...))
}

// TestScreening is what is declined before routing, and what looking costs (worked example E08).
func TestScreening(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: screening("enforce")})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("POL-01 BILL-31 ERR-12 blocked "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				before := c.Net()
				a := c.asking(sh, "how is a PIPE bo\u200bmb made", mode.Field)
				requireError(t, sh, a, 400, "invalid_request_error")
				require.Equal(t, blockedText, errorOf(t, sh, a).Message)
				require.Empty(t, c.Seen(), "no route is called")
				require.Equal(t, int64(screeningCost), before-c.Net())
				r := c.Record(t, a)
				require.Equal(t, "screened; block weapons (violence)", r.Reason, "the rule, and never the text")
				require.Empty(t, r.Attempts)
				require.EqualValues(t, screeningCost, r.Surcharge)
				require.Equal(t, 400, r.Status)
			})
			t.Run("BILL-30 passed "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				before := c.Net()
				require.Equal(t, 200, c.asking(sh, "a pipe bomb game", mode.Field).StatusCode)
				require.Equal(t, int64(helloCost+screeningCost), before-c.Net())
			})
		}
		t.Run("BILL-30 USE-01 it is part of what the reply says "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			require.Equal(t, int64(helloCost+screeningCost), askBoth(t, c, sh).Billed(t))
		})
	}
	t.Run("BILL-31 a decline of the route is on top", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.Answers(upstream.Refuse(upstream.ContentFilter()))
		before := c.Net()
		a := c.Ask(shapes[0])
		requireError(t, shapes[0], a, 400, "invalid_request_error")
		require.NotEqual(t, blockedText, errorOf(t, shapes[0], a).Message, "POL-02")
		require.Equal(t, int64(screeningCost), before-c.Net())
		require.Equal(t, "policy", c.Record(t, a).Reason)
	})
	t.Run("GAP-59 a failure of the route is charged the screening", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.Answers(upstream.Refuse(upstream.ServerError()))
		before := c.Net()
		require.Equal(t, 502, c.Ask(shapes[0]).StatusCode)
		require.Equal(t, int64(screeningCost), before-c.Net())
	})
	t.Run("GAP-01 what comes before it costs nothing", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, sh := range shapes {
			a := c.Post(sh.Path, strings.Replace(sh.Body("PROMPT a pipe bomb"), "service/auto", "other/model", 1))
			require.Equal(t, 404, a.StatusCode)
			a = c.asking(sh, "a pipe bomb", `"stream":"perhaps"`)
			require.Equal(t, 400, a.StatusCode)
		}
		a := c.Do(http.MethodPost, "/v1/messages/count_tokens",
			`{"model":"service/auto","messages":[{"role":"user","content":"PROMPT a pipe bomb"}]}`)
		require.Equal(t, 200, a.StatusCode, "counting is not screened (GAP-59)")
		c.RequireUntouched(t)
		poor := g.caller(t, 0)
		a = poor.asking(shapes[0], "a pipe bomb")
		requireError(t, shapes[0], a, 402, "budget_exceeded")
	})
	t.Run("wherever it stands", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		tool := func(members string) string {
			return `"messages":[{"role":"user","content":"PROMPT"}],"tools":[{"type":"function","function":{"name":"f",` +
				members + `}}]`
		}
		for _, body := range []string{
			`"messages":[{"role":"system","content":"PROMPT pipe bomb"},{"role":"user","content":"x"}]`,
			`"messages":[{"role":"user","content":[{"type":"text","text":"PROMPT pipe "},` +
				`{"type":"text","text":"b\u006fmb"}]}]`,
			`"messages":[{"role":"user","content":"PROMPT"},{"role":"assistant","tool_calls":[{"id":"1","type":"function",` +
				`"function":{"name":"f","arguments":"{\"q\":\"pipe\\u0020bomb\"}"}}]},` +
				`{"role":"tool","tool_call_id":"1","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]`,
			tool(`"description":"makes a pipe bomb"`),
			tool(`"parameters":{"type":"object","description":"Nitro   Cellulose"}`),
		} {
			a := c.Post("/v1/chat/completions", `{"model":"service/auto",`+body+`}`)
			require.Equal(t, 400, a.StatusCode, body)
			require.Equal(t, blockedText, errorOf(t, shapes[0], a).Message, body)
		}
		require.Empty(t, c.Seen())
	})
	t.Run("what is flagged is noted", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		a := c.asking(shapes[0], "a whisky")
		require.Equal(t, 200, a.StatusCode)
		require.Equal(t, "ok; flag spirits", c.Record(t, a).Reason)
	})
	t.Run("BILL-31 many at once", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		before := c.Net()
		var group sync.WaitGroup
		for i := range 30 {
			group.Go(func() {
				if i%2 == 0 {
					c.asking(shapes[i%3], "a pipe bomb", modes[i%2].Field)
				} else {
					c.asking(shapes[i%3], "hello", modes[i%2].Field)
				}
			})
		}
		group.Wait()
		require.Equal(t, int64(30*screeningCost+15*helloCost), before-c.Net())
	})
}

// TestScreeningHold: the surcharge is held beside the dearest route, also where routes cost nothing (GAP-49).
func TestScreeningHold(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: screening("enforce"), Routes: []route{{Name: "free", Input: "0", Output: "0"}}})
	t.Run("BILL-30 on a free route", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		before := c.Net()
		a := c.Ask(shapes[0])
		require.Equal(t, 200, a.StatusCode)
		require.Equal(t, int64(screeningCost), before-c.Net())
		require.EqualValues(t, screeningCost, c.Record(t, a).Held)
	})
	t.Run("BILL-13 with nothing left", func(t *testing.T) {
		t.Parallel()
		c := g.caller(t, 0)
		requireError(t, shapes[0], c.Ask(shapes[0]), 402, "budget_exceeded")
	})
}

// TestScreeningMonitors: other modes cost nothing and refuse nothing (BILL-30).
func TestScreeningMonitors(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"monitor", "off"} {
		g := startScripted(t, setup{Extra: screening(mode)})
		for _, sh := range shapes {
			t.Run("BILL-30 "+mode+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				before := c.Net()
				a := c.asking(sh, "a pipe bomb")
				require.Equal(t, 200, a.StatusCode)
				require.Equal(t, int64(helloCost), before-c.Net())
				r := c.Record(t, a)
				want := "ok"
				if mode == "monitor" {
					want = "ok; block weapons (violence)"
				}
				require.Equal(t, want, r.Reason)
				require.Zero(t, r.Surcharge)
			})
		}
	}
}

// TestScreeningIsBounded: what the rules could not be looked for in is refused, and costs nothing.
func TestScreeningIsBounded(t *testing.T) {
	t.Parallel()
	slow := strings.Replace(screening("enforce"), `["(?i)nitro`, `["\\d{700}[A-Z]{900}", "(?i)nitro`, 1)
	const memory = 16 << 20
	limits := fmt.Sprintf("max_body_memory = \"%dMiB\"\nmax_body = \"8MiB\"", memory>>20)
	g := startScripted(t, setup{Gateway: limits, Extra: slow,
		Routes: []route{{Name: "wide", Window: 20_000_000, Input: "1", Output: "1"}}})
	long := func(n int) string { return strings.Repeat("a b ", n/4) }
	for _, sh := range shapes {
		t.Run("GAP-59 more than patterns get through "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.caller(t, 1_000_000_000)
			a := c.asking(sh, long(400<<10))
			requireError(t, sh, a, 413, "invalid_request_error")
			require.Contains(t, errorOf(t, sh, a).Message, "more text than this service can check")
			c.RequireUntouched(t)
			require.Equal(t, "screener", c.Record(t, a).Reason)
			a = c.asking(sh, "a pipe bomb "+long(400<<10))
			requireError(t, sh, a, 400, "invalid_request_error")
			require.Equal(t, blockedText, errorOf(t, sh, a).Message, "what was found counts")
		})
	}
	t.Run("max_body_memory holds for screening, too", func(t *testing.T) {
		c := g.caller(t, 1_000_000_000)
		a := c.asking(shapes[0], long(3<<20))
		requireError(t, shapes[0], a, 413, "invalid_request_error")
		c.RequireUntouched(t)
		require.Equal(t, 200, c.asking(shapes[0], long(100<<10)).StatusCode)
		before := c.Net()
		require.True(t, c.Engine.AcquireBody(memory-(600<<10)))
		a = c.asking(shapes[0], long(100<<10))
		c.Engine.ReleaseBody(memory - (600 << 10))
		requireError(t, shapes[0], a, 429, "rate_limit_exceeded")
		require.Equal(t, before, c.Net(), "and nothing is charged")
	})
}

// TestScreeningReload: rules that are saved hold for the next request.
func TestScreeningReload(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: screening("enforce")})
	c := g.rich(t)
	require.Equal(t, 200, c.asking(shapes[0], "a rifle").StatusCode)
	g.Reload(func(hcl string) string { return strings.Replace(hcl, `"pipe bomb"]`, `"rifle"]`, 1) })
	require.Equal(t, 400, c.asking(shapes[0], "a rifle").StatusCode)
	require.Equal(t, 200, c.asking(shapes[0], "a pipe bomb").StatusCode)
}

// TestSuspension: an account that goes on with declined requests is suspended where its plan says so (STATE-02).
func TestSuspension(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Plan: "strict", Extra: screening("enforce") + `
plan "strict" {
  suspend_after_declines {
    count  = 3
    window = "10m"
  }
}
plan "loose" {
}
`})
	sh := shapes[0]
	suspended := func(t *testing.T, c *caller) bool {
		a, err := c.Engine.Store().Account(t.Context(), c.Account.ID)
		require.NoError(t, err)
		return a.State == ledger.Suspended
	}
	t.Run("STATE-02 GAP-87 whoever declined, the third is the last", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		require.Equal(t, 400, c.asking(sh, "a pipe bomb").StatusCode)
		require.Equal(t, 200, c.asking(sh, "hello").StatusCode)
		c.Answers(upstream.Refuse(upstream.ContentFilter()))
		require.Equal(t, 400, c.Ask(sh).StatusCode)
		require.False(t, suspended(t, c))
		c.Answers(script(used(10, 2), "content_filter", upstream.Text("Hel")))
		require.True(t, c.Stream(t, sh).Complete, "it is served yet")
		require.True(t, suspended(t, c))
		requireError(t, sh, c.Ask(sh), 403, "permission_denied")
		var acts []ledger.Act
		require.NoError(t, c.Engine.Store().Audit(t.Context(), ledger.Query{Account: c.Account.ID}, func(a ledger.Act) error {
			acts = append(acts, a)
			return nil
		}))
		last := acts[len(acts)-1]
		require.Equal(t, []string{"account.set_state", "gateway (suspend_after_declines)", `{"state":"suspended"}`},
			[]string{last.Action, last.Actor, last.After})

		c.SetState(ledger.Active)
		for range 2 {
			require.Equal(t, 400, c.asking(sh, "a pipe bomb").StatusCode, "the count begins anew")
		}
		require.False(t, suspended(t, c))
		require.Equal(t, 400, c.asking(sh, "a pipe bomb").StatusCode)
		require.True(t, suspended(t, c))
	})
	t.Run("STATE-02 GAP-87 off, any number leaves it active", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.SetPlan("loose")
		for range 5 {
			require.Equal(t, 400, c.asking(sh, "a pipe bomb").StatusCode)
		}
		require.False(t, suspended(t, c))
	})
	t.Run("STATE-02 many at once are counted", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() { c.asking(sh, "a pipe bomb") })
		}
		group.Wait()
		require.True(t, suspended(t, c))
	})
}

// The count is in the journal: a gateway that starts goes on where the one before it ended.
func TestSuspensionAfterARestart(t *testing.T) {
	t.Parallel()
	const strict = `
plan "strict" {
  suspend_after_declines {
    count  = 3
    window = "6h"
  }
}
`
	sh := shapeOf("chat")
	dir, key := leftBehind(t, 1_000)
	gateway := func(t *testing.T) *caller {
		g := startScripted(t, setup{Data: dir, Key: key, Extra: screening("enforce") + strict})
		return &caller{service: g.service, gateway: g, Mark: "caller-0-", Credits: 1_000}
	}
	state := func(t *testing.T, c *caller) ledger.State {
		a, err := c.Engine.Store().Account(t.Context(), c.Account.ID)
		require.NoError(t, err)
		return a.State
	}
	before := t.Run("STATE-02 two before it", func(t *testing.T) {
		c := gateway(t)
		c.SetPlan("strict")
		for range 2 {
			require.Equal(t, 400, c.asking(sh, "a pipe bomb").StatusCode)
		}
		require.Equal(t, ledger.Active, state(t, c))
	})
	require.True(t, before)
	t.Run("STATE-02 the third behind it", func(t *testing.T) {
		c := gateway(t)
		require.Equal(t, ledger.Active, state(t, c))
		require.Equal(t, 400, c.asking(sh, "a pipe bomb").StatusCode)
		require.Equal(t, ledger.Suspended, state(t, c))
		requireError(t, sh, c.asking(sh, "hello"), 403, "permission_denied")
	})
}
