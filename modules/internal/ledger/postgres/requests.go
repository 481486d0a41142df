package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Hold implements ledger.Store.
func (s *Store) Hold(ctx context.Context, h ledger.Hold) (_ ledger.Balance, err error) {
	op := &operation{account: h.Account, keys: []keyID{{h.Account, h.Key}}, request: []requestID{{h.Account, h.Request}},
		holds: h.Request}
	var b ledger.Balance
	op.run = func(u *unit) (err error) {
		b, err = u.hold(&h)
		return err
	}
	if p, known := s.heldBy(h.Request); known && p.account != h.Account {
		_, err = book.RepeatsHold(&h, &book.Running{Account: "another"}, false)
	}
	if err == nil {
		err = s.mayAdmit()
	}
	if err == nil {
		_, known := s.held.LoadOrStore(h.Request, &held{keyID: keyID{h.Account, h.Key}})
		op.fresh = !known
		err = s.perform(ctx, "hold", op)
		if state := op.state.Load(); op.fresh && (state == queued || state == cancelled) {
			s.held.Delete(h.Request) // it never runs
		}
	}
	if err != nil {
		return ledger.Balance{}, fmt.Errorf("holding credits for request %q: %w", h.Request, err)
	}
	return b, nil
}

func (u *unit) hold(h *ledger.Hold) (none ledger.Balance, err error) {
	if err := book.CheckHold(h, nil); err != nil {
		return none, err
	}
	a, err := u.look(h.Account)
	if err != nil {
		return none, err
	}
	r, on, err := u.request(h.Account, h.Request)
	if err != nil {
		return none, err
	}
	if repeated, err := book.RepeatsHold(h, r.request(), on != nil || u.ended(h.Request)); err != nil || repeated {
		u.repeats = u.repeats || repeated
		return a.Balance, err
	}
	if !u.live {
		return none, lapsed()
	}
	l, err := u.line(h.Account, h.Key)
	if err != nil {
		return none, err
	}
	var first *book.Attempt
	if h.Attempt.ID != "" {
		if first, err = u.beginAttempt(h.Attempt); err != nil {
			return none, err
		}
	}
	c, err := book.DecideHold(h, u.payer(a, l), first, u.s.o.BootID, u.now)
	if err != nil {
		return none, err
	}
	u.running[h.Request] = &running{Running: c.Running, line: l, dirty: true}
	a.Balance, a.dirty = c.Balance, true
	l.held, l.dirty = l.held+c.Running.Held, true
	return a.Balance, nil
}

// ended reports whether a request has settled in this unit.
func (u *unit) ended(request string) bool {
	r := u.running[request]
	return r != nil && r.end != nil
}

func (u *unit) beginAttempt(a ledger.Attempt) (*book.Attempt, error) {
	price, cost, err := u.s.price(u.ctx, a.Route, a.PriceVersion)
	if err != nil {
		return nil, err
	}
	begun := book.BeginAttempt(a, price, cost, u.now)
	return &begun, nil
}

// payerOf is the account of a request and its key: this process knows those that it holds, and others are looked for
// everywhere.
func (s *Store) payerOf(ctx context.Context, request string) (p keyID, err error) {
	if p, known := s.heldBy(request); known {
		return p, nil
	}
	err = queryRows(ctx, s.pool, to(&p.account, &p.key), `SELECT account, key FROM holds WHERE request = $1
		UNION ALL SELECT account, key FROM requests WHERE request = $1 LIMIT 1`, request)
	if err != nil {
		return p, unavailable(err)
	}
	if p.account == "" {
		return p, book.NoRequest()
	}
	return p, nil
}

// heldBy is who pays for a request that this process holds.
func (s *Store) heldBy(request string) (p keyID, known bool) {
	kept, known := s.held.Load(request)
	if known {
		h, _ := kept.(*held)
		p = h.keyID
	}
	return p, known
}

// about is an operation about a request.
func (p keyID) about(request string) *operation {
	return &operation{account: p.account, keys: []keyID{p}, request: []requestID{{p.account, request}}}
}

