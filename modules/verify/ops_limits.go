package verify

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plans of limitsGate, each with one limit, and how often an address may fail to authenticate.
const (
	keyPlan, accountPlan, addressPlan, concurrentPlan = "by_key", "by_account", "by_address", "at_once"

	perMinute = 5
)

const limitsHCL = `
plan "by_key" {
  requests_per_minute {
    key     = 5
    account = 0
    address = 0
  }
}
plan "by_account" {
  requests_per_minute {
    key     = 0
    account = 5
    address = 0
  }
}
plan "by_address" {
  requests_per_minute {
    key     = 0
    account = 0
    address = 5
  }
}
plan "at_once" {
  concurrent_requests = 1
}
pre_auth {
  failures_per_minute = 5
}
`

// opsLimitChecks are about requests a minute and requests at once. Each shape comes from an address of its own.
func opsLimitChecks() []opsCheck {
	return []opsCheck{
		onEach("LIM-01 LIM-05 LIM-06 LIM-07 AUTH-20 ERR-23", "more requests with a key than its plan has", limitsGate,
			func(o *ops, s shape) {
				o.plan(keyPlan)
				o.fill(s, o)
				o.limited(s, "key_requests_per_minute")
				another := o.with(o.newKey("second"))
				o.Equal(200, another.say(s, modes[0]).Status, "the status with another key of the account")
			}),
		onEach("LIM-02 LIM-05 LIM-06 LIM-08 AUTH-20 ERR-23", "more requests of an account than its plan has", limitsGate,
			func(o *ops, s shape) {
				o.plan(accountPlan)
				o.fill(s, o, o.with(o.newKey("second")))
				o.limited(s, "tenant_requests_per_minute")
				other := o.customer(1_000_000)
				other.plan(accountPlan)
				o.Equal(200, other.say(s, modes[0]).Status, "the status of another account")
			}),
		onEach("LIM-03 LIM-05 LIM-06 LIM-09 AUTH-20 ERR-23", "more requests from an address than its plan has", limitsGate,
			func(o *ops, s shape) {
				other := o.customer(1_000_000)
				for _, c := range []*ops{o, other} {
					c.plan(addressPlan)
				}
				here, there := o.from(s, 1), o.from(s, 2)
				here.fill(s, here, other.from(s, 1))
				here.limited(s, "ip_requests_per_minute")
				o.Equal(200, there.say(s, modes[0]).Status, "the status from another address")
			}),
		onEach("LIM-10 LIM-05 LIM-06 ERR-23", "more invalid keys from an address than may be", limitsGate,
			func(o *ops, s shape) {
				here, there := o.from(s, 3), o.from(s, 4)
				here.guess(s)
				here.limited(s, "pre_auth_ip_requests_per_minute")
				o.Equal(200, there.say(s, modes[0]).Status, "the status from another address")
			}),
		onEach("LIM-11 LIM-05 LIM-06 ERR-23", "more requests at once than an account may have", limitsGate,
			func(o *ops, s shape) {
				o.plan(concurrentPlan)
				c, b := o.liveBlocked(s, o.body(s))
				o.limited(s, "tenant_concurrent_requests")
				o.release(c, b)
				for _, mode := range modes {
					o.Equal(200, o.say(s, mode).Status, "the status when it has ended")
				}
			}),
	}
}

// opsSlowChecks wait as long as a limit says, which is a minute.
func opsSlowChecks() []opsCheck {
	return []opsCheck{
		atOnce("LIM-06 LIM-10", "who waits as long as the limits say is served again", slowGate, func(o *ops, s shape) {
			key, address := o.customer(1_000_000), o.from(s, 5)
			key.plan(keyPlan)
			key.fill(s, key)
			address.guess(s)
			waits := []time.Duration{key.overLimit(s, "key_requests_per_minute"),
				address.overLimit(s, "pre_auth_ip_requests_per_minute")}
			select {
			case <-time.After(slices.Max(waits)):
			case <-o.ctx.Done():
			}
			for _, c := range []*ops{key, address} {
				o.Equal(200, c.say(s, modes[0]).Status, "the status after the time that the limit said")
			}
		}),
	}
}

