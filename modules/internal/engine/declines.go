package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// What a settlement's reason begins with where a content policy declined the request (GAP-87).
const (
	Screened        = "screened" // before routing
	DeclinedByRoute = string(llm.ErrPolicy)
	EndedByPolicy   = "content_filter" // in the middle of the reply
)

// declined reports whether a reason is one of these; what follows is said behind a semicolon.
func declined(reason string) bool {
	reason, _, _ = strings.Cut(reason, ";")
	return reason == Screened || reason == DeclinedByRoute || reason == EndedByPolicy
}

// maxDeclining is how many accounts' declined requests are remembered. Beyond it, the journal is asked again.
const maxDeclining = 10_000

// declines count declined requests, so that an account that goes on with them is suspended where its plan says so
// (STATE-02). The journal has them; memory only saves asking it each time.
type declines struct {
	mu        sync.Mutex
	byAccount map[string][]time.Time
}

func (d *declines) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.byAccount)
}

// declinesActor stands in the audit trail for what happens by itself.
const declinesActor = "gateway (suspend_after_declines)"

// Declined is called when a request of an account was settled for one of the reasons above. It suspends the account
// when that was one too many for its plan.
func (r *requests) Declined(ctx context.Context, account ledger.Account, limit config.Declines, request string) {
	if limit.Count == 0 {
		return
	}
	if err := r.countDeclined(context.WithoutCancel(ctx), account, limit, request); err != nil {
		r.Logger().Error("an account whose requests are declined could not be suspended; the next one tries again",
			"account", account.Name, "error", err)
	}
}

func (r *requests) countDeclined(ctx context.Context, account ledger.Account, limit config.Declines,
	request string) error {
	d, now := &r.declines, r.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	since := now.Add(-limit.Window)
	times, known := d.byAccount[account.ID]
	if !known {
		var err error
		if times, err = r.declinedBefore(ctx, account.ID, since, request); err != nil {
			return err
		}
	}
	times = append(slices.DeleteFunc(times, func(t time.Time) bool { return !t.After(since) }), now)
	if len(d.byAccount) >= maxDeclining {
		clear(d.byAccount)
	}
	d.byAccount[account.ID] = times
	if int64(len(times)) < limit.Count {
		return nil
	}
	current, err := r.store.Account(ctx, account.ID)
	if err != nil || current.State != ledger.Active {
		return err
	}
	if _, err := r.store.SetState(ledger.WithActor(ctx, declinesActor), account.ID, ledger.Suspended); err != nil {
		return err
	}
	delete(d.byAccount, account.ID) // when it is reactivated, the count begins anew
	r.keys.forget()
	r.metrics.suspended.Inc()
	r.noteSuspended(account.ID)
	r.Logger().Warn("an account is suspended: a content policy declined too many of its requests", "account", account.Name,
		"account_id", account.ID, "declined", len(times), "window", limit.Window, "last_request_id", request)
	return nil
}

// declinedBefore is when requests of an account were declined since a moment, and since it was last activated; but for
// one of them.
func (r *requests) declinedBefore(ctx context.Context, account string, since time.Time, but string) (times []time.Time,
	err error) {
	err = r.store.Audit(ctx, ledger.Query{Account: account, Since: since}, func(a ledger.Act) error {
		if a.Action == "account.set_state" && a.Created.After(since) {
			since = a.Created
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the account's last activation: %w", err)
	}
	err = r.store.Entries(ctx, ledger.Query{Account: account, Since: since, Recent: true}, func(entry ledger.Entry) error {
		if entry.Kind == ledger.Charged && entry.Request != but && declined(entry.Reason) && entry.Created.After(since) {
			times = append(times, entry.Created)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("counting the account's declined requests: %w", err)
	}
	return times, nil
}
