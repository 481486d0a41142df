package contracttest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// guarded is a block with the provider and a rule.
func guarded(mode, more string) string {
	return fmt.Sprintf(`
provider "guard" {
  plugin = "guard"
  start_timeout = "1m"
}
screening {
  mode     = %q
  provider = "guard"
  %s
  rule "weapons" {
    terms = ["pipe bomb"]
  }
}
`, mode, more)
}

// patient is far longer than a provider takes on the slowest machine.
const patient = `timeout = "10m"`

// judgedAs counts the requests that the provider gave a verdict.
func (s *service) judgedAs(t testing.TB, verdict string) (n uint64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "fareway_screening_provider_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "verdict" && l.GetValue() == verdict {
					n += m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return n
}

// TestScreeningProvider: a provider with the capability judges requests.
func TestScreeningProvider(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: guarded("enforce", patient)})
	for _, sh := range shapes {
		for _, mode := range modes {
			t.Run("POL-01 BILL-31 blocked "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				before := c.Net()
				a := c.asking(sh, "a mortar shell", mode.Field)
				requireError(t, sh, a, 400, "invalid_request_error")
				require.Equal(t, blockedText, errorOf(t, sh, a).Message)
				require.Empty(t, c.Seen(), "no route is called")
				require.Equal(t, int64(screeningCost), before-c.Net())
				r := c.Record(t, a)
				require.Equal(t, "screened; block provider guard (violence/weapons minors)", r.Reason)
			})
			t.Run("BILL-30 allowed "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				before := c.Net()
				a := c.asking(sh, "a cup of tea", mode.Field)
				require.Equal(t, 200, a.StatusCode)
				require.Equal(t, int64(helloCost+screeningCost), before-c.Net())
				require.Equal(t, "ok", c.Record(t, a).Reason)
			})
		}
	}
	t.Run("BILL-30 flagged", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		before := c.Net()
		a := c.asking(shapes[0], "a cider")
		require.Equal(t, 200, a.StatusCode)
		require.Equal(t, int64(helloCost+screeningCost), before-c.Net())
		require.Equal(t, "ok; flag provider guard (spirits)", c.Record(t, a).Reason)
	})
	t.Run("rules come first", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		a := c.asking(shapes[0], "a pipe bomb and a mortar shell")
		require.Equal(t, 400, a.StatusCode)
		require.Equal(t, "screened; block weapons", c.Record(t, a).Reason, "the provider was not asked")
	})
	t.Run("wherever it stands, and whatever it wears", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, body := range []string{
			`"messages":[{"role":"system","content":"PROMPT mortar shell"},{"role":"user","content":"x"}]`,
			`"messages":[{"role":"user","content":"PROMPT"}],"tools":[{"type":"function","function":{"name":"f",` +
				`"parameters":{"type":"object","description":"a mortar\u0020sh\u0065ll"}}}]`,
		} {
			a := c.Post("/v1/chat/completions", `{"model":"service/auto",`+body+`}`)
			require.Equal(t, 400, a.StatusCode, body)
			require.Equal(t, blockedText, errorOf(t, shapes[0], a).Message, body)
		}
	})
	t.Run("BILL-31 GAP-49 it is within the hold", func(t *testing.T) {
		t.Parallel()
		poor := g.caller(t, 0)
		requireError(t, shapes[0], poor.asking(shapes[0], "a mortar shell"), 402, "budget_exceeded")
	})
	t.Run("BILL-31 many at once", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		before := c.Net()
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() { c.asking(shapes[i%3], []string{"tea", "a mortar shell"}[i%2], modes[i/2%2].Field) })
		}
		group.Wait()
		require.Equal(t, int64(20*screeningCost+10*helloCost), before-c.Net())
	})
}

