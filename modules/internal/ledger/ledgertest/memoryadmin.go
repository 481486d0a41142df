package ledgertest

import (
	"cmp"
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
	m.act(a, c.Acts...)
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

// change changes an account and its rows as is decided.
func (m *memory) change(ctx context.Context, id string, decide func(book.Account, book.By) (book.Change, error)) (
	ledger.Account, error,
) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Account{}, err
	}
	a, _, err := m.apply(ctx, id, decide)
	return a, err
}

func (m *memory) apply(ctx context.Context, id string, decide func(book.Account, book.By) (book.Change, error)) (
	v ledger.Account, c book.Change, err error,
) {
	a, err := m.look(id)
	if err != nil {
		return v, c, err
	}
	if c, err = decide(a.Account, m.by(ctx)); err != nil {
		return v, book.Change{}, err
	}
	if len(c.Acts) > 0 {
		a.Account = c.Account
		m.act(a, c.Acts...)
		if c.Entry.Seq > 0 {
			m.post(a, c.Entry)
		}
		line := &lineRow{Line: book.Line{Cap: c.Fresh.SpendCap}, account: id}
		if k := m.keys[c.Key.ID]; k != nil {
			line = k.line
			k.Key, line.Cap = c.Key, c.Key.SpendCap
		}
		if c.Fresh.ID != "" {
			m.made++
			m.keys[c.Fresh.ID] = &keyRow{FreshKey: c.Fresh, made: m.made, line: line}
		}
		if c.Entry.Kind == ledger.Refund {
			m.settled[c.Entry.Request].Refunded = c.Refunded
		}
	}
	a, err = m.look(id)
	return a.Show(), c, err
}

// RenameAccount implements ledger.Store.
func (m *memory) RenameAccount(ctx context.Context, id, name string) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Change, error) {
		return book.RenameAccount(a, name, m.nameTaken(name), by)
	})
}

// SetPlan implements ledger.Store.
func (m *memory) SetPlan(ctx context.Context, id, plan string) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Change, error) { return book.SetPlan(a, plan, by) })
}

// SetLimit implements ledger.Store.
func (m *memory) SetLimit(ctx context.Context, id string, limit ledger.Limit, value *int64) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Change, error) {
		return book.SetLimit(a, limit, value, by)
	})
}

// SetProfile implements ledger.Store.
func (m *memory) SetProfile(ctx context.Context, id, profile string) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Change, error) {
		return book.SetProfile(a, profile, by)
	})
}

// SetRequires implements ledger.Store.
func (m *memory) SetRequires(ctx context.Context, id string, change ledger.RequiresChange) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Change, error) {
		return book.SetRequires(a, change, by)
	})
}

// SetMail implements ledger.Store.
func (m *memory) SetMail(ctx context.Context, id string, addresses []string) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Change, error) {
		return book.SetMail(a, addresses, by)
	})
}

// SetState implements ledger.Store.
func (m *memory) SetState(ctx context.Context, id string, state ledger.State) (ledger.Account, error) {
	return m.change(ctx, id, func(a book.Account, by book.By) (book.Change, error) { return book.SetState(a, state, by) })
}

func (m *memory) keyTaken(account, name string, hash [32]byte) (taken book.Taken) {
	for _, k := range m.keys {
		taken.Name = taken.Name || k.Account == account && k.Name == name
		taken.Hash = taken.Hash || k.Hash == hash
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
	_, c, err := m.apply(ctx, account, func(a book.Account, by book.By) (book.Change, error) {
		k := book.ApplyChange(ledger.Key{ID: m.newID("key_"), Account: account, Last4: last4}, change)
		k.Name = name
		return book.CreateKey(a, book.FreshKey{Key: k, Hash: hash}, m.keyTaken(account, name, hash), by)
	})
	return c.Fresh.Key, err
}

// changeKey changes a key as is decided.
func (m *memory) changeKey(ctx context.Context, id string,
	decide func(book.Account, ledger.Key, book.By) (book.Change, error)) (book.Change, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return book.Change{}, err
	}
	k := m.keys[id]
	if k == nil {
		return book.Change{}, ledger.ErrNotFound
	}
	_, c, err := m.apply(ctx, k.Account, func(a book.Account, by book.By) (book.Change, error) {
		return decide(a, m.show(k), by)
	})
	return c, err
}

