//go:build linux

package main_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// cli runs a command of the operator's against the running gateway.
func (g *gateway) cli(t testing.TB, args ...string) []byte {
	t.Helper()
	out, err := fareway(g.Dir, append(append([]string{"gateway"}, args...), "--data", g.Dir)...).CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
	return out
}

// customer is an account with a key and a request of each shape on its way.
type customer struct {
	Account string
	Key     struct{ ID, Key string }
	streams map[string]*live
}

// TestOperatorsActAtOnce: what an operator does to a key or an account acts on requests that begin after it, on every
// endpoint; those that run finish and are charged.
func TestOperatorsActAtOnce(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	for _, tc := range []struct {
		clauses string
		act     func(t *testing.T, c *customer)
		undo    func(t *testing.T, c *customer)
		status  int
	}{
		{"STATE-05 STATE-06 AUTH-12 revoked", func(t *testing.T, c *customer) { g.cli(t, "key", "revoke", c.Key.ID) }, nil,
			http.StatusUnauthorized},
		{"STATE-06 rotated", func(t *testing.T, c *customer) { g.cli(t, "key", "rotate", c.Key.ID, "--overlap", "0s") }, nil,
			http.StatusUnauthorized},
		{"STATE-06 expired", func(t *testing.T, c *customer) {
			g.cli(t, "key", "set", c.Key.ID, "--expires", "2s")
			eventually(t, func() (bool, string) {
				return g.get(t, "/v1/account", c.Key.Key) == http.StatusUnauthorized, "the key goes on"
			})
		}, nil, http.StatusUnauthorized},
		{"STATE-03 STATE-06 AUTH-14 suspended",
			func(t *testing.T, c *customer) { g.cli(t, "account", "suspend", c.Account) },
			func(t *testing.T, c *customer) { g.cli(t, "account", "activate", c.Account) }, http.StatusForbidden},
		{"STATE-06 AUTH-15 deactivated",
			func(t *testing.T, c *customer) { g.cli(t, "account", "deactivate", c.Account) },
			func(t *testing.T, c *customer) { g.cli(t, "account", "activate", c.Account) }, http.StatusForbidden},
		{"capped key",
			func(t *testing.T, c *customer) { g.cli(t, "key", "set", c.Key.ID, "--spend-cap", "1") },
			func(t *testing.T, c *customer) { g.cli(t, "key", "set", c.Key.ID, "--spend-cap", "none") },
			http.StatusPaymentRequired},
	} {
		t.Run(tc.clauses, func(t *testing.T) {
			t.Parallel()
			c := g.customer(t, up)
			statuses := g.statuses(t, c.Key.Key)
			for path, status := range statuses {
				require.Equal(t, http.StatusOK, status, path)
			}
			tc.act(t, c)
			for path, status := range g.statuses(t, c.Key.Key) {
				if tc.status == http.StatusPaymentRequired && (path == "/v1/models" || path == "/v1/account") {
					require.Equal(t, http.StatusOK, status, "what is not charged goes on")
					continue
				}
				require.Equal(t, tc.status, status, path)
			}
			if tc.undo != nil {
				tc.undo(t, c)
				for path, status := range g.statuses(t, c.Key.Key) {
					require.Equal(t, http.StatusOK, status, path)
				}
			}
			up.Open(c.Account)
			for _, s := range shapes {
				require.Equal(t, billing{Microcents: price(4, 2)}, c.streams[s.name].whole(t, s), s.name)
			}
		})
	}
}

// customer makes an account whose requests wait halfway at a gate of its name.
func (g *gateway) customer(t *testing.T, up *upstream.Server) *customer {
	t.Helper()
	c := &customer{Account: "account-" + rand.Text(), streams: map[string]*live{}}
	g.cli(t, "account", "create", c.Account)
	g.cli(t, "credit", "add", "--account", c.Account, "100000", "--yes")
	require.NoError(t, json.Unmarshal(g.cli(t, "key", "create", "--account", c.Account, "--name", "first", "--json"),
		&c.Key))
	for _, s := range shapes {
		c.streams[s.name] = s.send(t, http.DefaultClient, g.URL, c.Key.Key, "wait at "+c.Account, true)
		c.streams[s.name].until(t, "one ")
	}
	require.NoError(t, up.AtGate(withTimeout(t), c.Account, len(shapes)))
	return c
}

// statuses asks every endpoint that has no body of its own, and each shape.
func (g *gateway) statuses(t *testing.T, key string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, s := range shapes {
		all[s.path] = s.send(t, http.DefaultClient, g.URL, key, "hello", false).StatusCode
	}
	for _, path := range []string{"/v1/models", "/v1/account"} {
		all[path] = g.get(t, path, key)
	}
	return all
}

// get is the status of a request without a body.
func (g *gateway) get(t *testing.T, path, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(withTimeout(t), http.MethodGet, g.URL+path, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	reply := do(t, http.DefaultClient, req)
	require.NoError(t, reply.Body.Close())
	return reply.StatusCode
}
