package sqlite

import (
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// verifyPairs compares how many entries are about requests with how many of them the requests accounted for. Each
// request accounts for its own only, so that equal numbers mean the same entries. Requests that were settled before
// the last pruning may be without detail: of their settlements the moment shows it, and what they came to is
// compared account by account, in verifyAccounts.
func (v *verification) verifyPairs() error {
	for _, kind := range []ledger.EntryKind{ledger.Charged, ledger.Receipt, ledger.Closing, ledger.Refund} {
		all, found := v.counted[kind], v.found[kind]
		if v.pruned == 0 && all.all != found.all || kind == ledger.Charged && all.young != found.young {
			return v.unpaired(kind, all.all-found.all)
		}
	}
	return nil
}

// unpaired names the first entry about a request that the request knows nothing of.
func (v *verification) unpaired(kind ledger.EntryKind, n int64) error {
	err := run(v.conn, `SELECT e.n, a.id || '/' || e.seq, e.kind, e.request, r.id IS NULL
		FROM entries AS e CROSS JOIN accounts AS a ON a.n = e.account LEFT JOIN requests AS r ON r.id = e.request
		WHERE e.request IS NOT NULL AND CASE
			WHEN r.id IS NULL THEN ?1 = 0 OR e.created >= ?1 AND e.kind = 'charge'
			WHEN e.kind = 'charge' THEN r.entry IS NOT e.n
			WHEN e.kind = 'refund' THEN r.refunded = 0
			WHEN e.kind = 'closing' THEN NOT EXISTS (SELECT 1 FROM attempts AS t WHERE t.request = e.request AND t.outcome = `+
		`'closed')
			ELSE NOT EXISTS (SELECT 1 FROM attempts AS t WHERE t.request = e.request AND t.receipt = e.created)
		END ORDER BY e.n LIMIT 1`, func(row *sqlite.Stmt) error {
		why := "which knows nothing of it"
		if row.ColumnBool(4) {
			why = "whose detail is missing"
		}
		return entryDisagrees(row.ColumnInt64(0), row.ColumnText(1), "it is a %s for request %q, %s", row.ColumnText(2),
			row.ColumnText(3), why)
	}, v.pruned)
	if err != nil {
		return err
	}
	return disagree("journal", "it has %d entries of the kind %s more than the requests account for", n, kind)
}

// verifyCheckpoints recomputes the checkpoints and compares those that were kept elsewhere.
func (v *verification) verifyCheckpoints() error {
	var last ledger.Checkpoint
	kept := map[int64][]ledger.Checkpoint{}
	for _, k := range v.how.Kept {
		kept[k.N] = append(kept[k.N], k)
	}
	err := run(v.conn, selectCheckpoint+`ORDER BY n`, func(row *sqlite.Stmt) error {
		v.report.Checkpoints++
		c := scanCheckpoint(row)
		where := checkpointName(c.N)
		switch {
		case c.N != last.N+1:
			return disagree(where, "checkpoint %d is missing before it", last.N+1)
		case c.Entries < last.Entries || c.Entries > v.from+v.report.Entries:
			return disagree(where, "it is over %d entries, the one before it over %d, and the journal has %d", c.Entries,
				last.Entries, v.from+v.report.Entries)
		case c.Format < last.Format || c.Acts < last.Acts:
			return disagree(where, "it is over %d acts in format %d, the one before it over %d in format %d", c.Acts, c.Format,
				last.Acts, last.Format)
		case c.Entries == last.Entries && c.Acts == last.Acts:
			return disagree(where, "it is over nothing that the one before it is not over")
		case c.Prev != last.Hash:
			return disagree(where, "its link to the checkpoint before it is broken")
		}
		if v.how.From != nil && c.N < v.how.From.N {
			last = c
			delete(kept, c.N)
			return nil
		}
		again := c
		again.Hash = ledger.Digest{}
		again, err := sealed(v.conn, again, last)
		switch {
		case err != nil:
			return err
		case again.Trail != c.Trail:
			return disagree(where,
				"the audit trail, of which it is over the first %d acts, is not the one that it was made over", c.Acts)
		case again.Hash != c.Hash:
			return disagree(where, "it is not what the heads of the accounts make after entry %d", c.Entries)
		}
		for _, k := range kept[c.N] {
			if k.Hash != c.Hash || k.Prev != c.Prev || k.Entries != c.Entries || k.Acts != c.Acts || k.Trail != c.Trail ||
				!k.Created.Equal(c.Created) {
				return disagree(where, "it is not the one that was kept: entries up to %d or acts up to %d were rewritten after "+
					"it was made", k.Entries, k.Acts)
			}
		}
		delete(kept, c.N)
		last = c
		return nil
	})
	if err != nil {
		return err
	}
	err = run(v.conn, `SELECT checkpoints, checkpoint FROM meta`, func(row *sqlite.Stmt) error {
		if n := row.ColumnInt64(0); n != last.N || columnHash(row, 1) != last.Hash {
			return disagree(checkpointName(max(n, last.N)),
				"the ledger counts %d checkpoints, and has others: some were removed or put in", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range v.how.Kept {
		if _, missing := kept[k.N]; missing {
			return disagree(checkpointName(k.N), "it was kept elsewhere and the ledger does not have it: what came after "+
				"checkpoint %d was cut off", last.N)
		}
	}
	return nil
}

func checkpointName(n int64) string { return fmt.Sprintf("checkpoint/%d", n) }

// The sums, in temporary tables: of the entries by account, and of the settled requests by key, by account and by
// line of keys. Of requests whose detail was pruned they have what was written down of them.
var createSums = []string{
	`CREATE TEMP TABLE verify_entries (account INTEGER PRIMARY KEY, entries, spent, refunded)`,
	`CREATE TEMP TABLE verify_keys (account, key, requests, tokens, charge, waived, refunded, PRIMARY KEY (account, ` +
		`key)) WITHOUT ROWID`,
	`CREATE TEMP TABLE verify_requests (account INTEGER PRIMARY KEY, requests, tokens, charge, waived, refunded)`,
	`CREATE TEMP TABLE verify_lines (root INTEGER PRIMARY KEY, charge)`,
	`INSERT INTO verify_entries SELECT account, count(*),
		-sum(iif(kind IN ('charge', 'receipt', 'closing'), microcents, 0)), sum(iif(kind = 'refund', microcents, 0))
		FROM entries GROUP BY account`,
	`INSERT INTO verify_keys SELECT account, key, sum(n), sum(tokens), sum(charge), sum(waived), sum(refunded)
		FROM (SELECT account, key, 1 AS n, tokens, charge, waived, refunded FROM requests
			UNION ALL SELECT coalesce(k.account, 0), p.key, p.requests, p.tokens, p.charge, p.waived, p.refunded
			FROM pruned AS p LEFT JOIN keys AS k ON k.n = p.key)
		GROUP BY account, key`,
	`INSERT INTO verify_requests SELECT account, sum(requests), sum(tokens), sum(charge), sum(waived), sum(refunded)
		FROM verify_keys GROUP BY account`,
	`INSERT INTO verify_lines SELECT k.root, sum(w.charge) FROM verify_keys AS w JOIN keys AS k ON k.n = w.key GROUP BY ` +
		`k.root`,
}

// sum fills the temporary tables.
func (v *verification) sum() error {
	for _, query := range createSums {
		err := run(v.conn, query, nil)
		if err != nil && strings.Contains(err.Error(), "integer overflow") {
			// Entries and requests were looked at one by one, and none is as large as that.
			return disagree("pruned", "what pruned requests came to is more than any ledger can hold")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const accountsWithSums = `SELECT ` + accountColumns + `, coalesce(e.entries, 0), coalesce(e.spent, 0), ` +
	`coalesce(e.refunded, 0),
	coalesce(w.requests, 0), coalesce(w.tokens, 0), coalesce(w.charge, 0), coalesce(w.waived, 0), coalesce(w.refunded, 0),
	a.period IS NULL, a.period_end IS NULL, b.last IS NULL, (b.line IS NULL) = (b.line_spent = 0), a.allotted IS NULL
	FROM accounts AS a LEFT JOIN balances AS b ON b.n = a.n LEFT JOIN temp.verify_entries AS e ON e.account = a.n LEFT ` +
	`JOIN temp.verify_requests AS w ON w.account = a.n
	ORDER BY a.n`

const strayBalances = `SELECT b.n FROM balances AS b LEFT JOIN accounts AS a ON a.n = b.n WHERE a.n IS NULL ORDER BY ` +
	`b.n LIMIT 1`

// verifyAccounts compares each account's balance with its last entry, and its counters with what its entries and
// requests come to.
func (v *verification) verifyAccounts() error {
	if err := run(v.conn, accountsWithSums, v.account); err != nil {
		return err
	}
	return run(v.conn, strayBalances, func(row *sqlite.Stmt) error {
		return disagree(fmt.Sprintf("balance/%d", row.ColumnInt64(0)), "it is of no account")
	})
}

func (v *verification) account(row *sqlite.Stmt) error {
	v.report.Accounts++
	a := scanRow(row)
	v.report.Sums["accounts"] += a.Net()
	column := func(i int) int64 { return row.ColumnInt64(accountWidth + i) }
	entries, spent, refunded := column(0), column(1), column(2)
	requests, tokens, charge, waived, givenBack := column(3), column(4), column(5), column(6), column(7)
	switch {
	case row.ColumnIsNull(balanceColumn):
		return disagree(a.ID, "the account has no balance")
	case a.Entries != entries:
		return disagree(a.ID, "the account counts %d entries and the journal has %d", a.Entries, entries)
	case a.Requests != requests:
		return disagree(a.ID, "the account counts %d settled requests, and with those that were pruned there are %d",
			a.Requests, requests)
	case charge != spent:
		return disagree(a.ID, "its requests were charged %d microcents, the journal says %d", charge, spent)
	case givenBack != refunded:
		return disagree(a.ID, "%d microcents of its requests were refunded, the journal says %d", givenBack, refunded)
	case a.Ever.Spent != spent:
		return disagree(a.ID, "the account counts %d microcents as spent, its charges make %d", a.Ever.Spent, spent)
	case a.Ever.Tokens != tokens:
		return disagree(a.ID, "the account counts %d tokens, its requests make %d", a.Ever.Tokens, tokens)
	case a.Ever.Waived != waived:
		return disagree(a.ID, "the account counts %d microcents as left free, its requests make %d", a.Ever.Waived, waived)
	case !row.ColumnBool(accountWidth + 11):
		return disagree(a.ID, "the account names a key that paid last without what that spent, or the other way round")
	}
	if err := v.lastEntry(a, row.ColumnBool(accountWidth+10)); err != nil {
		return err
	}
	return v.verifyPeriod(a, row.ColumnBool(accountWidth+8), row.ColumnBool(accountWidth+9),
		row.ColumnBool(accountWidth+12))
}

// lastEntry compares an account with the entry that it names as its last.
func (v *verification) lastEntry(a *account, none bool) error {
	var l link
	err := run(v.conn, `SELECT n, account, seq, hash, credits, accrued FROM entries WHERE n = ?`,
		func(row *sqlite.Stmt) error {
			l = scanLink(row)
			return nil
		}, a.last)
	switch {
	case err != nil:
		return err
	case none != (a.Entries == 0):
		return disagree(a.ID, "the account has %d entries and names entry %d of the journal as its last", a.Entries, a.last)
	case !none && l.account != a.n || l.seq != a.Entries:
		return disagree(a.ID, "entry %d of the journal, which the account names as its last, is not its entry %d", a.last,
			a.Entries)
	case a.Head != l.hash:
		return disagree(a.ID, "the head of the account's hash chain is not its last entry's hash")
	case a.Credits != l.credits || a.Accrued != l.accrued:
		return disagree(a.ID, "the account has %d credits and %d microcents accrued, its entries make %d and %d",
			a.Credits, a.Accrued, l.credits, l.accrued)
	}
	return nil
}

// verifyPeriod checks an account's period, its allotment and the counters of its beginning. Why a period began when it
// did (a plan that gains periods, which is in the configuration) is not recorded, so what was counted before it is
// known to be no more than what was ever; nor is what a plan gives, so that a period may have no allotment.
func (v *verification) verifyPeriod(a *account, noNumber, noEnd, noAllotted bool) error {
	if noNumber != noEnd || noNumber != noAllotted {
		return disagree(a.ID, "the account has a part of a period: its number, its end, or whether it has its credits")
	}
	ever, before := a.Ever, a.Before
	if !a.Period.Begun() {
		if before != (book.Counters{}) {
			return disagree(a.ID, "the account has no periods, and what it counts does not begin with nothing")
		}
		return nil
	}
	switch end := ledger.PeriodEnd(a.Created, a.Period.Number); {
	case !end.Equal(a.Period.End):
		return disagree(a.ID, "period %d of the account ends at %s, and not at %s", a.Period.Number, end, a.Period.End)
	case outside(before.Spent, ever.Spent) || outside(before.Tokens, ever.Tokens) || outside(before.Waived, ever.Waived):
		return disagree(a.ID, "the account's period began at %d microcents spent, %d tokens and %d microcents left free; "+
			"there are %d, %d and %d now",
			before.Spent, before.Tokens, before.Waived, ever.Spent, ever.Tokens, ever.Waived)
	case a.Period.Allotted:
		return nil
	}
	return run(v.conn, findReference, func(*sqlite.Stmt) error {
		return disagree(a.ID, "period %d of the account does not say that it has its credits, and the journal has them",
			a.Period.Number)
	}, a.n, true, a.PeriodName())
}

func outside(n, limit int64) bool { return n < 0 || n > limit }

const keysWithSums = `SELECT k.id, k.n = k.root, k.spend_cap, k.spent + iif(b.line = k.n, b.line_spent, 0), ` +
	`k.spent_before,
	a.n IS NULL, a.period IS NULL, r.root IS k.root AND r.account IS k.account, coalesce(s.charge, 0)
	FROM keys AS k LEFT JOIN accounts AS a ON a.n = k.account LEFT JOIN balances AS b ON b.n = k.account LEFT JOIN keys ` +
	`AS r ON r.n = k.root
	LEFT JOIN temp.verify_lines AS s ON s.root = k.n ORDER BY k.n`

// verifyKeys compares what lines of keys spent with the requests of all their keys. Only the first key of a line
// counts.
func (v *verification) verifyKeys() error {
	err := run(v.conn, `SELECT w.account, w.key FROM temp.verify_keys AS w LEFT JOIN keys AS k ON k.n = w.key
		WHERE k.account IS NOT w.account LIMIT 1`, func(row *sqlite.Stmt) error {
		return v.strangers(row.ColumnInt64(0), row.ColumnInt64(1))
	})
	if err != nil {
		return err
	}
	return run(v.conn, keysWithSums, func(row *sqlite.Stmt) error {
		id, first := row.ColumnText(0), row.ColumnBool(1)
		limit, spent, before := row.ColumnInt64(2), row.ColumnInt64(3), row.ColumnInt64(4)
		switch {
		case row.ColumnBool(5):
			return disagree(id, "the key belongs to an account that does not exist")
		case !row.ColumnBool(7):
			return disagree(id, "the key replaces one that is not the first of a line of keys of its account")
		case !first && (limit != 0 || spent != 0 || before != 0):
			return disagree(id, "the key has a cap or counts what it spent, which only the first key of its line does")
		case first && spent != row.ColumnInt64(8):
			return disagree(id, "the key and those that replaced it count %d microcents as spent, their requests make %d", spent,
				row.ColumnInt64(8))
		case before < 0 || before > spent || before > 0 && row.ColumnBool(6):
			return disagree(id, "the key counts from %d microcents on and has spent %d", before, spent)
		}
		return nil
	})
}

// strangers names what belongs to a key that does not exist, or that is another account's.
func (v *verification) strangers(account, key int64) error {
	err := run(v.conn, `SELECT id FROM requests WHERE account = ? AND key = ? ORDER BY id LIMIT 1`,
		func(row *sqlite.Stmt) error {
			return disagree(row.ColumnText(0), "its key, number %d, is none of its account's", key)
		}, account, key)
	if err != nil {
		return err
	}
	return disagree("pruned", "it names the key number %d, which does not exist", key)
}
