package verify

import (
	"fmt"
	"net/http"
	"strings"
)

// opsAccountChecks are about keys, states of accounts and what the account summary says.
func opsAccountChecks() []opsCheck {
	return []opsCheck{
		{"AUTH-03 AUTH-04 AUTH-05 AUTH-06 AUTH-07 AUTH-09", "bearer in any case", standardGate, requireBearerInAnyCase},
		{"AUTH-01 AUTH-10 AUTH-11 AUTH-13 HTTP-08 ERR-15", "headers that hold no key", standardGate, requireNoKey},
		{"AUTH-08 AUTH-09 AUTH-13", "Authorization decides beside x-api-key", standardGate, requireBearerDecides},
		{"AUTH-16 AUTH-17", "names of credentials (GAP-30)", standardGate, requireNoCredentials},
		onEach("AUTH-14 AUTH-15 STATE-03 ERR-20", "accounts that are suspended or inactive", standardGate, requireStates),
		{"AUTH-12 STATE-05", "a revoked key", standardGate, requireRevoked},
		{"ACCT-01 ACCT-02 ACCT-03 ACCT-12 ACCT-13 ACCT-14", "who calls (GAP-121)", standardGate, requireWhoCalls},
		{"ACCT-04 ACCT-06 ACCT-07 ACCT-09", "the numbers of a new account, and after a top-up", standardGate,
			requireNewAccount},
		{"ACCT-07", "the plan's allotment", capsGate, func(o *ops) {
			o.plan(monthlyPlan)
			n, _ := integer(at(o.ok(lookups, o.do(call{Path: "/v1/account"})), "credits", "monthly_allotment_credits"))
			o.Equal(int64(monthlyCredits), n, "monthly_allotment_credits")
		}},
	}
}

// bearer is a header with a key.
func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

func requireBearerInAnyCase(o *ops) {
	for _, p := range places {
		for _, scheme := range []string{"Bearer ", "bearer ", "BEARER "} {
			a := o.do(p.call(o.T, http.Header{"Authorization": {scheme + o.key}}))
			o.Equal(200, a.Status, "the status with "+scheme+"on "+p.path)
		}
	}
}

func requireNoKey(o *ops) {
	before := o.balance()
	for _, p := range places {
		for _, header := range []http.Header{
			{"Authorization": nil},
			{"Authorization": {"Bearer "}},
			{"Authorization": {o.key}},
			{"Authorization": {"Basic " + o.key}},
			bearer(mistyped(o.key)),
			bearer(o.key[:len(o.key)-1]),
			bearer(strings.ToUpper(o.key)),
			{"Authorization": nil, "X-Api-Key": {"nonsense"}},
			{"Authorization": {"Bearer nonsense"}, "X-Api-Key": {o.key}},
			{"Authorization": {"Bearer " + o.key, "Bearer other"}},
		} {
			o.refused(p.shape, o.do(p.call(o.T, header)), 401, authentication)
		}
		queried := p
		queried.path += "?api_key=" + o.key
		o.refused(p.shape, o.do(queried.call(o.T, http.Header{"Authorization": nil})), 401, authentication)
	}
	o.untouched(before)
}

func requireBearerDecides(o *ops) {
	for _, p := range places {
		for _, key := range []string{"stale", o.key} {
			a := o.do(p.call(o.T, http.Header{"X-Api-Key": {key}}))
			o.Equal(200, a.Status, "the status with x-api-key beside a bearer token on "+p.path)
		}
	}
}

// credentialNames are those of GAP-30, each once in a spelling that has to be seen through.
var credentialNames = []string{"api_key", "Api-Key", "apiKey", "x-api-key", "api_secret", "secret", "SECRET_KEY",
	"client.secret", "password", "passwd", "authorization", "Proxy-Authorization", "auth", "auth_token", "access_token",
	"refresh token", "id_token", "Bearer", "bearer_token", "token", "JWT", "credential", "credentials", "cookie",
	"cookies",
	"Set-Cookie", "session", "session_id", "sessionToken", "session_key", "sid", "csrf_token", "private_key"}

