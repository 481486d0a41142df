package postgres_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// parts are how many partitions each table of accounts has in TestSpreadByAccount.
const parts = 8

// spreadSchema is the schema with all tables of accounts partitioned by a hash of the account.
func spreadSchema(t *testing.T) string {
	texts, err := postgres.SchemaUpTo(postgres.NewestSchema())
	require.NoError(t, err)
	text := regexp.MustCompile(`(?s)CREATE TABLE \w+_rest [^;]*;`).ReplaceAllString(texts[0], "")
	var made strings.Builder
	table := regexp.MustCompile(`(?s)CREATE TABLE (\w+) \(\n  account .*?\n\)[^;]*;`)
	text = table.ReplaceAllStringFunc(text, func(create string) string {
		name := table.FindStringSubmatch(create)[1]
		for i := range parts {
			fmt.Fprintf(&made, "CREATE TABLE %s_h%d PARTITION OF %s FOR VALUES WITH (MODULUS %d, REMAINDER %d);\n", name, i,
				name,
				parts, i)
		}
		return create[:strings.LastIndex(create, "\n)")] + "\n) PARTITION BY HASH (account);"
	})
	require.Equal(t, parts*12, strings.Count(made.String(), "MODULUS"), "all tables of accounts are spread")
	for i := range 4 { // stand for the partitions by month, of which there are none here
		month := time.Now().UTC().AddDate(0, 0, 1-time.Now().UTC().Day()).AddDate(0, i, 0).Format("2006_01")
		fmt.Fprintf(&made, "CREATE TABLE requests_%[1]s (); CREATE TABLE attempts_%[1]s ();\n", month)
	}
	return text + made.String() + strings.Join(texts[1:], "\n")
}

// TestSpreadByAccount has the tables partitioned by account, as a database does that spreads them over machines, and
// looks at which partitions the way of a request and the operations about an account have touched: those of the
// account alone.
func TestSpreadByAccount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := server.CreateDatabase(t, "spread", "template1")
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, spreadSchema(t))
	require.NoError(t, err)
	require.NoError(t, conn.Close(ctx)) // who made the tables says so when he leaves
	conn, err = pgx.Connect(ctx, url)
	require.NoError(t, err)
	store := openSpread(t, url, "first")
	c := newCustomer(t, store, 10)
	second, err := store.CreateKey(ctx, c.account, "second", [32]byte{2}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	keys := []string{c.key, second.ID} // take turns, so that their lines are written, too
	for i := range 30 {
		_, err := store.CreateAccount(ctx, fmt.Sprint("other ", i), "")
		require.NoError(t, err)
	}
	require.NoError(t, store.Close())
	alone := func() bool { // who leaves says what he did as he does
		var others int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = 'spread'
			AND pid <> pg_backend_pid()`).
			Scan(&others)
		return err == nil && others == 0
	}
	require.Eventually(t, alone, 10*time.Second, 5*time.Millisecond)
	_, err = conn.Exec(ctx, `SELECT pg_stat_reset()`)
	require.NoError(t, err)

	store = openSpread(t, url, "second")
	c.store = store
	for i := range 20 { // more than a plan takes to become a general one
		request := fmt.Sprintf("req_%02d", i)
		c.key = keys[i%2]
		_, err := store.Hold(ctx, c.hold(request, 1_000))
		require.NoError(t, err)
		require.NoError(t, store.Begin(ctx, c.next(request, 2_000)))
		store.Refer(ledger.AttemptID(request, 1), "gen-1")
		require.NoError(t, store.Check(ctx, c.account, c.key, 1, 1))
		_, err = store.Settle(ctx, settlement(request, 700))
		require.NoError(t, err)
	}
	_, _, err = store.AddCredit(ctx, ledger.Credit{Account: c.account, Credits: 1, Reference: "r"})
	require.NoError(t, err)
	_, err = store.Account(ctx, c.account)
	require.NoError(t, err)
	_, err = store.SetProfile(ctx, c.account, "max")
	require.NoError(t, err)
	_, err = store.Lookup(ctx, [32]byte{1})
	require.NoError(t, err)
	require.NoError(t, store.Entries(ctx, ledger.Query{Account: c.account}, func(ledger.Entry) error { return nil }))
	require.NoError(t, store.Close())

	require.Eventually(t, alone, 10*time.Second, 5*time.Millisecond)
	var own int
	require.NoError(t, conn.QueryRow(ctx, `SELECT right(tableoid::regclass::text, 1)::int FROM balances
		WHERE account = $1`,
		c.account).Scan(&own))
	rows, err := conn.Query(ctx, `SELECT relname, coalesce(seq_scan, 0) + coalesce(idx_scan,
		0) + n_tup_ins + n_tup_upd + n_tup_del
		FROM pg_stat_user_tables WHERE relname ~ '_h[0-9]$'`)
	require.NoError(t, err)
	touched := 0
	for rows.Next() {
		var name string
		var n int64
		require.NoError(t, rows.Scan(&name, &n))
		if strings.HasSuffix(name, fmt.Sprint("_h", own)) {
			if n > 0 {
				touched++
			}
			continue
		}
		require.Zero(t, n, "%s has none of the account, and was looked at", name)
	}
	require.NoError(t, rows.Err())
	require.Greater(t, touched, 8, "those of the account were")
	var changed int
	require.NoError(t, conn.QueryRow(ctx, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = $1`,
		fmt.Sprint("lines_h", own)).Scan(&changed))
	require.Positive(t, changed, "lines were written")
	require.NoError(t, conn.Close(ctx))
}

func openSpread(t *testing.T, url, name string) *postgres.Store {
	store, err := postgres.Open(context.Background(), postgres.Options{
		Options: ledger.Options{WaitTimeout: time.Minute}, URL: url, BootID: name,
	})
	require.NoError(t, err)
	return store
}
