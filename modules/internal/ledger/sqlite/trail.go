package sqlite

import (
	"context"
	"errors"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// RecordAct implements ledger.Store.
func (s *Store) RecordAct(ctx context.Context, action, account, subject string, after map[string]any) error {
	err := s.write(ctx, "record_act", func(t *tx) error {
		a, err := t.account(account)
		if account == "" || errors.Is(err, ledger.ErrNotFound) {
			a, err = nil, nil
		}
		if err != nil {
			return err
		}
		about := &book.Account{}
		if a != nil {
			about = &a.Account
		} else if about.Trail, err = t.trail(); err != nil {
			return err
		}
		act, err := book.RecordAct(about.Trail, about.ID, action, subject, nil, after, t.by(ctx))
		if err != nil {
			return err
		}
		return t.recordActs(a, act)
	})
	return wrap(err, "recording %s of %s", action, subject)
}

// by is who decides an operation of ctx, now.
func (t *tx) by(ctx context.Context) book.By {
	return book.By{Actor: ledger.ActorOf(ctx), Now: t.now()}
}

// trail is that of the acts about no account.
func (t *tx) trail() (trail book.Trail, err error) {
	err = t.query(`SELECT acts, trail FROM meta`, to(&trail.Acts, &trail.Head))
	return trail, err
}

// recordActs writes acts about an account, with what they changed of it, or about none (nil), with their trail.
func (t *tx) recordActs(a *account, acts ...book.Act) error {
	var account any
	if a != nil {
		account = a.n
	}
	for _, act := range acts {
		t.moved.acts++
		t.moved.move(act.Prev, act.Hash)
		err := t.exec(`INSERT INTO audit (created, actor, action, account, subject, before, after, prev, hash, seq, format)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			act.Created, act.Actor, act.Action, account, act.Subject, act.Before, act.After, act.Prev, act.Hash, act.Seq,
			act.Format)
		if err != nil {
			return err
		}
		if a != nil {
			a.Trail = act.Trail()
		} else if err := t.exec(`UPDATE meta SET acts = ?, trail = ?`, act.Seq, act.Hash); err != nil {
			return err
		}
	}
	if a == nil {
		return nil
	}
	return t.saveAccount(a)
}
