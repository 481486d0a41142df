package sqlite

import (
	"context"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Learn implements ledger.Store.
func (s *Store) Learn(ctx context.Context, fold func(kept []ledger.Learned) []ledger.Learned) error {
	err := s.write(ctx, "learn", func(t *tx) error {
		var kept []ledger.Learned
		err := t.query(`SELECT route, model, kind, worked, failed, good, bad, at FROM learned ORDER BY route, model, kind`,
			appendTo(&kept, func(row *sqlite.Stmt) (l ledger.Learned) {
				readColumns(row, 0, &l.Route, &l.Model, &l.Kind, &l.Worked, &l.Failed, &l.Good, &l.Bad, &l.At)
				return l
			}))
		if err != nil {
			return err
		}
		fresh := fold(slices.Clone(kept))
		if slices.Equal(fresh, kept) {
			return nil
		}
		if err := t.exec(`DELETE FROM learned`); err != nil {
			return err
		}
		for _, l := range fresh {
			err := t.exec(`INSERT INTO learned (route, model, kind, worked, failed, good, bad, at) `+
				`VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, l.Route, l.Model, l.Kind, l.Worked, l.Failed, l.Good, l.Bad, l.At)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return wrap(err, "keeping what was learned of routes")
}
