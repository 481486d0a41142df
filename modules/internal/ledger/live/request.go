package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// request is a request that runs.
type request struct {
	account *account // whose lock guards what follows
	line    *line
	book.Running
	unmade map[string]bool // attempts that were never made: their caller was told that they are not recorded
	ended  bool

	// The queue's lock guards these.
	queued  bool         // its rows are behind
	shown   book.Running // as the store is to see it
	kept    bool         // the store has had its hold
	refused error        // why the store has not taken up what it was shown last
	over    bool         // it has ended
}

// running is the request as the rules know it, nil for none.
func (r *request) running() *book.Running {
	if r == nil {
		return nil
	}
	return &r.Running
}

// Check implements ledger.Store.
func (l *Ledger) Check(ctx context.Context, account, key string, microcents, tokens int64) error {
	a, ln, err := l.lockLoaded(ctx, account, key)
	if err == nil {
		err = book.CheckPayer(l.payer(a, ln), microcents, tokens)
		a.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("checking an account: %w", err)
	}
	return nil
}

// Hold implements ledger.Store.
func (l *Ledger) Hold(ctx context.Context, h ledger.Hold) (ledger.Balance, error) {
	start := l.o.Now()
	b, batch, err := l.hold(ctx, &h)
	l.observe("hold", start, batch)
	if err != nil {
		return ledger.Balance{}, fmt.Errorf("holding credits for request %q: %w", h.Request, err)
	}
	return b, nil
}

func (l *Ledger) hold(ctx context.Context, h *ledger.Hold) (b ledger.Balance, batch int, err error) {
	if err := book.CheckHold(h, l.store.Loss().Undecided()); err != nil {
		return b, 0, err
	}
	if l.queue.failed.Load() { // of who is refused nothing is to be left
		if err := l.flush(ctx); err != nil {
			return b, 0, err
		}
	}
	settled, err := l.isSettled(ctx, h.Request)
	if err != nil {
		return b, 0, err
	}
	var first *book.Attempt
	if h.Attempt.ID != "" {
		p, err := l.price(ctx, h.Attempt.Route, h.Attempt.PriceVersion)
		if err != nil {
			return b, 0, err
		}
		next := book.BeginAttempt(h.Attempt, p.price, p.cost, l.now())
		first = &next
	}
	a, ln, err := l.lockLoaded(ctx, h.Account, h.Key)
	if err != nil {
		return b, 0, err
	}
	r, b, err := l.decideHold(a, ln, h, first, settled)
	a.mu.Unlock()
	if err != nil || h.WriteBehind && l.queue.isHealthy() {
		return b, 0, err
	}
	batch, err = l.queue.flush(ctx)
	switch {
	case r == nil:
	case err != nil:
		l.giveUp(r)
	default:
		if err = l.queue.refusal(r); err != nil {
			l.withdraw(r)
		}
	}
	return b, batch, err
}

// giveUp ends a request whose hold nobody waits for any more: its call is not made. The store is to release what it may
// have of it, which the next process does as well: so the log does not have to know.
func (l *Ledger) giveUp(r *request) {
	l.lockToEnd(r)
	defer r.account.mu.Unlock()
	if r.ended {
		return
	}
	if _, _, err := l.decideEnd(r, book.SettleUnanswered(&r.Running)); err != nil {
		l.o.Logger.Error("a hold that nobody waits for stays", "request_id", r.ID, "error", err)
	}
}

// withdraw has a request whose hold the store refuses never have been: its call is not made.
func (l *Ledger) withdraw(r *request) {
	l.lockToEnd(r)
	defer r.account.mu.Unlock()
	if r.ended {
		return
	}
	l.remove(r)
	l.queue.mu.Lock()
	r.over = true
	l.queue.mu.Unlock()
}

// lockToEnd locks the account of a request that is to end, as it is now. Where the store cannot be asked about it, the
// request ends on what memory has: what was decided holds, whatever the account has become meanwhile.
func (l *Ledger) lockToEnd(r *request) {
	a, err := (*account)(nil), ledger.ErrUnavailable
	if l.queue.isHealthy() && !l.handedOver.Load() {
		a, _, err = l.lockLoaded(context.Background(), r.Account, r.Key)
	}
	if err != nil {
		a, err = l.lock(context.Background(), r.Account)
	}
	if err == nil && a != r.account {
		a.mu.Unlock()
	}
	if err != nil || a != r.account {
		r.account.mu.Lock()
	}
}

// remove takes a request out of its account, which is locked, and of those that run.
func (l *Ledger) remove(r *request) {
	a := r.account
	a.Held -= r.Held
	a.running--
	r.addHeld(-r.Held)
	r.ended = true
	l.mu.Lock()
	delete(l.requests, r.ID)
	l.mu.Unlock()
}

