package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// BootID names this process as the owner of what it holds.
func (s *Store) BootID() string { return s.o.BootID }

// ReadPrice finds a version of a route's price, and what it costs the operator.
func (s *Store) ReadPrice(ctx context.Context, route string, version int64) (price, cost config.Price, err error) {
	price, cost, err = s.price(ctx, route, version)
	return price, cost, unavailable(err)
}

// ClaimChore makes a chore this node's for a duration from now, by the database's clock, and reports whether it is:
// another node's it stays until its time is over. What nobody has claimed for a day goes: alerts are claimed by their
// accounts, so that there may be many.
func (s *Store) ClaimChore(ctx context.Context, name string, d time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.WaitTimeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, `WITH gone AS (DELETE FROM chores WHERE name IN (SELECT name FROM chores
			WHERE name <> $1 AND expires < clock_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED))
		INSERT INTO chores AS c (name, node, expires)
		VALUES ($1, $2, clock_timestamp() + $3 * interval '1 microsecond')
		ON CONFLICT (name) DO UPDATE SET node = EXCLUDED.node, expires = EXCLUDED.expires
		WHERE c.node = EXCLUDED.node OR c.expires <= clock_timestamp()`, name, s.o.BootID, d.Microseconds())
	if err != nil {
		return false, wrap(unavailable(err), "claiming %s", name)
	}
	return tag.RowsAffected() == 1, nil
}

// Describe says what this node is, for the others: with the next renewal of the lease, which is at once where it has
// said something else.
func (s *Store) Describe(a ledger.About) {
	if reflect.DeepEqual(*s.about.Swap(&a), a) {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Node finds a node that is or was, by its boot id. Its Holds are not counted.
func (s *Store) Node(ctx context.Context, id string) (ledger.Node, error) {
	found, err := s.readNodes(ctx, `SELECT node, name, started,
			(extract(epoch FROM expires - clock_timestamp()) * 1000000)::bigint, ended IS NOT NULL, 0, about
		FROM nodes WHERE node = $1`, id)
	switch {
	case err != nil:
		return ledger.Node{}, wrap(err, "looking for a node")
	case len(found) == 0:
		return ledger.Node{}, fmt.Errorf("node %q: %w", id, ledger.ErrNotFound)
	}
	return found[0], nil
}

// Nodes lists the nodes that live, or whose holds nobody has released yet, the oldest first.
func (s *Store) Nodes(ctx context.Context) ([]ledger.Node, error) {
	nodes, err := s.readNodes(ctx, `SELECT n.node, n.name, n.started,
			(extract(epoch FROM n.expires - clock_timestamp()) * 1000000)::bigint, n.ended IS NOT NULL,
			coalesce(h.holds, 0), n.about
		FROM nodes AS n LEFT JOIN (SELECT owner, count(DISTINCT request) AS holds FROM holds GROUP BY owner) AS h
			ON h.owner = n.node
		WHERE n.ended IS NULL OR h.holds > 0 ORDER BY n.started, n.node`)
	return nodes, wrap(err, "listing the nodes")
}

func (s *Store) readNodes(ctx context.Context, sql string, args ...any) (nodes []ledger.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.WaitTimeout)
	defer cancel()
	err = queryRows(ctx, s.pool, func(row pgx.Rows) error {
		n := ledger.Node{}
		var lease int64
		var about string
		err := row.Scan(&n.ID, &n.Name, &n.Since, &lease, &n.Left, &n.Holds, &about)
		if err == nil {
			err = json.Unmarshal([]byte(about), &n.About)
		}
		n.Since, n.Lease, n.Self = n.Since.UTC(), time.Duration(lease)*time.Microsecond, n.ID == s.o.BootID
		nodes = append(nodes, n)
		return err
	}, sql, args...)
	return nodes, unavailable(err)
}
