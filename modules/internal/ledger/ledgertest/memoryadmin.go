package ledgertest

import (
	"context"
	"errors"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// What operators do to the store in memory.

// CreateAccount implements ledger.Store.
func (m *memory) CreateAccount(ctx context.Context, name, plan string) (ledger.Account, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Account{}, err
	}
	id := m.newID(book.AccountPrefix)
	c, err := book.CreateAccount(id, name, plan, m.nameTaken(name), m.by(ctx))
	if err != nil {
		return ledger.Account{}, err
	}
	m.accounts[id] = &accountRow{Account: c.Account, made: m.made}
	a, err := m.look(id)
	if err != nil {
		return ledger.Account{}, err
	}
	m.act(a, c.Act)
	return a.Show(), nil
}

func (m *memory) nameTaken(name string) bool {
	for _, a := range m.accounts {
		if a.Name == name {
			return true
		}
	}
	return false
}

// change changes an account as is decided.
func (m *memory) change(ctx context.Context, id string, decide func(book.Account, book.By) (book.Changed, error)) (
	ledger.Account, error,
) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Account{}, err
	}
	a, err := m.look(id)
	if err != nil {
		return ledger.Account{}, err
	}
	c, err := decide(a.Account, m.by(ctx))
	if err != nil {
		return ledger.Account{}, err
	}
	a.Account = c.Account
	m.act(a, c.Act)
	a, err = m.look(id)
	return a.Show(), err
}

// RenameAccount implements ledger.Store.
func (m *memory) RenameAccount(ctx context.Context, id, name string) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Changed, error) {
		return book.RenameAccount(a, name, m.nameTaken(name), by)
	})
}

// SetPlan implements ledger.Store.
func (m *memory) SetPlan(ctx context.Context, id, plan string) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Changed, error) { return book.SetPlan(a, plan, by) })
}

// SetLimit implements ledger.Store.
func (m *memory) SetLimit(ctx context.Context, id string, limit ledger.Limit, value *int64) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Changed, error) {
		return book.SetLimit(a, limit, value, by)
	})
}

// SetProfile implements ledger.Store.
func (m *memory) SetProfile(ctx context.Context, id, profile string) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Changed, error) {
		return book.SetProfile(a, profile, by)
	})
}

// SetRequires implements ledger.Store.
func (m *memory) SetRequires(ctx context.Context, id string, change ledger.RequiresChange) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Changed, error) {
		return book.SetRequires(a, change, by)
	})
}

// SetState implements ledger.Store.
func (m *memory) SetState(ctx context.Context, id string, state ledger.State) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Changed, error) { return book.SetState(a, state, by) })
}

func (m *memory) keyTaken(account, name string, hash [32]byte) (taken book.Taken) {
	for _, k := range m.keys {
		taken.Name = taken.Name || k.Account == account && k.Name == name
		taken.Hash = taken.Hash || k.hash == hash
	}
	return taken
}

// show is a key as others see it.
func (m *memory) show(k *keyRow) ledger.Key {
	key := k.Key
	key.AccountName, key.SpendCap, key.Spent = m.accounts[k.Account].Name, k.line.Cap, k.line.Spent-k.line.Before
	return key
}

// CreateKey implements ledger.Store.
func (m *memory) CreateKey(ctx context.Context, account, name string, hash [32]byte, last4 string,
	change ledger.KeyChange) (ledger.Key, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Key{}, err
	}
	a, err := m.look(account)
	if err != nil {
		return ledger.Key{}, err
	}
	k := book.ApplyChange(ledger.Key{ID: m.newID("key_"), Account: account, Last4: last4}, change)
	k.Name = name
	c, err := book.CreateKey(a.Account, k, hash, m.keyTaken(account, name, hash), m.by(ctx))
	if err != nil {
		return ledger.Key{}, err
	}
	m.addKey(c.Key, hash, &lineRow{Line: book.Line{Cap: k.SpendCap}, account: account})
	m.act(a, c.Act)
	return c.Key, nil
}

func (m *memory) addKey(k ledger.Key, hash [32]byte, line *lineRow) {
	m.made++
	m.keys[k.ID] = &keyRow{Key: k, hash: hash, made: m.made, line: line}
}

// changeKey changes a key as is decided, and returns it as it is then.
func (m *memory) changeKey(ctx context.Context, id string,
	decide func(*accountRow, ledger.Key, book.By) (ledger.Key, []book.Act, error)) (ledger.Key, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Key{}, err
	}
	k := m.keys[id]
	if k == nil {
		return ledger.Key{}, ledger.ErrNotFound
	}
	a, err := m.look(k.Account)
	if err != nil {
		return ledger.Key{}, err
	}
	changed, acts, err := decide(a, m.show(k), m.by(ctx))
	if err != nil {
		return ledger.Key{}, err
	}
	k.Key, k.line.Cap = changed, changed.SpendCap
	m.act(a, acts...)
	return changed, nil
}

