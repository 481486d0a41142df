package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

func isNotFound(err error) bool { return errors.Is(err, ledger.ErrNotFound) }

// decision decides about an account.
type decision func(u *unit, a *account, by book.By) (book.Change, error)

// change has an operator's decision about an account written. on is a request that it is about, "" for none.
func (s *Store) change(ctx context.Context, name, id, on string, decide decision) (
	_ ledger.Account, _ book.Change, err error,
) {
	var v ledger.Account
	var c book.Change
	op := &operation{account: id, alone: true}
	if on != "" {
		op.request = []requestID{{id, on}}
	}
	op.run = func(u *unit) error {
		a, err := u.look(id)
		if err != nil {
			return err
		}
		if c, err = decide(u, a, u.by(ctx)); err != nil {
			return err
		}
		u.repeats = len(c.Acts) == 0
		if !u.repeats {
			if err := u.apply(a, &c); err != nil {
				return err
			}
		}
		if a, err = u.look(id); err != nil { // a plan may have brought periods
			return err
		}
		v = a.Show()
		return nil
	}
	if err = s.perform(ctx, name, op); err != nil {
		return ledger.Account{}, book.Change{}, err
	}
	return v, c, nil
}

// apply writes what was decided of an account.
func (u *unit) apply(a *account, c *book.Change) error {
	was := a.Name
	a.Account, a.dirty = c.Account, true
	u.acts = append(u.acts, c.Acts...)
	u.writeSettings(a)
	if was != a.Name {
		u.write(`DELETE FROM names WHERE name = $1`, was)
		u.write(`INSERT INTO names (name, account) VALUES ($1, $2)`, a.Name, a.ID)
	}
	if c.Entry.Seq > 0 {
		u.entries = append(u.entries, c.Entry)
	}
	root, cap := c.Fresh.ID, c.Fresh.SpendCap
	if k := &c.Key; k.ID != "" {
		l, err := u.line(a.ID, k.ID)
		if err != nil {
			return err
		}
		l.Cap, l.dirty = k.SpendCap, true
		root = l.id.root
		u.write(`UPDATE keys SET name = $3, revoked = $4, expires = $5 WHERE account = $1 AND key = $2`, a.ID, k.ID, k.Name,
			k.Revoked, optionalTime(k.Expires))
	}
	if k := &c.Fresh; k.ID != "" {
		u.write(`INSERT INTO keys (account, key, name, hash, last4, revoked, created, expires, root)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, a.ID, k.ID, k.Name, k.Hash[:], k.Last4, k.Revoked,
			k.Created.UnixNano(), optionalTime(k.Expires), root)
		u.write(`INSERT INTO hashes (hash, account, key) VALUES ($1, $2, $3)`, k.Hash[:], a.ID, k.ID)
		if root == k.ID {
			u.write(`INSERT INTO lines (account, root, spend_cap, spent, spent_before, held) VALUES ($1, $2, $3, 0, 0, 0)`,
				a.ID, root, cap)
		}
	}
	if c.Entry.Kind == ledger.Refund {
		u.write(`UPDATE requests SET refunded = $3 WHERE account = $1 AND request = $2`, a.ID, c.Entry.Request, c.Refunded)
	}
	return nil
}

// writeSettings writes what an operator has set for an account.
func (u *unit) writeSettings(a *account) {
	q := book.RequiredTexts(a.Requires)
	args := []any{a.ID, a.Name, a.Plan, string(a.State)}
	for _, limit := range a.Limits {
		args = append(args, limit)
	}
	u.write(`UPDATE accounts SET name = $2, plan = $3, state = $4, spend_cap = $5, token_budget = $6, fair_use = $7,
		concurrent_requests = $8, key_requests = $9, account_requests = $10, address_requests = $11,
		own_spend_cap_microcents = $12, profile = $13, requires_region = $14, requires_retention = $15, mail = $16
		WHERE account = $1`,
		append(args, a.Profile, q.Regions, q.Retention, book.MailText(a.Mail))...)
}

// CreateAccount implements ledger.Store.
func (s *Store) CreateAccount(ctx context.Context, name, plan string) (ledger.Account, error) {
	var v ledger.Account
	op := &operation{account: newID(book.AccountPrefix), alone: true}
	op.run = func(u *unit) error {
		taken, err := u.exists(`SELECT 1 FROM names WHERE name = $1`, name)
		if err != nil {
			return err
		}
		c, err := book.CreateAccount(op.account, name, plan, taken, u.by(ctx))
		if err != nil {
			return err
		}
		u.accounts[op.account] = &account{Account: c.Account, dirty: true}
		u.acts = append(u.acts, c.Acts...)
		if err := u.insertAccount(&c.Account); err != nil {
			return err
		}
		a, err := u.look(op.account)
		if err != nil {
			return err
		}
		v = a.Show()
		return nil
	}
	if err := s.perform(ctx, "create_account", op); err != nil {
		return ledger.Account{}, wrap(err, "creating account %q", name)
	}
	return v, nil
}

// insertAccount makes the rows of an account at once, which are written as all others are.
func (u *unit) insertAccount(a *book.Account) error {
	var b pgx.Batch
	var none ledger.Digest
	b.Queue(`INSERT INTO names (name, account) VALUES ($1, $2)`, a.Name, a.ID)
	b.Queue(`INSERT INTO accounts (account, name, plan, state, created, profile, requires_region, requires_retention)
		VALUES ($1, $2, $3, $4, $5, '', '', '')`, a.ID, a.Name, a.Plan, string(a.State), a.Created.UnixNano())
	b.Queue(`INSERT INTO balances (account, credits, accrued, held, head, entries, requests, spent, tokens, waived,
		spent_before, tokens_before, waived_before, acts, trail) VALUES ($1, 0, 0, 0, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0, $2)`,
		a.ID, digest(none))
	if err := u.conn.SendBatch(u.ctx, &b).Close(); err != nil {
		return &queryError{err}
	}
	return nil
}

// RenameAccount implements ledger.Store.
func (s *Store) RenameAccount(ctx context.Context, id, name string) (ledger.Account, error) {
	v, _, err := s.change(ctx, "rename_account", id, "", func(u *unit, a *account, by book.By) (book.Change, error) {
		taken, err := u.exists(`SELECT 1 FROM names WHERE name = $1`, name)
		if err != nil {
			return book.Change{}, err
		}
		return book.RenameAccount(a.Account, name, taken, by)
	})
	return v, wrap(err, "renaming account %q", id)
}

// SetPlan implements ledger.Store.
func (s *Store) SetPlan(ctx context.Context, id, plan string) (ledger.Account, error) {
	v, _, err := s.change(ctx, "set_plan", id, "", func(_ *unit, a *account, by book.By) (book.Change, error) {
		return book.SetPlan(a.Account, plan, by)
	})
	return v, wrap(err, "setting the plan of account %q", id)
}

// SetLimit implements ledger.Store.
func (s *Store) SetLimit(ctx context.Context, id string, limit ledger.Limit, value *int64) (ledger.Account, error) {
	v, _, err := s.change(ctx, "set_limit", id, "", func(_ *unit, a *account, by book.By) (book.Change, error) {
		return book.SetLimit(a.Account, limit, value, by)
	})
	return v, wrap(err, "setting a limit of account %q", id)
}

// SetProfile implements ledger.Store.
func (s *Store) SetProfile(ctx context.Context, id, profile string) (ledger.Account, error) {
	v, _, err := s.change(ctx, "set_profile", id, "", func(_ *unit, a *account, by book.By) (book.Change, error) {
		return book.SetProfile(a.Account, profile, by)
	})
	return v, wrap(err, "setting the profile of account %q", id)
}

// SetRequires implements ledger.Store.
func (s *Store) SetRequires(ctx context.Context, id string, change ledger.RequiresChange) (ledger.Account, error) {
	v, _, err := s.change(ctx, "set_requires", id, "", func(_ *unit, a *account, by book.By) (book.Change, error) {
		return book.SetRequires(a.Account, change, by)
	})
	return v, wrap(err, "setting what account %q requires", id)
}

// SetMail implements ledger.Store.
func (s *Store) SetMail(ctx context.Context, id string, addresses []string) (ledger.Account, error) {
	v, _, err := s.change(ctx, "set_mail", id, "", func(_ *unit, a *account, by book.By) (book.Change, error) {
		return book.SetMail(a.Account, addresses, by)
	})
	return v, wrap(err, "setting the mail addresses of account %q", id)
}

// SetState implements ledger.Store.
func (s *Store) SetState(ctx context.Context, id string, state ledger.State) (ledger.Account, error) {
	v, _, err := s.change(ctx, "set_state", id, "", func(_ *unit, a *account, by book.By) (book.Change, error) {
		return book.SetState(a.Account, state, by)
	})
	return v, wrap(err, "setting the state of account %q", id)
}

// seen finds the account's entry of a reference, none of allotments.
func (u *unit) seen(a *account, reference string) (*book.Seen, error) {
	if reference == "" {
		return nil, nil
	}
	var seen *book.Seen
	err := u.query(func(row pgx.Rows) error {
		e, err := scanEntry(row)
		seen = &book.Seen{Entry: e.Entry}
		return err
	}, selectEntries+`WHERE e.account = $1 AND e.reference = $2 AND e.kind <> 'allotment'`, a.ID, reference)
	if err != nil || seen == nil || seen.Kind != ledger.Refund {
		return seen, err
	}
	if err := u.query(to(&seen.Charge), `SELECT charge FROM requests WHERE account = $1 AND request = $2`, a.ID,
		seen.Request); err != nil {
		return nil, err
	}
	seen.Later, err = u.later(a.ID, seen.Request)
	return seen, err
}

func (u *unit) later(account, request string) (all []ledger.Entry, err error) {
	err = u.query(func(row pgx.Rows) error {
		e, err := scanEntry(row)
		all = append(all, e.Entry)
		return err
	}, laterEntries, account, request)
	return all, err
}

// AddCredit implements ledger.Store.
func (s *Store) AddCredit(ctx context.Context, c ledger.Credit) (b ledger.Balance, applied bool, err error) {
	var v ledger.Account
	var change book.Change
	if err = book.CheckCredit(&c); err == nil {
		v, change, err = s.change(ctx, "add_credit", c.Account, "",
			func(u *unit, a *account, by book.By) (book.Change, error) {
				seen, err := u.seen(a, c.Reference)
				if err != nil {
					return book.Change{}, err
				}
				return book.DecideTopUp(&c, a.Account, seen, nil, by)
			})
	}
	return v.Balance, len(change.Acts) > 0, wrap(err, "adding credits to account %q", c.Account)
}

// Correct implements ledger.Store.
func (s *Store) Correct(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error) {
	if err = book.CheckCorrection(&c); err == nil {
		b, applied, err = s.correct(ctx, &c)
	}
	return b, applied, wrap(err, "correcting the balance of account %q", c.Account)
}

func (s *Store) correct(ctx context.Context, c *ledger.Correction) (b ledger.Balance, applied bool, err error) {
	id := c.Account
	if c.Request != "" {
		of, err := s.payerOf(ctx, c.Request)
		if isNotFound(err) {
			return s.refundPruned(ctx, c)
		}
		if err != nil {
			return b, false, err
		}
		id = of.account
	}
	v, change, err := s.change(ctx, "correct", id, c.Request,
		func(u *unit, a *account, by book.By) (book.Change, error) {
			seen, err := u.seen(a, c.Reference)
			if err != nil {
				return book.Change{}, err
			}
			if c.Request == "" {
				return book.DecideAdjustment(c, a.Account, seen, nil, by)
			}
			r, on, err := u.request(a.ID, c.Request)
			if err != nil {
				return book.Change{}, err
			}
			var is *book.Request
			if on != nil {
				is = &on.Request
			}
			if err := book.CheckRefund(c, is, r != nil); err != nil {
				return book.Change{}, err
			}
			return book.DecideRefund(c, a.Account, is, seen, nil, by)
		})
	if c.Request != "" && isNotFound(err) { // it was here, and another node has removed it
		return s.refundPruned(ctx, c)
	}
	return v.Balance, len(change.Acts) > 0, err
}

// refundPruned is a refund of a request that is not on record (any more): only one that was made before can be
// repeated.
func (s *Store) refundPruned(ctx context.Context, c *ledger.Correction) (b ledger.Balance, applied bool, err error) {
	p, err := s.Pruned(ctx, c.Request)
	switch {
	case isNotFound(err), err == nil && c.Account != "" && c.Account != p.Account:
		return b, false, book.CheckRefund(c, nil, false)
	case err != nil:
		return b, false, err
	case !p.Has(*c):
		return b, false, &ledger.PrunedError{PrunedRequest: p}
	}
	a, err := s.Account(ctx, p.Account)
	return a.Balance, false, err
}

// RecordAct implements ledger.Store.
func (s *Store) RecordAct(ctx context.Context, action, id, subject string, after map[string]any) error {
	op := &operation{account: id, alone: true}
	op.run = func(u *unit) error {
		if a := u.accounts[id]; a != nil {
			act, err := book.RecordAct(a.Trail, a.ID, action, subject, nil, after, u.by(ctx))
			if err == nil {
				u.acts, a.Trail, a.dirty = append(u.acts, act), act.Trail(), true
			}
			return err
		}
		return u.recordAct(func(t book.Trail) (book.Act, error) {
			return book.RecordAct(t, "", action, subject, nil, after, u.by(ctx))
		})
	}
	return wrap(s.perform(ctx, "record_act", op), "writing the audit trail")
}

// recordAct records an act about no account.
func (u *unit) recordAct(decide func(book.Trail) (book.Act, error)) error {
	var t book.Trail
	var head []byte
	if err := u.query(to(&t.Acts, &head), `SELECT acts, trail FROM ledger FOR UPDATE`); err != nil {
		return err
	}
	t.Head = digestOf(head)
	act, err := decide(t)
	if err != nil || act.Seq == 0 {
		return err
	}
	u.acts = append(u.acts, act)
	u.write(`UPDATE ledger SET acts = $1, trail = $2`, act.Seq, digest(act.Hash))
	return nil
}

// EndPeriods implements ledger.Store.
func (s *Store) EndPeriods(ctx context.Context) (ended int64, err error) {
	s.addMonths(ctx)
	var clock int64
	if err = s.pool.QueryRow(ctx, selectClock).Scan(&clock); err != nil {
		return 0, wrap(unavailable(err), "ending periods")
	}
	var due []string
	now := s.nowAt(clock)
	err = queryRows(ctx, s.pool, func(row pgx.Rows) error {
		a, err := scanAccount(row)
		if err == nil && a.Overdue(a.Limits.Over(s.o.Terms(a.Plan)), now) {
			due = append(due, a.ID)
		}
		return err
	}, selectAccount)
	for _, id := range due {
		if err != nil {
			break
		}
		op := &operation{account: id}
		op.run = func(u *unit) error {
			_, err := u.look(id)
			return err
		}
		if err = s.perform(ctx, "end_periods", op); err == nil {
			ended++
		}
	}
	return ended, wrap(err, "ending periods")
}

// readPrices reads versions of prices.
func (s *Store) readPrices(ctx context.Context, each func(route string, p book.Price) error, where string,
	args ...any) error {
	return readPrices(ctx, s.pool, each, where, args...)
}

func readPrices(ctx context.Context, conn querier, each func(route string, p book.Price) error, where string,
	args ...any) error {
	return queryRows(ctx, conn, func(row pgx.Rows) error {
		var p book.Price
		var route, tiers, costTiers string
		err := row.Scan(&route, &p.Version, &p.Price.Input, &p.Price.CacheRead, &p.Price.CacheWrite, &p.Price.Output, &tiers,
			&p.Cost.Input, &p.Cost.CacheRead, &p.Cost.CacheWrite, &p.Cost.Output, &costTiers)
		if err == nil {
			err = cmp.Or(book.ParseTiers(tiers, &p.Price), book.ParseTiers(costTiers, &p.Cost))
		}
		if err != nil {
			return err
		}
		return each(route, p)
	}, `SELECT route, version, input, cache_read, cache_write, output, tiers, cost_input, cost_cache_read,
		cost_cache_write,
		cost_output, cost_tiers FROM prices `+where, args...)
}

// PriceVersion implements ledger.Store.
func (s *Store) PriceVersion(ctx context.Context, route string, price, cost config.Price) (int64, error) {
	var version int64
	op := &operation{alone: true}
	op.run = func(u *unit) error {
		var known []book.Price
		err := readPrices(u.ctx, u.conn, func(_ string, p book.Price) error {
			known = append(known, p)
			return nil
		}, `WHERE route = $1 ORDER BY version`, route)
		if err != nil {
			return &queryError{err}
		}
		version, err = book.DecidePrice(known, price, cost)
		if err != nil || version <= int64(len(known)) {
			return err
		}
		u.write(`INSERT INTO prices VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`, route, version,
			price.Input, price.CacheRead, price.CacheWrite, price.Output, book.TiersText(price.Tiers), cost.Input,
			cost.CacheRead,
			cost.CacheWrite, cost.Output, book.TiersText(cost.Tiers), u.now.UnixNano())
		return nil
	}
	if err := s.perform(ctx, "price_version", op); err != nil {
		return 0, wrap(err, "recording the price of route %q", route)
	}
	return version, nil
}

// Learn implements ledger.Store.
func (s *Store) Learn(ctx context.Context, fold func(kept []ledger.Learned) []ledger.Learned) error {
	op, name := &operation{alone: true}, newID("")
	op.run = func(u *unit) error {
		if _, err := u.exists(`SELECT 1 FROM ledger FOR UPDATE`); err != nil {
			return err
		}
		// A commit of which nobody knew whether it was has left this name: what fold does is not done twice.
		done, err := u.exists(`SELECT 1 FROM nodes WHERE node = $1 AND learned = $2`, u.s.o.BootID, name)
		if err != nil || done {
			u.repeats = done
			return err
		}
		var kept []ledger.Learned
		err = u.query(func(row pgx.Rows) error {
			var l ledger.Learned
			var at int64
			err := row.Scan(&l.Route, &l.Model, &l.Kind, &l.Worked, &l.Failed, &l.Good, &l.Bad, &at)
			l.At = moment(at)
			kept = append(kept, l)
			return err
		}, `SELECT route, model, kind, worked, failed, good, bad, at FROM learned ORDER BY route, model, kind`)
		if err != nil {
			return err
		}
		u.write(`UPDATE nodes SET learned = $2 WHERE node = $1`, u.s.o.BootID, name)
		u.write(`DELETE FROM learned`)
		for _, l := range fold(kept) {
			u.write(`INSERT INTO learned VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, l.Route, l.Model, l.Kind, l.Worked, l.Failed,
				l.Good, l.Bad, l.At.UnixNano())
		}
		return nil
	}
	return wrap(s.perform(ctx, "learn", op), "keeping what was learned")
}

// Shrink implements ledger.Store: PostgreSQL's autovacuum does it.
func (s *Store) Shrink(context.Context) (ledger.Shrunk, error) { return ledger.Shrunk{}, nil }

// Loss implements ledger.Store. What an older copy of the database lacks is found by the checkpoints that were kept
// elsewhere: several nodes have no file in common that could be a witness.
func (s *Store) Loss() *ledger.Loss { return nil }

// AcceptLoss implements ledger.Store.
func (s *Store) AcceptLoss(ctx context.Context, reason string) (ledger.Loss, error) {
	_, err := book.AcceptLoss(book.Trail{}, nil, reason, book.By{Actor: ledger.ActorOf(ctx), Now: time.Now()})
	return ledger.Loss{}, fmt.Errorf("accepting a loss: %w", err)
}
