package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Schema is the text of the first migration.
func Schema() (string, error) {
	b, err := schemas.ReadFile("schema/00001_ledger.sql")
	return string(b), err
}

// EndRenewals has the store renew its lease no more, as if its process had died.
func (s *Store) EndRenewals() { s.endRenewals() }

// Renew renews the lease once.
func (s *Store) Renew(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, s.renewing)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	return s.renewOnce(ctx, conn)
}

// IsEnded reports whether the server has ended a query or its connection.
func IsEnded(err error) bool { return isEnded(err) }

// IsLapsed reports whether the store may not admit any more.
func (s *Store) IsLapsed() bool { return s.mayAdmit() != nil }

// Remembered are the requests that the store remembers as held, and the attempts that it takes for not made.
func (s *Store) Remembered() (requests, unmade int) {
	s.held.Range(func(any, any) bool { requests++; return true })
	s.unmade.Range(func(any, any) bool { unmade++; return true })
	return requests, unmade
}

// Queued is how many operations wait for lanes.
func (s *Store) Queued() (n int) {
	for _, l := range s.lanes {
		n += len(l.queue)
	}
	return n
}

// BeginUnit begins the transactions of requests, and ByArrays are the statements in them that find rows by arrays.
const BeginUnit = beginUnit

var ByArrays = map[string]string{
	"balances": lockBalances, "settings": settingsOfAccounts, "lines of keys": linesOfKeys,
	"lines of roots": linesOfRoots, "holds": holdsOfRequests, "requests": settledRequests,
	"balances written": balances.sql, "balances seldom written": seldomBalances.sql, "lines written": lines.sql,
	"holds deleted": deleteHolds, "payers": payers,
}
