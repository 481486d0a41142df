package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// values are arrays with three elements of the types that statements take.
var values = map[string]string{
	"int8[]": `{1,1,1}`, "bool[]": `{t,t,t}`, "bytea[]": `{"\\x` + strings.Repeat("00", 32) + `","\\x` +
		strings.Repeat("01", 32) + `","\\x` + strings.Repeat("02", 32) + `"}`,
}

// ids are of three of a table's 20,000 rows.
func ids(prefix string) string { return fmt.Sprintf(`{%[1]s7,%[1]s7000,%[1]s19999}`, prefix) }

// execute is an execution of a prepared statement.
func execute(name, sql, first, second, rows string) string {
	var args []string
	for i, parameter := range regexp.MustCompile(`\$\d+::(\w+(?:\[\])?)`).FindAllStringSubmatch(sql, -1) {
		switch {
		case i == 0:
			args = append(args, `'`+first+`'`)
		case parameter[1] == "text": // a bound of ids
			args = append(args, []string{`'req_'`, `'req_z'`}[i-2])
		case parameter[1] == "int8": // how many rows there have to be
			args = append(args, rows)
		case parameter[1] == "text[]":
			args = append(args, `'`+second+`'`)
		default:
			args = append(args, `'`+values[parameter[1]]+`'`)
		}
	}
	return fmt.Sprintf(`EXECUTE %q (%s)`, name, strings.Join(args, ", "))
}

// explain is the plan that a statement has run by.
func explain(ctx context.Context, t *testing.T, tx pgx.Tx, sql string) map[string]any {
	var text []byte
	err := tx.QueryRow(ctx, `EXPLAIN (ANALYZE, FORMAT JSON) `+sql, pgx.QueryExecModeSimpleProtocol).Scan(&text)
	require.NoError(t, err, sql)
	var plans []struct{ Plan map[string]any }
	require.NoError(t, json.Unmarshal(text, &plans), sql)
	return plans[0].Plan
}

// eachNode visits a plan's nodes.
func eachNode(node map[string]any, visit func(map[string]any)) {
	visit(node)
	inner, _ := node["Plans"].([]any)
	for _, n := range inner {
		if n, is := n.(map[string]any); is {
			eachNode(n, visit)
		}
	}
}

// TestPlansOfGrowingTables plans all statements that find rows by arrays while the tables are empty and known to be
// so, and has 20,000 rows come: each of the array's rows is found by an index, by the plan of before and by a new one.
func TestPlansOfGrowingTables(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	conn := connect(ctx, t, url)
	exec := func(sql string) {
		t.Helper()
		_, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err, sql)
	}
	exec(`VACUUM ANALYZE`)
	each := func(do func(tx pgx.Tx, name, sql, execute string)) {
		for name, sql := range postgres.ByArrays {
			second := map[string]string{"lines of keys": ids("key_"), "lines of roots": ids("key_"),
				"lines written": ids("key_"), "payers": ids("key_")}[name]
			if second == "" {
				second = ids("req_")
			}
			tx, err := conn.Begin(ctx)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, postgres.BeginUnit)
			require.NoError(t, err)
			do(tx, name, sql, execute(name, sql, ids("acc_"), second, `NULL`))
			require.NoError(t, tx.Rollback(ctx))
		}
	}
	prepare := func() {
		each(func(tx pgx.Tx, name, sql, execute string) {
			types := []string{}
			for _, p := range regexp.MustCompile(`\$\d+::(\w+(?:\[\])?)`).FindAllStringSubmatch(sql, -1) {
				types = append(types, p[1])
			}
			_, err := tx.Exec(ctx, fmt.Sprintf(`PREPARE %q (%s) AS %s`, name, strings.Join(types, ", "), sql),
				pgx.QueryExecModeSimpleProtocol)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, execute, pgx.QueryExecModeSimpleProtocol)
			require.NoError(t, err, execute)
		})
	}
	prepare()

	store := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 10)
	for _, request := range []string{"req_a", "req_b"} {
		_, err := store.Hold(ctx, c.hold(request, 1_000))
		require.NoError(t, err)
	}
	_, err := store.Settle(ctx, settlement("req_b", 700))
	require.NoError(t, err)
	for table, columns := range map[string]string{
		"accounts": `'account', 'acc_' || i`, "balances": `'account', 'acc_' || i`,
		"keys":     `'account', 'acc_' || i, 'key', 'key_' || i, 'root', 'key_' || i`,
		"lines":    `'account', 'acc_' || i, 'root', 'key_' || i`,
		"holds":    `'account', 'acc_' || i, 'request', 'req_' || i`,
		"requests": `'account', 'acc_' || i, 'request', 'req_' || i`,
	} {
		exec(fmt.Sprintf(`INSERT INTO %[1]s SELECT (jsonb_populate_record(o, jsonb_build_object(%[2]s))).*
			FROM %[1]s AS o, generate_series(1, 20000) AS i`, table, columns))
	}
	look := func(when string) {
		each(func(tx pgx.Tx, name, _, execute string) {
			eachNode(explain(ctx, t, tx, execute), func(node map[string]any) {
				number := func(of string) float64 { n, _ := node[of].(float64); return n }
				read := number("Actual Rows")
				for of := range node {
					if strings.HasPrefix(of, "Rows Removed") {
						read += number(of)
					}
				}
				require.LessOrEqual(t, read*number("Actual Loops"), 6.0, "%s, %s: more than was asked for: %v", name, when, node)
			})
		})
	}
	look("planned while the tables were empty")
	exec(`DEALLOCATE ALL`)
	prepare() // statistics say that they are empty, and they are not
	look("planned with old statistics")
	exec(`ANALYZE`)
	look("planned with new statistics")
}

// TestMissingRowsFailOnTheServer: a statement that changes rows fails when they are not as many as it says, for the
// commit is sent with it.
func TestMissingRowsFailOnTheServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	conn := connect(ctx, t, databaseOf(t, t.Name()))
	for name, code := range map[string]string{"balances written": "2201F", "balances seldom written": "2201F",
		"lines written": "2201F", "holds deleted": "22012"} {
		sql := postgres.ByArrays[name]
		_, err := conn.Exec(ctx, fmt.Sprintf(`PREPARE %q AS %s`, name, sql), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		run := func(rows string) error {
			_, err := conn.Exec(ctx, execute(name, sql, ids("acc_"), ids("req_"), rows), pgx.QueryExecModeSimpleProtocol)
			return err
		}
		require.NoError(t, run(`0`), "%s: there are none", name)
		var said *pgconn.PgError
		require.ErrorAs(t, run(`3`), &said, "%s: there are none of three", name)
		require.Equal(t, code, said.Code, name)
	}
}

// TestMonthsOfOthersAreLeftAlone looks for requests of one month by the statement of holds: other months, whose number
// grows, are no part of its plan when it runs.
func TestMonthsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	conn := connect(ctx, t, databaseOf(t, t.Name()))
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, postgres.BeginUnit)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `PREPARE settled (text[], text[], text, text) AS `+postgres.ByArrays["requests"],
		pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	id := fmt.Sprintf("req_%012x", time.Now().UnixMilli())
	partitions := 0
	plan := explain(ctx, t, tx, fmt.Sprintf(`EXECUTE settled ('{acc_1}', '{%[1]s}', '%[1]s', '%[1]s')`, id))
	eachNode(plan, func(node map[string]any) {
		if of, is := node["Relation Name"].(string); is && strings.HasPrefix(of, "requests") {
			partitions++
		}
	})
	require.Equal(t, 1, partitions, plan)
	require.NoError(t, tx.Rollback(ctx))
}
