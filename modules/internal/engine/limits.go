package engine

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// The limits of requests, by what X-RateLimit-Reason says (LIM-07 to LIM-11, GAP-89).
const (
	KeyRequests        = "key_requests_per_minute"
	AccountRequests    = "tenant_requests_per_minute"
	AddressRequests    = "ip_requests_per_minute"
	AddressFailures    = "pre_auth_ip_requests_per_minute"
	ConcurrentRequests = "tenant_concurrent_requests"
)

// reasons name the limits of what the rates count.
var reasons = map[ratelimit.Kind]string{
	ratelimit.Key:      KeyRequests,
	ratelimit.Account:  AccountRequests,
	ratelimit.Address:  AddressRequests,
	ratelimit.Failures: AddressFailures,
}

// concurrentWait is what a client waits for one of its other requests to end, which nobody can foresee.
const concurrentWait = time.Second

// Limited says that a request is over a limit.
type Limited struct {
	Reason string
	Wait   time.Duration // whole seconds, 1 to 60 of them (GAP-16)
}

// CheckFailures refuses an address from which too many requests have failed to authenticate in the last minute:
// pre_auth.failures_per_minute of them (LIM-10, GAP-90). Nil means that the key may be looked at.
func (w *Work) CheckFailures(ctx context.Context, from netip.Addr) (*Limited, error) {
	return w.engine.limited(ctx, w.engine.rates.Check, w.failures(from))
}

// CountFailure counts a failed authentication. It refuses when others from the address, at the same time, were
// the last that may fail: whoever guesses is told no more often than that.
func (w *Work) CountFailure(ctx context.Context, from netip.Addr) (*Limited, error) {
	return w.engine.limited(ctx, w.engine.rates.Take, w.failures(from))
}

// Admit counts a request that is not charged against the limits of its key, its account and its address, by the
// account's plan (GAP-01 step 6). A request that is refused, which Limited says, counts nowhere.
func (w *Work) Admit(ctx context.Context, who ledger.Principal, from netip.Addr) (*Limited, error) {
	plan := PlanOf(w.gen.Config, who.Account)
	return w.engine.limited(ctx, w.engine.rates.Take, requests(&plan, who, from))
}

// AdmitCharged is Admit for a charged request, which also takes one of its account's concurrent_requests, after
// the other limits. Leave gives that back.
func (w *Work) AdmitCharged(ctx context.Context, who ledger.Principal, from netip.Addr) (*Limited, error) {
	e, plan := w.engine, PlanOf(w.gen.Config, who.Account)
	asks := requests(&plan, who, from)
	if plan.ConcurrentRequests > 0 {
		// What is over its rate must not take the place of another request, not even for a moment.
		if l, err := e.limited(ctx, e.rates.Check, asks); l != nil || err != nil {
			return l, err
		}
	}
	if !e.requests.take(who.Account.ID, plan.ConcurrentRequests) {
		e.metrics.limitReached(ConcurrentRequests)
		return &Limited{Reason: ConcurrentRequests, Wait: concurrentWait}, nil
	}
	w.charged = who.Account.ID
	l, err := e.limited(ctx, e.rates.Take, asks)
	if l != nil || err != nil {
		w.Leave()
	}
	return l, err
}

// Enter counts a charged request among those in progress, of all accounts; false when max_streams of them are. Leave
// gives that back.
func (w *Work) Enter() bool {
	w.entered = w.engine.streams.take(1)
	return w.entered
}

// Leave ends a charged request as far as max_streams and its account's concurrent_requests go: when nothing of it runs
// upstream any more, and before its client can have seen its end and sent the next one. Only the first call of a request counts,
// so that it can be made where all the ways of a request end, too.
func (w *Work) Leave() {
	if w.charged != "" {
		w.engine.requests.give(w.charged)
		w.charged = ""
	}
	if w.entered {
		w.engine.streams.give(1)
		w.entered = false
	}
}

// failures is the limit of failed authentications; none for a peer that has no address.
func (w *Work) failures(from netip.Addr) []ratelimit.Ask {
	if !from.IsValid() {
		return nil
	}
	return []ratelimit.Ask{{
		Subject: ratelimit.Subject{Kind: ratelimit.Failures, Network: ratelimit.NetworkOf(from)},
		Limit:   w.gen.Config.PreAuth.FailuresPerMinute,
	}}
}

// requests are the limits of a request, the narrowest first (GAP-89). A peer without an address, on a unix socket,
// has no limit of its address.
func requests(plan *config.Plan, who ledger.Principal, from netip.Addr) []ratelimit.Ask {
	limits := &plan.RequestsPerMinute
	asks := []ratelimit.Ask{
		{Subject: ratelimit.Subject{Kind: ratelimit.Key, Name: who.Key.ID}, Limit: limits.Key},
		{Subject: ratelimit.Subject{Kind: ratelimit.Account, Name: who.Account.ID}, Limit: limits.Account},
		{Subject: ratelimit.Subject{Kind: ratelimit.Address, Network: ratelimit.NetworkOf(from)}, Limit: limits.Address},
	}
	if !from.IsValid() {
		asks = asks[:2]
	}
	return asks
}

// limited asks the rates, and counts who is refused.
func (e *Engine) limited(ctx context.Context, ask func(context.Context, []ratelimit.Ask) (*ratelimit.Refusal, error), asks []ratelimit.Ask) (*Limited, error) {
	r, err := ask(ctx, asks)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the limiter: %w", err)
	case r == nil:
		return nil, nil
	}
	reason := reasons[asks[r.Ask].Subject.Kind]
	e.metrics.limitReached(reason)
	return &Limited{Reason: reason, Wait: r.Wait}, nil
}