// Begin implements ledger.Store.
func (s *Store) Begin(ctx context.Context, n ledger.Next) error {
	p, err := s.payerOf(ctx, n.Request)
	if err == nil {
		err = s.mayAdmit()
	}
	if err == nil {
		op := p.about(n.Request)
		op.begins = n.Attempt.ID
		op.run = func(u *unit) error { return u.begin(p.account, &n) }
		err = s.perform(ctx, "begin", op)
	}
	return wrap(err, "beginning an attempt of request %q", n.Request)
}

func (u *unit) begin(account string, n *ledger.Next) error {
	r, _, err := u.request(account, n.Request)
	if err != nil {
		return err
	}
	if repeated, err := book.RepeatsAttempt(n, r.request()); err != nil || repeated {
		u.repeats = u.repeats || repeated
		return err
	}
	if !u.live {
		return lapsed()
	}
	a, err := u.look(account)
	if err != nil {
		return err
	}
	next, err := u.beginAttempt(n.Attempt)
	if err != nil {
		return err
	}
	c, err := book.DecideAttempt(n, u.payer(a, r.line), &r.Running, next)
	if err != nil {
		return err
	}
	a.Balance, a.dirty = c.Balance, true
	r.Running, r.dirty = c.Running, true
	r.line.held, r.line.dirty = r.line.held+c.Raised, true
	return nil
}

// Refer implements ledger.Store.
func (s *Store) Refer(attempt, reference string) {
	request, _, _ := ledger.ParseAttemptID(attempt)
	p, known := s.heldBy(request)
	if !known {
		return
	}
	reference = clean(reference)
	op := p.about(request)
	op.run = func(u *unit) error {
		r, _, err := u.request(p.account, request)
		if a := book.FindReferred(r.request(), attempt, reference); a != nil {
			a.Reference, r.dirty = reference, true
		}
		return err
	}
	s.post(op)
}

// clean leaves out of what upstreams say what PostgreSQL cannot store.
func clean(text string) string { return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "") }

// cleanResults cleans the texts of a settlement.
func cleanResults(st *ledger.Settlement) {
	st.Results = slices.Clone(st.Results)
	for i := range st.Results {
		r := &st.Results[i]
		r.Reference, r.Key = clean(r.Reference), clean(r.Key)
	}
	st.Reason = clean(st.Reason)
}

// Settle implements ledger.Store.
func (s *Store) Settle(ctx context.Context, st ledger.Settlement) (_ ledger.Charge, err error) {
	var c ledger.Charge
	cleanResults(&st)
	if err = book.CheckSettlement(&st); err == nil {
		var p keyID
		if p, err = s.payerOf(ctx, st.Request); err == nil {
			op := p.about(st.Request)
			op.recalls = true
			op.run = func(u *unit) (err error) {
				c, err = u.settleRequest(p.account, &st)
				return err
			}
			err = s.perform(ctx, "settle", op)
		}
	}
	if err != nil {
		return ledger.Charge{}, fmt.Errorf("settling request %q: %w", st.Request, err)
	}
	s.held.Delete(st.Request)
	return c, nil
}

func (u *unit) settleRequest(account string, st *ledger.Settlement) (ledger.Charge, error) {
	r, on, err := u.request(account, st.Request)
	if err != nil {
		return ledger.Charge{}, err
	}
	if r != nil {
		c, err := u.settle(r, st)
		if err != nil && r.recalled { // as the rows say it, perhaps, which another node has changed
			return c, &queryError{errStale}
		}
		return c, err
	}
	a, err := u.look(account)
	if err != nil {
		return ledger.Charge{}, err
	}
	switch ended := u.running[st.Request]; {
	case ended != nil: // in this unit
		c := ended.settled.Answer()
		c.Balance = a.Balance
		return c, nil
	case on == nil:
		return ledger.Charge{}, book.NoRequest()
	}
	u.repeats = true
	if book.IsCrashed(on.reason) {
		if err := u.settleLate(on, st); err != nil {
			return ledger.Charge{}, err
		}
	}
	return on.Answer(a.Balance), nil
}

