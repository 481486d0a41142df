package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
)

// refusals say which limit it is, in X-RateLimit-Reason (LIM-07 to LIM-11, GAP-89), and to people what to do but wait.
// None has a number: the limits are the operator's to tell.
var refusals = map[ratelimit.Kind]struct{ reason, message string }{
	ratelimit.Key: {"key_requests_per_minute",
		"This API key has sent as many requests as it may in a minute: send fewer."},
	ratelimit.Account: {"tenant_requests_per_minute",
		"This account has sent as many requests as it may in a minute: send fewer, over all of its keys."},
	ratelimit.Address: {"ip_requests_per_minute",
		"As many requests as may come from this address in a minute have come: send fewer."},
	ratelimit.Failures: {"pre_auth_ip_requests_per_minute",
		"Too many requests without a valid API key have come from this address: check the key."},
	ratelimit.Running: {"tenant_concurrent_requests",
		"This account has as many requests in progress as it may: let some of them end first."},
}

// openLimiter opens the limiter that the configuration names, unless there is one.
func (r *requests) openLimiter(o *Options, cfg *config.Config) (err error) {
	if r.limiter = o.Limiter; r.limiter == nil {
		if r.limiter, err = o.OpenLimiter(cfg.Limiter, r.Logger()); err != nil {
			return err
		}
	}
	switch m := r.limiter.(type) {
	case *ratelimit.Memory:
		r.metrics.watchLimiter(m.Usage)
	case ratelimit.Reporter:
		r.metrics.watchLimiter(m.Usage)
		r.metrics.watchLimiterServer(m.Status)
		r.ownAttempts = ratelimit.NewMemory(ratelimit.Options{})
	}
	return r.openConversations(o, cfg)
}

// openConversations opens what is remembered of conversations: in the limiter's server where nodes share one.
func (r *requests) openConversations(o *Options, cfg *config.Config) (err error) {
	options := affinity.Options{Now: o.Now}
	if o.OpenConversations != nil {
		if r.sharedBook, err = o.OpenConversations(cfg.Limiter, o.Now, r.Logger()); err != nil {
			return errors.Join(err, r.closeLimiter())
		}
	}
	if r.sharedBook != nil {
		options.Memory, options.Secret = r.sharedBook, r.sharedBook.Secret()
	}
	r.conversations = affinity.New(options)
	return nil
}

func (r *requests) closeLimiter() (err error) {
	if c, ok := r.limiter.(io.Closer); ok {
		err = c.Close()
	}
	if r.sharedBook != nil {
		err = errors.Join(err, r.sharedBook.Close())
	}
	return err
}

// Servers are those that the nodes share beside the limiter's, by what is in them: "cache" and "conversations".
func (r *requests) Servers() map[string]redisconn.State {
	all := make(map[string]redisconn.State)
	add := func(what string, in any) {
		if s, ok := in.(interface{ State() redisconn.State }); ok {
			all[what] = s.State()
		}
	}
	add("conversations", r.sharedBook)
	r.replies.shared.mu.Lock()
	defer r.replies.shared.mu.Unlock()
	add("cache", r.replies.shared.cache)
	return all
}

// LimiterServer is the server in which the limiter counts; nil where it counts in the memory of this process.
func (r *requests) LimiterServer() *ratelimit.Status {
	m, ok := r.limiter.(ratelimit.Reporter)
	if !ok {
		return nil
	}
	v := m.Status()
	return &v
}

// Limited says that a request is over a limit.
type Limited struct {
	Reason  string        // "" for max_streams, which is no limit of the account
	Message string        // for the client
	Wait    time.Duration // whole seconds, 1 to 60 of them (GAP-16); 0 for max_streams
	// Limit is how many there may be, for who looks after the account. Foreseen: after Wait there is room, unless others
	// take it.
	Limit    int64
	Foreseen bool
}

// CheckFailures refuses an address from which too many requests have failed to authenticate in the last minute:
// pre_auth.failures_per_minute of them (LIM-10, GAP-90). Nil means that the key may be looked at.
func (w *Work) CheckFailures(ctx context.Context, from netip.Addr) (*Limited, error) {
	return w.check(ctx, w.failures(from))
}

// CountFailure counts a failed authentication. It refuses when others from the address, at the same time, were
// the last that may fail: whoever guesses is told no more often than that.
func (w *Work) CountFailure(ctx context.Context, from netip.Addr) (*Limited, error) {
	return w.acquire(ctx, w.failures(from))
}