// ChangeKey implements ledger.Store.
func (m *memory) ChangeKey(ctx context.Context, id string, change ledger.KeyChange) (ledger.Key, error) {
	return m.changeKey(ctx, id, func(a *accountRow, k ledger.Key, by book.By) (ledger.Key, []book.Act, error) {
		taken := m.keyTaken(a.ID, book.ApplyChange(k, change).Name, [32]byte{}).Name
		c, err := book.ChangeKey(a.Account, k, change, taken, by)
		return c.Key, []book.Act{c.Act}, err
	})
}

// RevokeKey implements ledger.Store.
func (m *memory) RevokeKey(ctx context.Context, id string) (ledger.Key, error) {
	return m.changeKey(ctx, id, func(a *accountRow, k ledger.Key, by book.By) (ledger.Key, []book.Act, error) {
		c, err := book.RevokeKey(a.Account, k, by)
		return c.Key, []book.Act{c.Act}, err
	})
}

// RotateKey implements ledger.Store.
func (m *memory) RotateKey(
	ctx context.Context, id string, hash [32]byte, last4 string, overlap time.Duration,
) (fresh, old ledger.Key, err error) {
	old, err = m.changeKey(ctx, id, func(a *accountRow, k ledger.Key, by book.By) (ledger.Key, []book.Act, error) {
		retired, _ := book.RetiredName(k.Name, func(name string) (bool, error) {
			return m.keyTaken(a.ID, name, hash).Name, nil
		})
		taken := book.Taken{Hash: m.keyTaken(a.ID, "", hash).Hash}
		c, err := book.RotateKey(a.Account, k, m.newID("key_"), hash, last4, overlap, retired, taken, by)
		if err != nil {
			return k, nil, err
		}
		fresh = c.Fresh
		m.addKey(fresh, hash, m.keys[id].line)
		return c.Old, c.Acts[:], nil
	})
	return fresh, old, err
}

// Lookup implements ledger.Store.
func (m *memory) Lookup(_ context.Context, hash [32]byte) (ledger.Principal, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Principal{}, err
	}
	for _, k := range m.keys {
		if k.hash == hash {
			a, key := m.accounts[k.Account].Show(), m.show(k)
			a.Balance, a.Period, key.Spent, key.AccountName = ledger.Balance{}, ledger.Period{}, 0, ""
			return ledger.Principal{Account: a, Key: key}, nil
		}
	}
	return ledger.Principal{}, ledger.ErrNotFound
}

// move makes a movement as is decided.
func (m *memory) move(id string, decide func(a *accountRow) (book.Moved, bool, error)) (ledger.Balance, bool, error) {
	a, err := m.look(id)
	if err != nil {
		return ledger.Balance{}, false, err
	}
	c, made, err := decide(a)
	if err != nil {
		return ledger.Balance{}, false, err
	}
	if made {
		a.Account = c.Account
		m.post(a, c.Entry)
		m.act(a, c.Act)
	}
	return a.Balance, made, nil
}

// AddCredit implements ledger.Store.
func (m *memory) AddCredit(ctx context.Context, c ledger.Credit) (b ledger.Balance, applied bool, err error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return b, false, err
	}
	if err := book.CheckCredit(&c); err != nil {
		return b, false, err
	}
	return m.move(c.Account, func(a *accountRow) (book.Moved, bool, error) {
		return book.DecideTopUp(&c, &a.Account, m.seen(a, c.Reference), nil, m.by(ctx))
	})
}

// Correct implements ledger.Store.
func (m *memory) Correct(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return b, false, err
	}
	if err := book.CheckCorrection(&c); err != nil {
		return b, false, err
	}
	if c.Request == "" {
		return m.move(c.Account, func(a *accountRow) (book.Moved, bool, error) {
			return book.DecideAdjustment(&c, &a.Account, m.seen(a, c.Reference), nil, m.by(ctx))
		})
	}
	s := m.settled[c.Request]
	var on *book.Request
	if s != nil {
		on = &s.Request
	}
	if err := book.CheckRefund(&c, on, m.running[c.Request] != nil); err != nil {
		p, found := m.prunedRequest(c.Request)
		switch {
		case !errors.Is(err, ledger.ErrNotFound) || !found || c.Account != "" && c.Account != p.Account:
			return b, false, err
		case p.Has(c):
			return m.accounts[p.Account].Balance, false, nil
		}
		return b, false, &ledger.PrunedError{PrunedRequest: p}
	}
	return m.move(s.Account, func(a *accountRow) (book.Moved, bool, error) {
		moved, made, err := book.DecideRefund(&c, &a.Account, &s.Request, m.seen(a, c.Reference), nil, m.by(ctx))
		if made {
			s.Refunded = moved.Refunded
		}
		return moved, made, err
	})
}

// RecordAct implements ledger.Store.
func (m *memory) RecordAct(ctx context.Context, action, account, subject string, after map[string]any) error {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return err
	}
	id, trail, a := "", m.trail, m.accounts[account]
	if a != nil {
		id, trail = a.ID, a.Trail
	}
	act, err := book.RecordAct(trail, id, action, subject, nil, after, m.by(ctx))
	m.act(a, act)
	return err
}
