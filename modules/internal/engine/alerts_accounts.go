package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Accounts are looked at when they were charged, and as long as somebody is told of them: never all of them.
const (
	// accountsAtOnce is how many that were charged are read at a look, and maxNoted how many may wait for that.
	accountsAtOnce = 1000
	maxNoted       = 100_000
	// knownAtOnce is how many are read that are told of: they take turns.
	knownAtOnce = 200
)

// noted are accounts to be looked at, of this process.
type noted struct {
	mu        sync.Mutex
	charged   map[string]bool // they may have come to a limit since they were looked at
	suspended map[string]bool // by itself
}

// NoteCharged notes an account that was charged, where that may have brought it to a limit that somebody hears of. It
// costs a request next to nothing: the account is read later, beside requests.
func (g *Generation) NoteCharged(account *ledger.Account, charge ledger.Charge) {
	a, r := &g.Config.Alerts, g.requests
	if a.BalanceLow > 0 && charge.Balance.Net() < a.BalanceLow*ledger.MicrocentsPerCredit && a.Hear("balance_low") {
		r.noteCharged(account.ID)
		return
	}
	if !a.Hear("cap_near") && !a.Hear("cap_reached") {
		return
	}
	if terms := account.Limits.Over(r.plans.of(account.Plan)); terms.SpendCap > 0 || terms.TokenBudget > 0 {
		r.noteCharged(account.ID)
	}
}

// NoteRefused notes an account whose credits or limits did not cover a request: it may have come to that without a
// charge, by a lower limit, or one that was not noted.
func (g *Generation) NoteRefused(account *ledger.Account) {
	a := &g.Config.Alerts
	if a.Hear("balance_low") || a.Hear("cap_near") || a.Hear("cap_reached") {
		g.requests.noteCharged(account.ID)
	}
}

func (r *requests) noteCharged(account string) {
	r.noted.mu.Lock()
	defer r.noted.mu.Unlock()
	r.noted.add(&r.noted.charged, account)
}

// noteSuspended notes an account that was suspended by itself.
func (r *requests) noteSuspended(account string) {
	r.noted.mu.Lock()
	defer r.noted.mu.Unlock()
	r.noted.add(&r.noted.suspended, account)
}

// add is called with the lock held. What is too much is noted when it comes again.
func (n *noted) add(to *map[string]bool, account string) {
	if *to == nil {
		*to = make(map[string]bool)
	}
	if len(*to) < maxNoted {
		(*to)[account] = true
	}
}

// takeNoted takes accounts that were noted: of those that were charged some.
func (r *requests) takeNoted() (charged, suspended []string) {
	n := &r.noted
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.charged {
		if len(charged) == accountsAtOnce {
			break
		}
		delete(n.charged, id)
		charged = append(charged, id)
	}
	suspended = slices.Collect(maps.Keys(n.suspended))
	clear(n.suspended)
	return charged, suspended
}

// giveBackNoted gives those back that could not be looked at.
func (r *requests) giveBackNoted(charged, suspended []string) {
	n := &r.noted
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range charged {
		n.add(&n.charged, id)
	}
	for _, id := range suspended {
		n.add(&n.suspended, id)
	}
}

const suspendedEvent, topUpFailedEvent = "account_suspended", "top_up_failed"

// accountEvents are the events that are about accounts.
var accountEvents = config.AccountEventNames()

// giveBackAccounts gives back those that are alerts, and for which there is no room among them.
func (e *Engine) giveBackAccounts(beyond map[string][]string) {
	for event, ids := range beyond {
		if event == suspendedEvent {
			e.giveBackNoted(nil, ids)
		} else {
			e.giveBackNoted(ids, nil)
		}
	}
}

// ownersOf are the addresses of an account's owners.
func (e *Engine) ownersOf(ctx context.Context, account string) ([]string, error) {
	a, err := e.store.Account(ctx, account)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	return a.Mail, err
}