// Admit counts a request that is not charged against the limits of its key, its account and its address, by the
// account's plan (GAP-01 step 6). A request that is refused, which Limited says, counts nowhere.
func (w *Work) Admit(ctx context.Context, who ledger.Principal, from netip.Addr) (*Limited, error) {
	plan := PlanOf(w.gen.Config, who.Account)
	return w.acquire(ctx, w.requests(&plan, who, from))
}

// AdmitCharged is Admit for a charged request, which also takes a permit of its account's concurrent_requests, or of
// its part of max_streams if that is less, after the other limits, and one of max_streams. Release gives them back.
func (w *Work) AdmitCharged(ctx context.Context, who ledger.Principal, from netip.Addr) (*Limited, error) {
	plan := PlanOf(w.gen.Config, who.Account)
	asks := append(w.requests(&plan, who, from), ratelimit.Ask{
		Subject: ratelimit.Subject{Kind: ratelimit.Running, Name: who.Account.ID}, Limit: plan.AtOnce(),
	})
	if w.charged = w.engine.streams.acquire(1); !w.charged {
		// Its own limits come first, and what the service itself refuses counts nowhere.
		l, err := w.check(ctx, asks)
		if l == nil && err == nil {
			l = new(Limited)
		}
		return l, err
	}
	l, err := w.acquire(ctx, asks)
	if l != nil || err != nil {
		w.Release()
	}
	return l, err
}

// Release ends a charged request as far as max_streams and its account's concurrent_requests go: when nothing of it
// runs upstream any more, and before its client can have seen its end and sent the next one. Only the first call of
// a request counts, so that it can be made where all the ways of a request end, too.
func (w *Work) Release() {
	if w.permit != 0 {
		w.engine.limiter.Release(w.permit)
		w.permit = 0
	}
	if w.charged {
		w.engine.streams.release(1)
		w.charged = false
	}
}

// failures is the limit of failed authentications; none for a peer that has no address.
func (w *Work) failures(from netip.Addr) []ratelimit.Ask {
	if !from.IsValid() {
		return nil
	}
	return append(w.asks[:0], ratelimit.Ask{
		Subject: ratelimit.Subject{Kind: ratelimit.Failures, Network: ratelimit.NetworkOf(from)},
		Limit:   w.gen.Config.PreAuth.FailuresPerMinute,
	})
}

// requests are the rates of a request, the narrowest first (GAP-89). A peer without an address, on a unix socket,
// has no limit of its address.
func (w *Work) requests(plan *config.Plan, who ledger.Principal, from netip.Addr) []ratelimit.Ask {
	limits := &plan.RequestsPerMinute
	asks := append(w.asks[:0],
		ratelimit.Ask{Subject: ratelimit.Subject{Kind: ratelimit.Key, Name: who.Key.ID, Account: who.Account.ID},
			Limit: limits.Key},
		ratelimit.Ask{Subject: ratelimit.Subject{Kind: ratelimit.Account, Name: who.Account.ID}, Limit: limits.Account})
	if from.IsValid() {
		network := ratelimit.NetworkOf(from)
		asks = append(asks, ratelimit.Ask{
			Subject: ratelimit.Subject{Kind: ratelimit.Address, Network: network}, Limit: limits.Address})
	}
	return asks
}

func (w *Work) check(ctx context.Context, asks []ratelimit.Ask) (*Limited, error) {
	r, err := w.engine.limiter.Check(ctx, asks)
	return w.limited(asks, r, err)
}

func (w *Work) acquire(ctx context.Context, asks []ratelimit.Ask) (*Limited, error) {
	p, r, err := w.engine.limiter.Acquire(ctx, asks)
	if p != 0 {
		w.permit = p
	}
	return w.limited(asks, r, err)
}

// limited is what the limiter said, and counts who is refused.
func (w *Work) limited(asks []ratelimit.Ask, r *ratelimit.Refusal, err error) (*Limited, error) {
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the limiter: %w", err)
	case r == nil:
		return nil, nil
	}
	over := &asks[r.Ask]
	refusal := refusals[over.Subject.Kind]
	w.engine.metrics.limitReached(refusal.reason)
	return &Limited{Reason: refusal.reason, Message: refusal.message, Wait: r.Wait, Limit: over.Limit,
		Foreseen: over.Subject.Kind != ratelimit.Running}, nil
}
