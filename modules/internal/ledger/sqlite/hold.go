package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	held    = "held"
	settled = "settled"
)

// request is the part of a request's row that its settlement needs.
type request struct {
	id      string
	account string
	state   string
	hold    int64
	charge  int64
	pending bool
}

// findRequest reports whether there is a request with this id.
func findRequest(t *tx, id string) (r request, found bool, err error) {
	r.id = id
	err = t.query(`SELECT account, state, hold, charge, pending FROM requests WHERE id = ?`, func(row *sqlite.Stmt) error {
		found = true
		r.account, r.state = row.ColumnText(0), row.ColumnText(1)
		r.hold, r.charge, r.pending = row.ColumnInt64(2), row.ColumnInt64(3), row.ColumnBool(4)
		return nil
	}, id)
	return r, found, err
}

// Hold implements ledger.Store.
func (s *Store) Hold(ctx context.Context, h ledger.Hold) (ledger.Balance, error) {
	var b ledger.Balance
	err := s.write(ctx, "hold", func(t *tx) error {
		if h.Request == "" || h.Attempt.ID == "" || h.Microcents < 0 {
			return fmt.Errorf("%w: a hold needs a request id, an attempt id and an amount that is not negative", ledger.ErrInvalid)
		}
		p, err := findPurse(t.conn, h.Account)
		if err != nil {
			return err
		}
		r, found, err := findRequest(t, h.Request)
		if err != nil {
			return err
		}
		if found {
			b = p.Balance
			if r.state == settled || r.account != h.Account {
				return fmt.Errorf("%w: a request with this id, which is %s", ledger.ErrExists, r.state)
			}
			return nil
		}
		if !p.Covers(h.Microcents) {
			return ledger.ErrInsufficient
		}
		now := s.opts.Now()
		err = t.exec(`INSERT INTO requests (id, account, key, endpoint, profile, owner, state, hold, created)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			h.Request, h.Account, h.Key, h.Endpoint, h.Profile, s.opts.BootID, held, h.Microcents, now)
		if err != nil {
			return err
		}
		if err := s.addAttempt(t, h.Request, 1, h.Attempt); err != nil {
			return err
		}
		p.Held += h.Microcents
		b = p.Balance
		return p.save(t)
	})
	if err != nil {
		return ledger.Balance{}, fmt.Errorf("holding credits for request %q: %w", h.Request, err)
	}
	return b, nil
}

// Begin implements ledger.Store.
func (s *Store) Begin(ctx context.Context, id string, a ledger.Attempt, total int64) error {
	err := s.write(ctx, "begin", func(t *tx) error {
		if a.ID == "" || total < 0 {
			return fmt.Errorf("%w: an attempt needs an id and a total that is not negative", ledger.ErrInvalid)
		}
		r, found, err := findRequest(t, id)
		if err != nil {
			return err
		}
		if !found || r.state != held {
			return fmt.Errorf("%w: a running request with this id", ledger.ErrNotFound)
		}
		var seq int64
		repeated := false
		err = t.query(`SELECT seq, id = ? FROM attempts WHERE request = ?`, func(row *sqlite.Stmt) error {
			seq = max(seq, row.ColumnInt64(0))
			repeated = repeated || row.ColumnBool(1)
			return nil
		}, a.ID, id)
		if err != nil || repeated {
			return err
		}
		if more := total - r.hold; more > 0 {
			if err := raise(t, r, more); err != nil {
				return err
			}
		}
		return s.addAttempt(t, id, seq+1, a)
	})
	if err != nil {
		return fmt.Errorf("beginning an attempt of request %q: %w", id, err)
	}
	return nil
}

// raise makes a hold larger.
func raise(t *tx, r request, more int64) error {
	p, err := findPurse(t.conn, r.account)
	if err != nil {
		return err
	}
	if !p.Covers(more) {
		return ledger.ErrInsufficient
	}
	p.Held += more
	if err := p.save(t); err != nil {
		return err
	}
	return t.exec(`UPDATE requests SET hold = ? WHERE id = ?`, r.hold+more, r.id)
}

func (s *Store) addAttempt(t *tx, request string, seq int64, a ledger.Attempt) error {
	return t.exec(`INSERT INTO attempts (request, seq, id, owner, route, provider, model, price_version, created)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		request, seq, a.ID, s.opts.BootID, a.Route, a.Provider, a.Model, a.PriceVersion, s.opts.Now())
}
