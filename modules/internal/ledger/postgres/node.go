package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// signIn makes this process a node, with a lease.
func (s *Store) signIn(ctx context.Context) error {
	asked := time.Since(s.opened)
	tag, err := s.pool.Exec(ctx, `INSERT INTO nodes (node, name, expires)
		VALUES ($1, $2, clock_timestamp() + $3 * interval '1 microsecond') ON CONFLICT DO NOTHING`,
		s.o.BootID, machineName(), s.o.Lease.Microseconds())
	switch {
	case err != nil:
		return unavailable(err)
	case tag.RowsAffected() == 0:
		return fmt.Errorf("%w: a process of this name, %s", ledger.ErrExists, s.o.BootID)
	}
	s.expires.Store(int64(asked + s.o.Lease))
	return nil
}

// renew puts the lease's end off, three times before it comes.
func (s *Store) renew() {
	tick := time.NewTicker(s.o.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.o.Lease/4)
		if err := s.renewOnce(ctx); err != nil {
			s.o.Logger.Warn("this node's lease of the ledger could not be renewed", "error", err)
		}
		cancel()
	}
}

func (s *Store) renewOnce(ctx context.Context) error {
	asked := time.Since(s.opened) // it ends no later by the database's clock
	var again bool
	err := s.pool.QueryRow(ctx, `UPDATE nodes AS n SET expires = clock_timestamp() + $2 * interval '1 microsecond', ended = NULL
		FROM (SELECT node, ended IS NOT NULL AS again FROM nodes WHERE node = $1 FOR UPDATE) AS was
		WHERE n.node = was.node RETURNING was.again`, s.o.BootID, s.o.Lease.Microseconds()).Scan(&again)
	if err != nil {
		return unavailable(err)
	}
	if again {
		s.o.Logger.Warn("this node's lease of the ledger had lapsed, and other nodes may have released its holds; it has a new one")
	}
	s.expires.Store(int64(asked + s.o.Lease))
	return nil
}

// mayAdmit is ErrUnavailable once the lease may have lapsed: another node may be releasing this one's holds then.
func (s *Store) mayAdmit() error {
	if int64(time.Since(s.opened)) >= s.expires.Load() {
		return lapsed()
	}
	return nil
}

func lapsed() error { return fmt.Errorf("%w: %w", ledger.ErrUnavailable, ledger.ErrLapsed) }

// signOut gives the lease back.
func (s *Store) signOut() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.WaitTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, `UPDATE nodes SET ended = clock_timestamp() WHERE node = $1 AND ended IS NULL`, s.o.BootID)
	return wrap(err, "giving the ledger's lease back")
}