// plan puts the account on a plan.
func (o *ops) plan(name string) {
	o.as("POST", "/fareway/accounts/"+o.account.Name+"/plan", map[string]any{"plan": name})
}

// newKey makes another key of the account.
func (o *ops) newKey(name string) (key string) {
	var made struct{ Key string }
	if err := o.gate.Admin.Call(o.ctx, "POST", "/fareway/keys", map[string]any{"account": o.account.Name, "name": name},
		&made); err != nil {
		o.Fatalf("making a key: %v", err)
	}
	return made.Key
}

// with is the account's client with another key.
func (o *ops) with(key string) *ops {
	target, err := NewTarget(o.gate.URL, key, o.limits)
	if err != nil {
		o.Fatalf("using a key: %v", err)
	}
	target.own = true
	return &ops{T: &T{Target: target, ctx: o.ctx}, gate: o.gate, account: o.account}
}

// from is the account's client at another address of this machine: the nth of the shape. Linux has 16 million of
// them; where there is but one, the check is pending.
func (o *ops) from(s shape, n byte) *ops {
	at := slices.IndexFunc(shapes, func(x shape) bool { return x.Name == s.Name })
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(at+1), n)}}
	conn, err := dialer.DialContext(o.ctx, "tcp", strings.TrimPrefix(o.gate.URL, "http://"))
	if err != nil {
		o.Pendingf("this machine has one address only: %v", err)
	}
	_ = conn.Close() // nothing was sent
	away := o.with(o.account.Key)
	away.client.Transport = &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		},
		DisableKeepAlives: true,
	}
	return away
}

// say sends the smallest request, and takes a limit for an answer.
func (o *ops) say(s shape, mode string) *answer {
	return o.send(call{Path: s.Path, Body: o.body(s, mode)})
}

// fill sends as many requests as a limit has, of the clients in turn.
func (o *ops) fill(s shape, clients ...*ops) {
	for n := range perMinute {
		a := clients[n%len(clients)].say(s, modes[n%len(modes)])
		o.Equal(200, a.Status, "the status of request "+strconv.Itoa(n+1))
	}
}

// guess sends as many invalid keys as may be sent.
func (o *ops) guess(s shape) {
	for range perMinute {
		wrong := o.with(o.account.Key + "x")
		wrong.client = o.client
		o.refused(s, wrong.say(s, modes[0]), 401, authentication)
	}
}

// limited checks that the next requests are refused by a limit before the route is called. No other shape may be
// checked meanwhile: its calls would count.
func (o *ops) limited(s shape, reason string) {
	called := len(o.calls())
	o.overLimit(s, reason)
	o.Equal(called, len(o.calls()), "the number of calls to the route")
}

// overLimit checks that the next requests are refused by a limit, and cost nothing, and returns how long to wait.
func (o *ops) overLimit(s shape, reason string) (wait time.Duration) {
	before := o.worth()
	for _, mode := range modes {
		a := o.say(s, mode)
		o.Equal(429, a.Status, "the status over the limit")
		o.errorForm(s, a, "rate_limit_exceeded")
		o.Equal(reason, a.Header.Get("X-RateLimit-Reason"), "X-RateLimit-Reason")
		o.Equal("", a.Header.Get("X-Should-Retry"), "x-should-retry")
		o.True(a.Header.Get("X-Request-Id") != "", "the error has no X-Request-Id")
		seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
		o.True(err == nil && seconds >= 1 && seconds <= 60, "Retry-After is %q", a.Header.Get("Retry-After"))
		wait = time.Duration(seconds) * time.Second
	}
	o.Equal(before, o.worth(), "the account's money")
	return wait
}

// worth is what the account has, as the operator sees it: looking counts towards no limit.
func (o *ops) worth() map[string]any {
	var v map[string]any
	if err := o.gate.Admin.Call(o.ctx, "GET", "/fareway/accounts/"+o.account.Name, nil, &v); err != nil {
		o.Fatalf("looking at the account: %v", err)
	}
	return map[string]any{"credits": v["balance_credits"], "accrued": v["accrued_usage_microcents"],
		"held": v["held_microcents"]}
}
