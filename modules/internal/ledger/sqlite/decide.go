package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/fareway/fareway/modules/internal/ledger"
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
		return t.act(ctx, action, a, subject, nil, after)
	})
	if err != nil {
		return fmt.Errorf("recording %s of %s: %w", action, subject, err)
	}
	return nil
}