// TestScreeningProviderFails: what a provider does not judge is not answered and costs nothing (GAP-59).
func TestScreeningProviderFails(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: guarded("enforce", patient+"\nmax_text = \"2KiB\"")})
	sh := shapes[0]
	for _, test := range []struct{ name, text, reason string }{
		{"it says so", "stumble", "failed"}, {"no verdict", "mumble", "failed"},
		{"a text in the verdict", "chatter", "failed"},
	} {
		for _, mode := range modes {
			t.Run("GAP-59 "+test.name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				a := c.asking(sh, test.text, mode.Field)
				requireError(t, sh, a, 500, "internal_server_error")
				require.Empty(t, c.Seen())
				c.RequireUntouched(t)
				r := c.Record(t, a)
				require.Equal(t, "screener; "+test.reason+" provider guard", r.Reason)
				require.Zero(t, r.Surcharge)
			})
		}
	}
	t.Run("GAP-59 too much text", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		a := c.asking(sh, strings.Repeat("tea ", 600))
		requireError(t, sh, a, 413, "invalid_request_error")
		c.RequireUntouched(t)
		require.Equal(t, "screener; too_large provider guard", c.Record(t, a).Reason)
		require.Equal(t, 200, c.asking(sh, strings.Repeat("tea ", 400)).StatusCode)
	})
	t.Run("BILL-30 rules judge without it", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		before := c.Net()
		require.Equal(t, 400, c.asking(sh, "a pipe bomb, stumble").StatusCode)
		require.Equal(t, int64(screeningCost), before-c.Net())
	})
	t.Run("GAP-47 who leaves meanwhile pays nothing", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		left := c.Departure()
		ctx, leave := context.WithCancel(within(t))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+sh.Path,
			strings.NewReader(strings.ReplaceAll(sh.Body("PROMPT dawdle"), "PROMPT", c.Mark)))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+c.Key)
		answered := make(chan error, 1)
		go func() {
			resp, err := client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			answered <- err
		}()
		require.Eventually(t, func() bool { return c.Balance().Held > 0 }, time.Minute, 5*time.Millisecond)
		leave()
		require.ErrorIs(t, <-answered, context.Canceled)
		requireClosed(t, left)
		require.Eventually(t, func() bool { return c.Balance().Held == 0 }, time.Minute, 5*time.Millisecond)
		c.RequireUntouched(t)
	})
}

// TestScreeningProviderDies: a process that ends is started again; what it was judging fails.
func TestScreeningProviderDies(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: guarded("enforce", patient)})
	c := g.rich(t)
	requireError(t, shapes[0], c.asking(shapes[0], "expire"), 500, "internal_server_error")
	c.RequireUntouched(t)
	again := func() bool { return c.asking(shapes[0], "tea").StatusCode == 200 }
	require.Eventually(t, again, time.Minute, 5*time.Millisecond)
}

// TestScreeningProviderIsLate: the operator says how long it may take, and what comes of it then.
func TestScreeningProviderIsLate(t *testing.T) {
	t.Parallel()
	sh := shapes[0]
	for _, test := range []struct {
		name, mode, onError string
		status, cost        int
		reason              string
	}{
		{"GAP-59 refused", "enforce", "refuse", 500, 0, "screener; late provider guard"},
		{"BILL-30 allowed", "enforce", "allow", 200, helloCost, "ok; late provider guard"},
		{"BILL-30 monitored", "monitor", "refuse", 200, helloCost, "ok; late provider guard"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Extra: guarded(test.mode, "timeout = \"20ms\"\non_error = \""+test.onError+"\"")})
			c := g.rich(t)
			before := c.Net()
			a := c.asking(sh, "dawdle")
			require.Equal(t, test.status, a.StatusCode)
			require.Equal(t, int64(test.cost), before-c.Net())
			require.Equal(t, test.reason, c.Record(t, a).Reason)
			require.EqualValues(t, 1, g.judgedAs(t, "late"))
			if test.mode == "enforce" && test.onError == "allow" {
				require.Equal(t, 400, c.asking(sh, "a pipe bomb, dawdle").StatusCode, "rules hold")
			}
		})
	}
}

// TestScreeningProviderMonitors: in the mode monitor rules and provider both say what they found.
func TestScreeningProviderMonitors(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: guarded("monitor", patient)})
	c := g.rich(t)
	before := c.Net()
	a := c.asking(shapes[0], "a pipe bomb and a mortar shell")
	require.Equal(t, 200, a.StatusCode)
	require.Equal(t, int64(helloCost), before-c.Net(), "BILL-30")
	require.Equal(t, "ok; block weapons, block provider guard (violence/weapons minors)", c.Record(t, a).Reason)
	require.EqualValues(t, 1, g.judgedAs(t, "block"))
}

// TestScreeningNeedsTheCapability: a provider that does not screen is refused when the configuration is loaded.
func TestScreeningNeedsTheCapability(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Extra: guarded("enforce", patient)})
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	text, err := os.ReadFile(g.Engine.Current().Config.Path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte(`= "guard"`+"\n  start_timeout"),
		[]byte(`= "echo"`+"\n  start_timeout"), 1), 0o600))
	cfg, diags := config.Load(t.Context(), path, config.Options{Schema: schemaOf})
	require.False(t, diags.HasErrors(), "%v", diags)
	_, err = g.Engine.Prepare(t.Context(), cfg)
	require.ErrorContains(t, err, `provider "guard" does not screen`)
	require.Equal(t, 400, g.rich(t).asking(shapes[0], "a mortar shell").StatusCode, "what served serves")
}