// decideHold admits a request of a locked account. r is nil for one that runs already.
func (l *Ledger) decideHold(a *account, ln *line, h *ledger.Hold, first *book.Attempt, settled bool) (
	r *request, b ledger.Balance, err error,
) {
	l.mu.Lock()
	running := l.requests[h.Request]
	if !settled {
		settled, _ = l.settled.Find(h.Request)
	}
	l.mu.Unlock()
	if repeated, err := book.RepeatsHold(h, running.running(), settled); err != nil || repeated {
		return nil, a.Balance, err
	}
	c, err := book.DecideHold(h, l.payer(a, ln), first, l.owner, l.now())
	if err != nil {
		return nil, b, err
	}
	a.Balance = c.Balance
	r = &request{account: a, line: ln, Running: c.Running}
	r.addHeld(r.Held)
	a.running++
	l.mu.Lock()
	l.requests[r.ID] = r
	l.mu.Unlock()
	l.queue.queueHold(r)
	return r, a.Balance, nil
}

// addHeld adds to what a request's account and line hold for this process's requests. The account's balance has it
// already.
func (r *request) addHeld(microcents int64) {
	r.account.own += microcents
	r.line.ownHeld += microcents
}

// isSettled reports whether a request has ended, which the store is asked about a request whose id is no new one's.
func (l *Ledger) isSettled(ctx context.Context, id string) (bool, error) {
	l.mu.Lock()
	settled, sure := l.settled.Find(id)
	sure = sure || l.requests[id] != nil
	l.mu.Unlock()
	if sure {
		return settled, nil
	}
	if err := l.flush(ctx); err != nil {
		return false, err
	}
	return l.store.IsSettled(ctx, id)
}

// enterRunning locks the account of a running request; r is nil where it does not run (any more).
func (l *Ledger) enterRunning(ctx context.Context, id string) (r *request, err error) {
	if r = l.findRunning(id); r == nil {
		return nil, nil
	}
	a := r.account
	if l.handedOver.Load() {
		a.mu.Lock() // nobody changes it any more but what runs here
	} else if a, _, err = l.lockLoaded(ctx, r.Account, r.Key); err != nil {
		return nil, err
	}
	if r.account != a || r.ended {
		a.mu.Unlock()
		return nil, nil
	}
	return r, nil
}

// Begin implements ledger.Store.
func (l *Ledger) Begin(ctx context.Context, n ledger.Next) error {
	start := l.o.Now()
	batch, err := l.begin(ctx, &n)
	l.observe("begin", start, batch)
	if err != nil {
		return fmt.Errorf("beginning an attempt of request %q: %w", n.Request, err)
	}
	return nil
}

func (l *Ledger) begin(ctx context.Context, n *ledger.Next) (batch int, err error) {
	p, priceErr := l.price(ctx, n.Attempt.Route, n.Attempt.PriceVersion)
	r, err := l.enterRunning(ctx, n.Request)
	if err != nil {
		return 0, err
	}
	if r == nil {
		_, err = book.RepeatsAttempt(n, nil)
		return 0, err
	}
	err = l.decideAttempt(r, n, p, priceErr)
	r.account.mu.Unlock()
	if err != nil || n.WriteBehind && (l.queue.isHealthy() || l.handedOver.Load()) {
		return 0, err
	}
	if batch, err = l.queue.flush(ctx); err == nil {
		err = l.queue.refusal(r)
	}
	if err != nil {
		r.account.mu.Lock()
		if r.unmade == nil {
			r.unmade = map[string]bool{}
		}
		r.unmade[n.Attempt.ID] = true
		r.account.mu.Unlock()
	}
	return batch, err
}

// decideAttempt admits a further attempt of a request whose account is locked.
func (l *Ledger) decideAttempt(r *request, n *ledger.Next, p prices, priceErr error) error {
	a := r.account
	repeated, err := book.RepeatsAttempt(n, &r.Running)
	if repeated {
		delete(r.unmade, n.Attempt.ID)
	}
	if err != nil || repeated {
		return err
	}
	if priceErr != nil {
		return priceErr
	}
	next := book.BeginAttempt(n.Attempt, p.price, p.cost, l.now())
	c, err := book.DecideAttempt(n, l.payer(a, r.line), &r.Running, &next)
	if err == nil && l.handedOver.Load() && (c.Raised > 0 || !n.WriteBehind) {
		err = errOver // the next process has the account, and its database
	}
	if err != nil {
		return err
	}
	a.Balance, r.Running = c.Balance, c.Running
	r.addHeld(c.Raised)
	l.queue.queueHold(r)
	return nil
}

