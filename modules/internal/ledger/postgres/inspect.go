package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Inspection is what a server says of itself, for who looks for mistakes in how it is set up.
type Inspection struct {
	Now         time.Time // by its clock, in the middle of the question
	Version     string
	Replica     bool
	Connections int64 // that there are
	Most        int64 // max_connections, less those that are kept for its superuser
	// SyncCommit is synchronous_commit as the gateway's user has it, Fsync and FullPages are what a crash of its machine
	// asks for.
	SyncCommit, Fsync, FullPages string
	Standbys                     string // synchronous_standby_names
	Streaming                    int64  // standbys that are connected
	Archiving                    string // archive_mode
	ArchiveFailed                bool   // the last file of its log could not be archived
	IdleInTransaction            int64  // connections of this database that have been idle in a transaction for a minute
	Poisoned                     int64  // how far, in per cent, the oldest transaction is on its way to wraparound
}

// Inspect asks it. It needs no ledger there.
func Inspect(ctx context.Context, url string) (i Inspection, err error) {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return i, fmt.Errorf("asking the server how it is set up: %w", unavailable(err))
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // it has answered
	begun := time.Now()
	err = c.QueryRow(ctx, `SELECT clock_timestamp(), current_setting('server_version'), pg_is_in_recovery(),
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
		current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint,
		current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
		current_setting('archive_mode'),
		coalesce((SELECT last_failed_time > coalesce(last_archived_time, '-infinity') FROM pg_stat_archiver), false),
		(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '1 minute'),
		(SELECT max(age(datfrozenxid))::bigint * 100 / 2000000000 FROM pg_database)`).Scan(&i.Now, &i.Version, &i.Replica,
		&i.Connections, &i.Most, &i.SyncCommit, &i.Fsync, &i.FullPages, &i.Standbys, &i.Streaming, &i.Archiving,
		&i.ArchiveFailed, &i.IdleInTransaction, &i.Poisoned)
	if err != nil {
		return i, fmt.Errorf("asking the server how it is set up: %w", unavailable(err))
	}
	i.Now = i.Now.Add(time.Since(begun) / 2)
	return i, nil
}
