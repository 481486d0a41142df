package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

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
	var n any
	if a != nil {
		n = a.n
	}
	return t.exec(`INSERT INTO audit (created, actor, action, account, subject, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		t.now(), ledger.ActorOf(ctx), action, n, subject, was, is)
}