// ChangeKey implements ledger.Store.
func (m *memory) ChangeKey(ctx context.Context, id string, change ledger.KeyChange) (ledger.Key, error) {
	c, err := m.changeKey(ctx, id, func(a book.Account, k ledger.Key, by book.By) (book.Change, error) {
		taken := m.keyTaken(a.ID, book.ApplyChange(k, change).Name, [32]byte{}).Name
		return book.ChangeKey(a, k, change, taken, by)
	})
	return c.Key, err
}

// RevokeKey implements ledger.Store.
func (m *memory) RevokeKey(ctx context.Context, id string) (ledger.Key, error) {
	c, err := m.changeKey(ctx, id, func(a book.Account, k ledger.Key, by book.By) (book.Change, error) {
		return book.RevokeKey(a, k, by)
	})
	return c.Key, err
}

// RotateKey implements ledger.Store.
func (m *memory) RotateKey(
	ctx context.Context, id string, hash [32]byte, last4 string, overlap time.Duration,
) (fresh, old ledger.Key, err error) {
	c, err := m.changeKey(ctx, id, func(a book.Account, k ledger.Key, by book.By) (book.Change, error) {
		retired, _ := book.RetiredName(k.Name, func(name string) (bool, error) {
			return m.keyTaken(a.ID, name, hash).Name, nil
		})
		fresh := book.FreshKey{Key: ledger.Key{ID: m.newID("key_"), Last4: last4}, Hash: hash}
		return book.RotateKey(a, k, fresh, overlap, retired, m.keyTaken(a.ID, "", hash).Hash, by)
	})
	return c.Fresh.Key, c.Key, err
}

// Lookup implements ledger.Store.
func (m *memory) Lookup(_ context.Context, hash [32]byte) (ledger.Principal, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Principal{}, err
	}
	for _, k := range m.keys {
		if k.Hash == hash {
			a, key := m.accounts[k.Account].Show(), m.show(k)
			a.Mail = nil
			a.Balance, a.Period, key.Spent, key.AccountName = ledger.Balance{}, ledger.Period{}, 0, ""
			return ledger.Principal{Account: a, Key: key}, nil
		}
	}
	return ledger.Principal{}, ledger.ErrNotFound
}

// AddCredit implements ledger.Store.
func (m *memory) AddCredit(ctx context.Context, c ledger.Credit) (b ledger.Balance, applied bool, err error) {
	leave, err := m.enter()
	defer leave()
	if err := cmp.Or(err, book.CheckCredit(&c)); err != nil {
		return b, false, err
	}
	v, change, err := m.apply(ctx, c.Account, func(a book.Account, by book.By) (book.Change, error) {
		return book.DecideTopUp(&c, a, m.seen(m.accounts[a.ID], c.Reference), nil, by)
	})
	return v.Balance, len(change.Acts) > 0, err
}

// Correct implements ledger.Store.
func (m *memory) Correct(ctx context.Context, c ledger.Correction) (b ledger.Balance, applied bool, err error) {
	leave, err := m.enter()
	defer leave()
	if err := cmp.Or(err, book.CheckCorrection(&c)); err != nil {
		return b, false, err
	}
	s, account := m.settled[c.Request], c.Account
	if c.Request != "" {
		var on *book.Request
		if s != nil {
			on, account = &s.Request, s.Account
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
	}
	v, change, err := m.apply(ctx, account, func(a book.Account, by book.By) (book.Change, error) {
		seen := m.seen(m.accounts[a.ID], c.Reference)
		if c.Request != "" {
			return book.DecideRefund(&c, a, &s.Request, seen, nil, by)
		}
		return book.DecideAdjustment(&c, a, seen, nil, by)
	})
	return v.Balance, len(change.Acts) > 0, err
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