// settleLate applies a settlement that comes late, to a request whose node was taken for dead.
func (u *unit) settleLate(on *settled, st *ledger.Settlement) error {
	a, p, err := u.payerOf(on)
	for i := range st.Results {
		if err != nil {
			return err
		}
		late, seq, failed := book.DecideLate(p, &on.Request, on.attempts, st, &st.Results[i], u.now)
		switch {
		case errors.Is(failed, ledger.ErrUsage):
			u.s.o.Logger.WarnContext(u.ctx, book.LeftOut{}.String(), "request", on.ID, "attempt", st.Results[i].Attempt,
				"error", failed)
		case failed != nil:
			return failed
		case seq > 0:
			u.prove(a, on, &late, seq)
			p = u.payer(a, on.line)
		case st.Results[i].Reference != "": // it waits, and this is what its upstream is asked by
			_, seq, _ := ledger.ParseAttemptID(st.Results[i].Attempt)
			u.write(`UPDATE waiting SET reference = $4 WHERE account = $1 AND request = $2 AND seq = $3`, on.Account, on.ID,
				seq,
				st.Results[i].Reference)
		}
	}
	return err
}

func (u *unit) settle(r *running, st *ledger.Settlement) (ledger.Charge, error) {
	a, err := u.look(r.Account)
	if err != nil {
		return ledger.Charge{}, err
	}
	unmade := map[string]bool{}
	for i := range r.Attempts {
		if _, is := u.s.unmade.Load(r.Attempts[i].ID); is {
			unmade[r.Attempts[i].ID] = true
		}
	}
	c, err := book.DecideSettlement(st, u.payer(a, r.line), &r.Running, unmade, u.now)
	if err != nil {
		return ledger.Charge{}, err
	}
	for _, left := range c.LeftOut {
		u.s.o.Logger.WarnContext(u.ctx, left.String(), "request", r.ID, "attempt", left.Attempt, "error", left.Err)
	}
	r.end, r.settled, r.dirty = st, c, true
	u.recorded = append(u.recorded, r)
	r.line.held -= r.Held
	u.charge(a, r.line, &c.Charged)
	return c.Answer(), nil
}

func (u *unit) charge(a *account, l *line, c *book.Charged) {
	a.Account, a.dirty = c.Account, true
	l.Line, l.dirty = c.Line, true
	u.entries = append(u.entries, c.Entry)
}

// Recover implements ledger.Store: it ends what nodes left whose lease has lapsed (see endLapsed), or was given back.
func (s *Store) Recover(ctx context.Context, living ...string) (requests int64, err error) {
	var left []requestID
	if err = s.endLapsed(ctx); err == nil {
		err = queryRows(ctx, s.pool, func(row pgx.Rows) error {
			var r requestID
			var at int64
			err := row.Scan(&r.account, &r.request, &at)
			left = append(left, r)
			return err
		}, `SELECT DISTINCT h.account, h.request, h.held_at FROM holds AS h JOIN nodes AS n ON n.node = h.owner
			WHERE n.ended IS NOT NULL AND n.node <> ALL($1) ORDER BY h.held_at, h.request`, append(living, s.o.BootID))
	}
	errs := []error{unavailable(err)}
	for _, id := range left {
		released := int64(0)
		// Behind it in one transaction, a settlement that comes late would find the request neither running nor on record.
		op := &operation{account: id.account, request: []requestID{id}, alone: true}
		op.run = func(u *unit) error {
			released = 0
			r, _, err := u.request(id.account, id.request)
			if err != nil || r == nil {
				return err
			}
			// Behind the account's lock: the node may have a new lease by now.
			gone, err := u.exists(`SELECT 1 FROM nodes WHERE node = $1 AND ended IS NOT NULL`, r.Owner)
			if err != nil || !gone {
				return err
			}
			released = 1
			_, err = u.settle(r, book.SettleCrashed(&r.Running))
			return err
		}
		err := s.perform(ctx, "recover", op) // one account that is locked hinders no other
		errs = append(errs, err)
		if err == nil {
			requests += released
		}
	}
	if err == nil {
		errs = append(errs, unavailable(s.removeNodes(ctx)))
	}
	return requests, wrap(errors.Join(errs...), "releasing the holds of nodes that are gone")
}
