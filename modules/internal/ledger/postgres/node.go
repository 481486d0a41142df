package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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

// renew puts the lease's end off, three times before it comes, on a connection of its own. While the server is away it
// is asked more often, so that this node admits again as soon as it is back.
func (s *Store) renew() {
	next := time.NewTimer(s.o.Lease / 4)
	defer next.Stop()
	var conn *pgx.Conn
	defer func() { hangUp(conn) }()
	for {
		select {
		case <-s.ended:
			return
		case <-next.C:
		case <-s.changed:
		}
		next.Reset(s.o.Lease / 4)
		ctx, cancel := context.WithTimeout(context.Background(), s.o.Lease/4)
		var err error
		if conn == nil {
			conn, err = pgx.ConnectConfig(ctx, s.renewing)
		}
		at := ""
		if err == nil {
			at = conn.PgConn().Conn().RemoteAddr().String() + "/" + conn.Config().Database
			err = s.renewOnce(ctx, conn)
		}
		cancel()
		failed := s.noteServer(at, err)
		if err != nil {
			if !failed {
				s.o.Logger.Warn("this node's lease of the ledger could not be renewed", "error", err)
			}
			hangUp(conn)
			conn = nil
			next.Reset(min(s.o.Lease/4, pause))
		}
	}
}

// endRenewals stops the renewals, and waits until none is on its way.
func (s *Store) endRenewals() {
	s.ending.Do(func() { close(s.ended) })
	s.renewed.Wait()
}

func hangUp(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pause)
	defer cancel()
	_ = conn.Close(ctx) // it is given up
}

func (s *Store) renewOnce(ctx context.Context, conn *pgx.Conn) error {
	asked := time.Since(s.opened) // it ends no later by the database's clock
	var ended *bool               // NULL: there is no row of it
	var standbys string
	about, err := json.Marshal(s.about.Load())
	if err != nil {
		return fmt.Errorf("describing this node: %w", err)
	}
	err = conn.QueryRow(ctx, `WITH was AS (SELECT ended IS NOT NULL AS ended FROM nodes WHERE node = $1)
		INSERT INTO nodes AS n (node, name, expires, about)
		VALUES ($1, $3, clock_timestamp() + $2 * interval '1 microsecond', $4)
		ON CONFLICT (node) DO UPDATE SET expires = excluded.expires, ended = NULL, about = excluded.about
		RETURNING (SELECT ended FROM was), current_setting('synchronous_standby_names')`, s.o.BootID,
		s.o.Lease.Microseconds(), machineName(), string(about)).Scan(&ended, &standbys)
	if err != nil {
		return unavailable(err)
	}
	_ = s.noteStandbys(standbys) // the lease is renewed all the same
	if ended == nil {            // an older copy of the database, perhaps
		s.forgetAll()
	}
	if ended == nil || *ended {
		s.o.Logger.Warn("this node's lease of the ledger had lapsed, and other nodes may have released its " +
			"holds; it has a new one")
	}
	s.expires.Store(int64(asked + s.o.Lease))
	return nil
}

// leaseSeen is a lease as this process has seen it first.
type leaseSeen struct{ expires, at time.Time }

// endLapsed ends the leases of nodes that have not renewed theirs for as long as one lasts, by this process's own
// clock and with the database there to renew them in: behind an outage of the database all leases have lapsed, and
// all nodes live.
func (s *Store) endLapsed(ctx context.Context) error {
	var due []string
	now := time.Now()
	err := queryRows(ctx, s.pool, func(row pgx.Rows) error {
		var node string
		var expires time.Time
		if err := row.Scan(&node, &expires); err != nil {
			return err
		}
		seen, known := s.seen.Load(node)
		first, _ := seen.(leaseSeen)
		switch {
		case !known || !first.expires.Equal(expires):
			s.seen.Store(node, leaseSeen{expires, now})
		case now.Sub(first.at) >= s.o.Lease:
			due = append(due, node)
		}
		return nil
	}, `SELECT node, expires FROM nodes WHERE ended IS NULL AND expires <= clock_timestamp() AND node <> $1`, s.o.BootID)
	if err != nil { // nobody could have renewed a lease either
		s.seen.Clear()
	}
	if err != nil || len(due) == 0 {
		return err
	}
	_, err = s.pool.Exec(ctx, `UPDATE nodes SET ended = clock_timestamp()
		WHERE node = ANY($1) AND ended IS NULL AND expires <= clock_timestamp()`, due)
	for _, node := range due {
		s.seen.Delete(node)
	}
	return err
}

// keepNodes is how long a node is remembered that has ended, so that whoever looks for it finds it.
const keepNodes = 30 * 24 * time.Hour

// removeNodes forgets nodes that ended long ago and hold nothing. One that comes back signs in again as it renews.
func (s *Store) removeNodes(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM nodes AS n
		WHERE n.ended < clock_timestamp() - $1 * interval '1 microsecond'
		AND NOT EXISTS (SELECT FROM holds AS h WHERE h.owner = n.node)`, keepNodes.Microseconds())
	return err
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
