package sqlite

import (
	"strings"

	"zombiezen.com/go/sqlite"
)

// dayColumns are those that days sums.
var dayColumns = []string{"parts", "settled", "requests", "pending", "whole_requests", "whole_pending", "attempts",
	"microcents", "waived", "over", "refunded", "cost", "input", "cache_read", "cache_write", "output",
	"reasoning", "estimated"}

// verifyDays compares the sums of days with the requests that are there, and those of pruned ones with what was
// written down of each key.
func (v *verification) verifyDays() error {
	err := run(v.conn, `SELECT summed FROM meta WHERE summed <> 0
		AND summed NOT IN (SELECT n FROM entries WHERE n = summed AND kind = 'charge')`, func(row *sqlite.Stmt) error {
		return disagree("days", "they say that they go up to entry %d of the journal, which is no settlement",
			row.ColumnInt64(0))
	})
	if err != nil {
		return err
	}
	if v.from > 0 {
		return v.verifyPrunedDays() // not all requests were looked at
	}
	if err := v.days.flush(); err != nil {
		return err
	}
	differs := make([]string, len(dayColumns))
	for i, c := range dayColumns {
		differs[i] = `coalesce(f.` + c + `, 0) <> coalesce(d.` + c + `, 0)`
	}
	err = run(v.conn, `WITH found AS MATERIALIZED (SELECT day, key, route, `+summedUsage+`
			FROM temp.usage_rows GROUP BY day, key, route),
		kept AS (SELECT * FROM days WHERE NOT pruned)
		SELECT coalesce(d.day, f.day), coalesce(d.key, f.key), coalesce(d.route, f.route)
		FROM kept AS d FULL JOIN found AS f ON f.day = d.day AND f.key = d.key AND f.route = d.route
		WHERE (f.day IS NULL) <> (d.day IS NULL) OR `+strings.Join(differs, " OR ")+`
		ORDER BY 1, 2, 3 LIMIT 1`, func(row *sqlite.Stmt) error {
		return disagree("day/"+dateOf(row.ColumnInt64(0)), "the sums of its requests with key number %d and route %q are "+
			"not what these make", row.ColumnInt64(1), row.ColumnText(2))
	})
	if err != nil {
		return err
	}
	return v.verifyPrunedDays()
}

func (v *verification) verifyPrunedDays() error {
	return run(v.conn, `WITH sums AS MATERIALIZED (SELECT key, sum(settled) AS requests, sum(pending) AS pending,
			sum(whole_pending) AS whole_pending, sum(microcents) AS charge, sum(waived) AS waived, sum(refunded) AS refunded
			FROM days WHERE pruned GROUP BY key)
		SELECT coalesce(p.key, s.key) FROM pruned AS p FULL JOIN sums AS s ON s.key = p.key
		WHERE p.charge IS NOT s.charge OR p.waived IS NOT s.waived OR p.refunded IS NOT s.refunded
			OR p.requests IS NOT s.requests OR s.pending <> 0 OR s.whole_pending <> 0
		ORDER BY 1 LIMIT 1`, func(row *sqlite.Stmt) error {
		return disagree("pruned", "the sums by day of the pruned requests of key number %d are not what they came to",
			row.ColumnInt64(0))
	})
}
