package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// fields are what an act changed. None of it is secret.
type fields map[string]any

func (f fields) text() (string, error) {
	if f == nil {
		return "", nil
	}
	b, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("writing the audit trail: %w", err)
	}
	return string(b), nil
}

// act records what the actor of ctx did to an account, or to none (nil). subject is the id of what changed,
// before what it was, nil for what was made.
func (t *tx) act(ctx context.Context, action string, a *account, subject string, before, after fields) error {
	was, err := before.text()
	if err != nil {
		return err
	}
	is, err := after.text()
	if err != nil {
		return err
	}
	act := ledger.Act{
		Created: t.now(), Actor: ledger.ActorOf(ctx), Action: action, Subject: subject, Before: was, After: is,
		Format: ledger.ActFormat,
	}
	var account any
	if a != nil {
		account, act.Account, act.Seq, act.Prev = a.n, a.id, a.acts, a.trail
	} else {
		err = t.query(`SELECT acts, trail FROM meta`, func(row *sqlite.Stmt) error {
			act.Seq, act.Prev = row.ColumnInt64(0), columnHash(row, 1)
			return nil
		})
		if err != nil {
			return err
		}
	}
	act.Seq++
	hash := act.Hash()
	t.moved.acts++
	t.moved.move(act.Prev, hash)
	err = t.exec(`INSERT INTO audit (created, actor, action, account, subject, before, after, prev, hash, seq, format)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		act.Created, act.Actor, act.Action, account, act.Subject, act.Before, act.After, act.Prev, hash, act.Seq, act.Format)
	switch {
	case err != nil:
		return err
	case a == nil:
		return t.exec(`UPDATE meta SET acts = ?, trail = ?`, act.Seq, hash)
	}
	a.acts, a.trail = act.Seq, hash
	return t.exec(`UPDATE accounts SET acts = ?, trail = ? WHERE n = ?`, act.Seq, hash, a.n)
}