// lookAtAccounts looks at the accounts that were charged since the last look, and at those that are told of, until ctx
// ends: the others are looked at the next time.
func (e *Engine) lookAtAccounts(ctx context.Context, known func(event string) []string) map[string]alerts.Seen {
	charged, fresh := e.takeNoted()
	suspended, isLow := make(map[string]bool), make(map[string]bool)
	for _, id := range slices.Concat(fresh, known(suspendedEvent)) {
		suspended[id] = true
	}
	for _, id := range known("balance_low") {
		isLow[id] = true
	}
	var told []string
	for _, event := range accountEvents {
		told = append(told, known(event)...)
	}
	ids := slices.Concat(fresh, e.alerting.inTurn(told), charged)
	seen := make(map[string]alerts.Seen, len(accountEvents))
	examined, unreadable := make(map[string]bool, len(ids)), make(map[string]bool)
	for _, event := range accountEvents {
		seen[event] = alerts.Seen{Examined: examined, Over: make(map[string]*alerts.ForOwner)}
	}
	// Whose top-up fails stands elsewhere, and all of it is read each time.
	delete(seen, topUpFailedEvent)
	if s, ok := e.findTopUpsFailed(ctx); ok {
		seen[topUpFailedEvent] = s
	}
	cfg := e.configOr(&config.Config{})
	for _, id := range ids {
		if examined[id] || unreadable[id] {
			continue
		}
		a, err := e.store.Account(ctx, id)
		switch {
		case err == nil:
		case errors.Is(err, ledger.ErrNotFound):
			examined[id] = true
			continue
		case errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil:
			// What was so stays, and the others are looked at the next time.
			isDone := func(id string) bool { return examined[id] || unreadable[id] }
			e.giveBackNoted(slices.DeleteFunc(charged, isDone), slices.DeleteFunc(fresh, isDone))
			return seen
		default:
			unreadable[id] = true
			e.Logger().Warn("an account cannot be read, and is not looked at for alerts", "account_id", id, "error", err)
			continue
		}
		examined[id] = true
		terms := a.Limits.Over(e.plans.of(a.Plan))
		for event, f := range judgeAccount(&a, terms, &cfg.Alerts, suspended[id], isLow[id]) {
			s := seen[event]
			s.Findings = append(s.Findings, f)
			seen[event] = s
		}
		for event, words := range wordsOfEnd(&a) {
			seen[event].Over[id] = words
		}
	}
	return seen
}

// inTurn are those of the accounts that are told of whose turn it is.
func (a *alerting) inTurn(told []string) []string {
	slices.Sort(told)
	told = slices.Compact(told)
	if len(told) <= knownAtOnce {
		return told
	}
	begin, _ := slices.BinarySearch(told, a.turn)
	ids := slices.Concat(told[begin:], told[:begin])
	a.turn = ids[knownAtOnce]
	return ids[:knownAtOnce]
}

// judgeAccount says what is to be heard of an account, by event. suspended: it was suspended by itself. isLow: its
// balance was low, and is so until it is a tenth above the threshold.
func judgeAccount(a *ledger.Account, terms ledger.Terms, cfg *config.Alerts, suspended, isLow bool,
) map[string]alerts.Finding {
	found := make(map[string]alerts.Finding)
	add := func(event, text, next string, data map[string]any, owner alerts.ForOwner) {
		f := alerts.Finding{Subject: a.ID, Name: a.Name, Text: text, Next: next, Data: data}
		if len(a.Mail) > 0 {
			f.Owner = &owner
		}
		found[event] = f
	}
	if a.State == ledger.Suspended && suspended {
		add(suspendedEvent, fmt.Sprintf("The account %s was suspended by itself: a content policy declined too many of "+
			"its requests.", a.Name), "`fareway gateway usage --account NAME` shows which. `fareway gateway account activate "+
			"NAME` takes it back.", nil, wordsOfSuspension(a))
	}
	if a.State == ledger.Inactive {
		return found
	}
	low := cfg.BalanceLow * ledger.MicrocentsPerCredit
	if isLow {
		low += low / 10
	}
	if cfg.BalanceLow > 0 && a.Balance.Net() < low {
		add("balance_low", fmt.Sprintf("The balance of the account %s is %s.", a.Name, human.Credits(a.Balance.Credits)),
			"`fareway gateway credit add --account NAME CREDITS` tops it up.", map[string]any{
				"balance_credits": a.Balance.Credits, "available_credits": a.Balance.Available(),
				"threshold_credits": cfg.BalanceLow}, wordsOfBalance(a))
	}
	var near, reached []string
	data := make(map[string]any)
	judge := func(name, what string, used, limit int64) {
		if limit <= 0 {
			return
		}
		data[name], data[name+"_used"] = limit, used
		switch text := fmt.Sprintf("%d %% of its %s", int64(float64(used)/float64(limit)*100), what); {
		case used >= limit:
			reached = append(reached, text)
		case cfg.CapNear > 0 && float64(used) >= float64(limit)*float64(cfg.CapNear)/100:
			near = append(near, text)
		}
	}
	judge("spend_cap_microcents", "spend cap", a.Period.Spent, terms.SpendCap)
	judge("token_budget", "token budget", a.Period.Tokens, terms.TokenBudget)
	if !a.Period.End.IsZero() {
		data["period_end"] = a.Period.End.UTC()
	}
	const next = "`fareway gateway account set-limit NAME LIMIT VALUE` changes it."
	if len(near) > 0 && len(reached) == 0 {
		used := strings.Join(near, " and ")
		add("cap_near", fmt.Sprintf("The account %s has used %s.", a.Name, used), next, data,
			wordsOfCap(a, "nears its limit", used))
	}
	if len(reached) > 0 {
		used := strings.Join(reached, " and ")
		add("cap_reached", fmt.Sprintf("The account %s has used %s: requests are refused until the period ends.", a.Name,
			used), next, data, wordsOfCap(a, "has reached its limit", used))
	}
	return found
}