func requireNoCredentials(o *ops) {
	before := o.balance()
	for _, s := range posts {
		for i, name := range credentialNames {
			value := []string{`"hunter2"`, `null`, `7`, `{}`}[i%4]
			a := o.ask(s, quote(name)+":"+value, modes[i%2])
			o.refused(s, a, 400, invalid)
			o.requireMessage(a, name)
			o.True(!strings.Contains(string(a.Raw), "hunter2"), "the error repeats the value: %s", brief(string(a.Raw)))
			for _, metadata := range []string{`{%s:"hunter2"}`, `{"a":{"b":[{%s:null}]}}`, `[{%s:1}]`} {
				o.refused(s, o.ask(s, `"metadata":`+fmt.Sprintf(metadata, quote(name))), 400, invalid)
			}
		}
	}
	o.untouched(before)
}

func requireStates(o *ops, s shape) {
	for _, state := range []string{"suspended", "inactive"} {
		before := o.worth()
		o.setState(state)
		for _, p := range places {
			a := o.do(p.call(o.T, nil))
			o.Equal(403, a.Status, "the status of "+a.call.String())
			o.errorForm(p.shape, a, "permission_denied")
			o.requireMessage(a, a.Header.Get("X-Request-Id"))
			o.refused(p.shape, o.do(p.call(o.T, bearer(o.key+"x"))), 401, authentication)
		}
		a := o.ask(s, modes[1])
		o.Equal(403, a.Status, "the status of a stream")
		o.errorForm(s, a, "permission_denied")
		o.Equal(0, len(o.calls()), "the number of calls to the route")
		o.Equal(before, o.worth(), "the account's money")
	}
	o.setState("active")
	o.ok(s, o.ask(s))
}

// requireRevoked: a revoked key may be replaced, so its errors do not say that trying again is no use (GAP-119).
func requireRevoked(o *ops) {
	other := o.newKey("second")
	o.as("DELETE", "/fareway/keys/"+o.account.KeyID, nil)
	for _, state := range []string{"active", "suspended"} {
		o.setState(state)
		for _, p := range places {
			a := o.do(p.call(o.T, nil))
			o.Equal(401, a.Status, "the status of "+a.call.String())
			o.errorForm(p.shape, a, authentication)
			o.Equal("", a.Header.Get("X-Should-Retry"), "x-should-retry")
			if state == "active" {
				o.Equal(200, o.do(p.call(o.T, bearer(other))).Status, "the status with the other key")
			}
		}
	}
}

func requireWhoCalls(o *ops) {
	first := o.ok(lookups, o.do(call{Path: "/v1/account"}))
	o.Equal(o.account.ID, str(at(first, "tenant", "id")), "tenant.id")
	o.Equal(o.account.Name, str(at(first, "tenant", "name")), "tenant.name")
	o.Equal("first", str(at(first, "key", "name")), "key.name")
	key := o.newKey("second")
	a := o.do(call{Path: "/v1/account", Header: bearer(key)})
	second := o.ok(lookups, a)
	o.Equal(o.account.ID, str(at(second, "tenant", "id")), "tenant.id with another key")
	o.Equal("second", str(at(second, "key", "name")), "key.name")
	o.Equal(key[len(key)-4:], str(at(second, "key", "last4")), "key.last4")
	o.True(!strings.Contains(string(a.Raw), key), "the summary holds the key")
	other := o.customer(1)
	o.True(other.account.ID != o.account.ID && str(at(other.ok(lookups, other.do(call{Path: "/v1/account"})), "tenant",
		"id")) == other.account.ID, "another account has the same id")
}

func requireNewAccount(o *ops) {
	c := o.customer(3)
	credits := at(c.ok(lookups, c.do(call{Path: "/v1/account"})), "credits")
	n, _ := integer(at(credits, "monthly_allotment_credits"))
	c.Equal(int64(0), n, "monthly_allotment_credits")
	c.Equal(nil, at(credits, "current_period_end"), "current_period_end")
	c.Equal(balance{Balance: 3, Available: 3}, c.balance(), "the account")
	c.topUp(4)
	c.Equal(balance{Balance: 7, Available: 7}, c.balance(), "the account after a top-up")
}
