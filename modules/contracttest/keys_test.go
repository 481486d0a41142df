package contracttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// credentials writes keys into files, and names them in key blocks.
func credentials(t testing.TB, secrets map[string]string) (hcl string, path func(key string) string) {
	t.Helper()
	dir := t.TempDir()
	path = func(key string) string { return filepath.Join(dir, key) }
	var blocks strings.Builder
	for _, key := range []string{"main", "spare"} {
		require.NoError(t, os.WriteFile(path(key), []byte(secrets[key]), 0o600))
		fmt.Fprintf(&blocks, "key %q {\n  api_key = file(%q)\n}\n", key, path(key))
	}
	return blocks.String(), path
}

// keyStates are what the metrics tell of keys.
func (s *service) keyStates(t testing.TB) map[string]string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	states := make(map[string]string)
	for _, family := range families {
		if family.GetName() != "fareway_provider_key_state" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := make(map[string]string)
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			states[labels["provider"]+" "+labels["key"]] = labels["state"]
		}
	}
	return states
}

// Key pools, with real plugins and whoever makes the calls: a conversation stays on its key, goes to another while
// its own is out of quota or refused, and is told when there is none; then the route's fallback applies.
func TestKeyPools(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"main": "sk-main-zq11", "spare": "sk-spare-zq11"}
	other := map[string]string{"main": "spare", "spare": "main"}
	for _, carry := range []string{"host", "process"} {
		t.Run(carry, func(t *testing.T) {
			t.Parallel()
			keys, path := credentials(t, secrets)
			g := startScripted(t, setup{Carry: carry, Keys: keys, Plugin: "openai", Providers: []string{"last"},
				Routes: []route{{Name: "standard", Quality: 0.9}, {Name: "fallback", Provider: "last", Quality: 0.1}}})
			c := g.rich(t)
			fails := map[string]func() upstream.Error{}
			c.AnswersBy(func(req *upstream.Request) upstream.Reply {
				for key, failure := range fails {
					if req.Shows(secrets[key]) {
						return upstream.Refuse(failure())
					}
				}
				return hello
			})
			served := func() (provider, key string) {
				t.Helper()
				a := c.Ask(shapes[0])
				require.Equal(t, 200, a.StatusCode, "body: %s", a.Raw)
				r := c.Record(t, a)
				last := r.Attempts[len(r.Attempts)-1]
				line := c.Access(a.Header.Get("X-Request-Id"))
				if last.Key == "" {
					require.NotContains(t, line, "provider_key")
				} else {
					require.Equal(t, last.Key, line["provider_key"])
				}
				return last.Provider, last.Key
			}
			_, own := served()
			for range 5 {
				_, key := served()
				require.Equal(t, own, key, "a conversation stays on its key")
			}
			require.Equal(t, map[string]string{"up main": "serves", "up spare": "serves"}, g.keyStates(t))

			fails[own] = upstream.QuotaExceeded
			for range 2 {
				_, key := served()
				require.Equal(t, other[own], key)
			}
			require.Equal(t, "out_of_quota", g.keyStates(t)["up "+own])
			require.Equal(t, "serves", g.keyStates(t)["up "+other[own]])

			fails[other[own]] = upstream.InvalidKey
			for range 2 {
				provider, key := served()
				require.Equal(t, "last", provider, "the route's fallback applies")
				require.Empty(t, key)
			}
			require.Equal(t, "refused", g.keyStates(t)["up "+other[own]])
			line := c.Log.Await(t, func(line map[string]any) bool { return line["msg"] == "attempt failed" })
			require.Equal(t, "quota", line["kind"])
			require.Contains(t, line["error"], "no key of provider \"up\" can serve")

			// A reload keeps what is known of keys that are the same, and knows nothing of a new one.
			clear(fails)
			require.NoError(t, os.WriteFile(path(own), []byte("sk-new-zq11"), 0o600))
			g.Reload(func(hcl string) string { return hcl + "\nplan \"more\" {\n  monthly_credits = 1\n}\n" })
			_, key := served()
			require.Equal(t, own, key, "its conversations come back")
			require.Equal(t, map[string]string{"up " + own: "serves", "up " + other[own]: "refused"}, g.keyStates(t))
			require.NotContains(t, c.Log.String(), "zq11")
			var names []string
			list, err := g.Engine.Plugins()
			require.NoError(t, err)
			for _, p := range list {
				for _, one := range p.Providers {
					names = append(names, one.Provider)
				}
			}
			require.Equal(t, []string{"up/main", "up/spare", "last"}, names)
		})
	}
}

// With every key out and no other route the client is told what it can do: after a rate limit to come back, without a
// quota that this is the operator's.
func TestAllKeysAreOut(t *testing.T) {
	t.Parallel()
	keys, _ := credentials(t, map[string]string{"main": "sk-main-zq11", "spare": "sk-spare-zq11"})
	for name, c := range map[string]struct {
		fails  upstream.Error
		status int
		code   string
		state  engine.KeyState
	}{
		"quota": {upstream.QuotaExceeded(), 502, "upstream_error", engine.KeyExhausted},
		"limit": {upstream.RateLimited("600"), 429, "rate_limit_exceeded", engine.KeyLimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Keys: keys})
			caller := g.rich(t)
			caller.Answers(upstream.Refuse(c.fails))
			for range 2 {
				requireError(t, shapes[0], caller.Ask(shapes[0]), c.status, c.code)
			}
			for _, k := range g.Engine.Current().Keys("up") {
				require.Equal(t, c.state, k.State)
				require.NotZero(t, k.Until)
			}
			require.Len(t, g.calls[caller.Mark], 2, "each key was asked once")
		})
	}
}
