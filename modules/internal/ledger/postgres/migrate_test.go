package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// said tells of lines that are logged.
type said struct{ lines chan string }

// Write implements io.Writer.
func (s said) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("are in use")) {
		select {
		case s.lines <- string(b):
		default: // it is known
		}
	}
	return len(b), nil
}

// TestMigrationKeepsNobodyWaiting: where somebody reads a table that a migration changes, the migration gives way, and
// what it needs for an index does not keep those out who write. What a first try has left half done, the next one
// does.
func TestMigrationKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := server.CreateDatabase(t, "older", "template1")
	conn := connect(ctx, t, url)
	texts, err := postgres.SchemaUpTo(5)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, strings.Join(texts, "\n"))
	require.NoError(t, err)
	_, err = conn.Exec(ctx, `ALTER TABLE accounts ADD COLUMN own_spend_cap_microcents bigint;
		CREATE INDEX movements ON entries (account) WHERE kind = 'what was left by a try that ended'`)
	require.NoError(t, err)

	reads, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = reads.Exec(ctx, `SELECT FROM accounts`)
	require.NoError(t, err)
	waits, opened := said{make(chan string, 1)}, make(chan error, 1)
	go func() {
		store, err := postgres.Open(ctx, postgres.Options{URL: url, BootID: "newer", Options: ledger.Options{
			Logger: slog.New(slog.NewTextHandler(waits, nil))}})
		if err == nil {
			err = store.Close()
		}
		opened <- err
	}()
	select {
	case <-waits.lines:
	case err := <-opened:
		require.Fail(t, "it was brought up to date below somebody's feet", "%v", err)
	}
	require.NoError(t, reads.Rollback(ctx))
	require.NoError(t, <-opened)

	var index, version string
	require.NoError(t, conn.QueryRow(ctx, `SELECT indexdef FROM pg_indexes WHERE indexname = 'movements'`).Scan(&index))
	require.Contains(t, index, "(account, seq)")
	require.NoError(t, conn.QueryRow(ctx, `SELECT max(version_id)::text FROM goose_db_version`,
		pgx.QueryExecModeSimpleProtocol).Scan(&version))
	require.Equal(t, "6", version)
	var valid bool
	require.NoError(t, conn.QueryRow(ctx, `SELECT convalidated FROM pg_constraint WHERE conname = 'own_spend_cap'`).
		Scan(&valid))
	require.True(t, valid)
}