// Refer implements ledger.Store.
func (l *Ledger) Refer(attempt, reference string) {
	id, seq, _ := ledger.ParseAttemptID(attempt)
	r := l.findRunning(id)
	if r == nil {
		return
	}
	r.account.mu.Lock()
	defer r.account.mu.Unlock()
	if r.ended || book.FindReferred(&r.Running, attempt, reference) == nil {
		return
	}
	r.Attempts = slices.Clone(r.Attempts) // the store may be reading them
	r.Attempts[seq-1].Reference = reference
	l.queue.queueHold(r)
}

// Settle implements ledger.Store.
func (l *Ledger) Settle(ctx context.Context, st ledger.Settlement) (ledger.Charge, error) {
	start := l.o.Now()
	c, err := l.settle(ctx, &st)
	l.observe("settle", start, 1)
	if err != nil {
		return ledger.Charge{}, fmt.Errorf("settling request %q: %w", st.Request, err)
	}
	return c, nil
}

func (l *Ledger) settle(ctx context.Context, st *ledger.Settlement) (ledger.Charge, error) {
	var none ledger.Charge
	if err := book.CheckSettlement(st); err != nil {
		return none, err
	}
	r := l.findRunning(st.Request)
	if r == nil {
		return l.settleInStore(ctx, st)
	}
	l.lockToEnd(r) // it does not end with its caller
	if r.ended {
		r.account.mu.Unlock()
		return l.settleInStore(ctx, st)
	}
	e, charge, err := l.decideEnd(r, st)
	r.account.mu.Unlock()
	if err != nil {
		return none, err
	}
	number, err := l.log.Append(&e.course)
	if err == nil {
		l.queue.noteAppended(e, number)
		return charge, nil
	}
	_, late := l.queue.flush(context.WithoutCancel(ctx))
	if late == nil {
		return charge, nil
	}
	if !l.waive(e, st) {
		l.o.Logger.Error("a request may be charged whose client is told of a failure", "request_id", st.Request)
	}
	return none, errors.Join(fmt.Errorf("%w: %w", ledger.ErrUnavailable, err), late)
}

// waive makes an end free that neither the log nor the store has, for its client is told that the service failed; false
// where the store is being given it.
func (l *Ledger) waive(e *ended, st *ledger.Settlement) bool {
	a := e.request.account
	a.mu.Lock()
	defer a.mu.Unlock()
	now := e.course.Running
	now.Attempts = slices.Clone(now.Attempts)
	free := ledger.Settlement{Request: st.Request, Status: http.StatusInternalServerError, Reason: "ledger", Free: true}
	end, _, err := book.DecideEnd(&free, l.payer(a, e.request.line), &now, e.request.unmade, l.now())
	if err != nil || !l.queue.replace(e, book.Course{Running: now, End: &end}) {
		return false
	}
	a.unload()
	return true
}

// decideEnd ends a request whose account is locked.
func (l *Ledger) decideEnd(r *request, st *ledger.Settlement) (e *ended, c ledger.Charge, err error) {
	a, now := r.account, r.Running
	now.Attempts = slices.Clone(r.Attempts) // the store may be reading them
	p := l.payer(a, r.line)
	e = &ended{request: r}
	end := &e.end
	var left []book.LeftOut
	if *end, left, err = book.DecideEnd(st, p, &now, r.unmade, l.now()); err != nil {
		return nil, c, err
	}
	after, ln, err := p.Count(end.Part)
	if err != nil {
		return nil, c, err
	}
	for _, of := range left {
		l.o.Logger.Error(of.String(), "attempt", of.Attempt, "error", of.Err)
	}
	a.Account, r.line.Line = after, ln
	a.unwritten++
	a.decided++
	l.remove(r)
	l.mu.Lock()
	l.settled.Add(r.ID)
	l.mu.Unlock()
	e.course, e.after = book.Course{Running: now, End: end}, a.Balance
	l.queue.queueEnd(e)
	return e, ledger.Charge{Microcents: end.Charge, Waived: end.Waived, Over: end.Over, Pending: end.Pending,
		Balance: a.Balance}, nil
}

// settleInStore answers the settlement of a request that does not run here: it is settled, or somebody else's.
func (l *Ledger) settleInStore(ctx context.Context, st *ledger.Settlement) (c ledger.Charge, err error) {
	account, err := l.accountOf(ctx, st.Request)
	if err != nil {
		return c, err
	}
	err = l.exclude(ctx, account, func() error {
		c, err = l.store.Settle(ctx, *st)
		return err
	})
	if err == nil {
		l.mu.Lock()
		l.settled.Add(st.Request)
		l.mu.Unlock()
	}
	return c, err
}

// accountOf is the account of a request, an attempt or a key; "" where there is none.
func (l *Ledger) accountOf(ctx context.Context, id string) (string, error) {
	if err := l.flush(ctx); err != nil {
		return "", err
	}
	return l.store.AccountOf(ctx, id)
}
