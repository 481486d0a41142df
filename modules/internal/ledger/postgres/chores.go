package postgres

import (
	"context"
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
// another node's it stays until its time is over.
func (s *Store) ClaimChore(ctx context.Context, name string, d time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.WaitTimeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, `INSERT INTO chores AS c (name, node, expires)
		VALUES ($1, $2, clock_timestamp() + $3 * interval '1 microsecond')
		ON CONFLICT (name) DO UPDATE SET node = EXCLUDED.node, expires = EXCLUDED.expires
		WHERE c.node = EXCLUDED.node OR c.expires <= clock_timestamp()`, name, s.o.BootID, d.Microseconds())
	if err != nil {
		return false, wrap(unavailable(err), "claiming %s", name)
	}
	return tag.RowsAffected() == 1, nil
}

// Nodes lists the nodes that live, or whose holds nobody has released yet, the oldest first.
func (s *Store) Nodes(ctx context.Context) (nodes []ledger.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.WaitTimeout)
	defer cancel()
	err = queryRows(ctx, s.pool, func(row pgx.Rows) error {
		n := ledger.Node{}
		var lease int64
		err := row.Scan(&n.ID, &n.Name, &n.Since, &lease, &n.Left, &n.Holds)
		n.Since, n.Lease, n.Self = n.Since.UTC(), time.Duration(lease)*time.Microsecond, n.ID == s.o.BootID
		nodes = append(nodes, n)
		return err
	}, `SELECT n.node, n.name, n.started, (extract(epoch FROM n.expires - clock_timestamp()) * 1000000)::bigint,
			n.ended IS NOT NULL, coalesce(h.holds, 0)
		FROM nodes AS n LEFT JOIN (SELECT owner, count(DISTINCT request) AS holds FROM holds GROUP BY owner) AS h
			ON h.owner = n.node
		WHERE n.ended IS NULL OR h.holds > 0 ORDER BY n.started, n.node`)
	return nodes, wrap(unavailable(err), "listing the nodes")
}
