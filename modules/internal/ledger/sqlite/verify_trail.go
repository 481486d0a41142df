package sqlite

import (
	"encoding/json"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// verifyTrail checks that the acts are what their hashes were made of, and each account's a chain with as many links
// as the account counts, as are those about none. Those of format 1 are one chain of all, too.
func (v *verification) verifyTrail() error {
	var last, before ledger.Act // in the file, and of the account
	var old, head ledger.Digest // hashes of the last act of format 1, and of the account's last
	var account int64
	err := run(v.conn, selectAct+`ORDER BY u.n`, func(row *sqlite.Stmt) error {
		a, hash := scanAct(row), columnHash(row, 10)
		where := fmt.Sprintf("act/%d", row.ColumnInt64(0))
		switch {
		case a.Format < 1 || a.Format > ledger.ActFormat || a.Format < last.Format:
			return disagree(where, "its hash has format %d, and that of the act before it format %d", a.Format, last.Format)
		case a.Format == 1 && a.N != last.N+1:
			return disagree(where, "act %d of the audit trail is missing before it", last.N+1)
		case a.Account == "" && !row.ColumnIsNull(11):
			return disagree(where, "it is about an account that does not exist, number %d", row.ColumnInt64(11))
		case a.Format == 1 && a.Prev != old:
			return disagree(where, "its link to the act before it is broken")
		case a.Hash() != hash:
			return disagree(where, "it is not what its hash was made of")
		}
		if last = a; a.Format == 1 {
			old = hash
		}
		return nil
	})
	if err != nil {
		return err
	}
	// A chain of its own for each account; 0 is none, for accounts begin at 1.
	account = -1
	err = run(v.conn, selectAct+`ORDER BY coalesce(u.account, 0), u.n`, func(row *sqlite.Stmt) error {
		a := scanAct(row)
		where := fmt.Sprintf("act/%d", row.ColumnInt64(0))
		if n := row.ColumnInt64(11); n != account {
			account, before, head = n, ledger.Act{}, ledger.Digest{}
		}
		switch {
		case a.Seq != before.Seq+1:
			return disagree(where, "act %d of its account is missing before it, which is act %d", before.Seq+1, a.Seq)
		case a.Format > 1 && a.Prev != head:
			return disagree(where, "its link to the act before it is broken")
		}
		before, head = a, columnHash(row, 10)
		return nil
	})
	if err != nil {
		return err
	}
	return run(v.conn, `WITH heads AS MATERIALIZED (SELECT coalesce(account, 0) AS account, max(n), seq, hash FROM `+
		`audit GROUP BY account)
		SELECT counts.id, counts.acts, coalesce(h.seq, 0) FROM (
			SELECT n, id, acts, trail FROM accounts UNION ALL SELECT 0, 'meta', acts, trail FROM meta
		) AS counts LEFT JOIN heads AS h ON h.account = counts.n
		WHERE counts.acts <> coalesce(h.seq, 0) OR counts.trail <> coalesce(h.hash, zeroblob(32)) ORDER BY counts.n LIMIT 1`,
		func(row *sqlite.Stmt) error {
			return disagree(row.ColumnText(0), "it counts %d acts about it and the audit trail has %d, or the last of them "+
				"is another",
				row.ColumnInt64(1), row.ColumnInt64(2))
		})
}

// verifyMade checks that the trail says of each account and key that it was made. Those of a ledger that had no trail
// yet have the smallest numbers.
func (v *verification) verifyMade() error {
	for _, made := range []struct{ table, action string }{{"accounts", "account.create"}, {"keys", "key.create"}} {
		err := run(v.conn, `WITH made AS MATERIALIZED (SELECT t.n FROM audit AS u JOIN `+made.table+` AS t ON t.id = u.subject
			WHERE u.action = ?)
			SELECT id FROM `+made.table+` WHERE n NOT BETWEEN 1 AND (SELECT min(n) FROM made) AND n NOT IN (SELECT n FROM `+
			`made) ORDER BY n LIMIT 1`,
			func(row *sqlite.Stmt) error {
				return disagree(row.ColumnText(0), "the audit trail does not say that it was made")
			}, made.action)
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyLines compares which keys are a line, and so share a cap, with the rotations that the trail has: a key that
// replaced another is of the other's line, and every other key begins its own.
func (v *verification) verifyLines() error {
	return run(v.conn, `WITH rotated AS MATERIALIZED (
			SELECT after ->> 'replaced_by' AS id, subject AS old, n AS act FROM audit WHERE action = 'key.rotate')
		SELECT k.id, o.id, r.act FROM keys AS k LEFT JOIN rotated AS r ON r.id = k.id LEFT JOIN keys AS o ON o.id = r.old
		WHERE k.root IS NOT iif(r.act IS NULL, k.n, o.root) ORDER BY k.n LIMIT 1`, func(row *sqlite.Stmt) error {
		if row.ColumnIsNull(2) {
			return disagree(row.ColumnText(0),
				"it shares the cap of another key, and the audit trail does not say that it replaced one")
		}
		return disagree(row.ColumnText(0), "it does not share the cap of %s, which it replaced by act %d of the audit trail",
			row.ColumnText(1), row.ColumnInt64(2))
	})
}

// said is what the trail said last of the fields of an account or a key: values as JSON.
type said struct {
	subject string
	values  map[string]string
	at      map[string]int64 // the act that said it
}

// verify_caps has the caps of lines with several keys: a cap that was changed through one of them is all of theirs.
const createCaps = `CREATE TEMP TABLE verify_caps (root INTEGER PRIMARY KEY, act INTEGER NOT NULL, spend_cap TEXT ` +
	`NOT NULL) STRICT`

// verifySaid compares what accounts and keys are with what the audit trail said last of them. Those of a ledger
// that had no trail yet are compared in what was changed since.
func (v *verification) verifySaid() error {
	if err := run(v.conn, createCaps, nil); err != nil {
		return err
	}
	s := said{}
	// Of a group the value is that of the row with the largest number (SQLite, "bare columns in an aggregate query").
	err := run(v.conn, `SELECT u.subject, j.key, json_quote(j.value), max(u.n) FROM audit AS u CROSS JOIN `+
		`json_each(u.after) AS j
		WHERE u.after <> '' AND (u.action LIKE 'account.%' OR u.action LIKE 'key.%') GROUP BY u.subject, j.key`,
		func(row *sqlite.Stmt) error {
			if subject := row.ColumnText(0); subject != s.subject {
				if err := v.compareSaid(&s); err != nil {
					return err
				}
				s = said{subject: subject, values: map[string]string{}, at: map[string]int64{}}
			}
			field := row.ColumnText(1)
			s.values[field], s.at[field] = row.ColumnText(2), row.ColumnInt64(3)
			return nil
		})
	if err != nil {
		return err
	}
	if err := v.compareSaid(&s); err != nil {
		return err
	}
	if err := v.verifyUnsaid(); err != nil {
		return err
	}
	err = run(v.conn, `SELECT k.id, k.spend_cap, l.act, l.spend_cap FROM temp.verify_caps AS l JOIN keys AS k ON k.n = `+
		`l.root
		WHERE l.spend_cap <> json_quote(k.spend_cap)`, func(row *sqlite.Stmt) error {
		return disagree(row.ColumnText(0), "the key has a cap of %d microcents, act %d of the audit trail says %s",
			row.ColumnInt64(1), row.ColumnInt64(2), row.ColumnText(3))
	})
	if err != nil {
		return err
	}
	return v.verifyPruned()
}

// compareSaid compares one account or key.
func (v *verification) compareSaid(s *said) error {
	if len(s.values) == 0 {
		return nil
	}
	found := false
	compare := func(row *sqlite.Stmt) error {
		found = true
		for i := range row.ColumnCount() {
			name := row.ColumnName(i)
			says, ok := s.values[name]
			if unset, setting := unsetSettings[name]; setting && !ok {
				says, ok = unset, true
			}
			if ok && says != row.ColumnText(i) {
				return disagree(s.subject, "its %s is %s, the audit trail says %s", name, row.ColumnText(i), says)
			}
		}
		return nil
	}
	err := v.compareCreated(s)
	if err != nil {
		return err
	}
	err = run(v.conn, `SELECT json_quote(name) AS name, json_quote(plan) AS plan, json_quote(state) AS state`+
		quotedSettings+`
		FROM accounts AS a WHERE id = ?`,
		compare, s.subject)
	if err != nil || found {
		return err
	}
	if _, made := s.values["fingerprint"]; made && s.values["revoked"] == "" {
		s.values["revoked"] = "0"
	}
	err = run(v.conn, `SELECT json_quote(name) AS name, json_quote(last4) AS last4, json_quote(revoked) AS revoked,
		json_quote(lower(hex(substr(hash, 1, 8)))) AS fingerprint FROM keys WHERE id = ?`, compare, s.subject)
	switch {
	case err != nil:
		return err
	case !found:
		return disagree(s.subject, "it is missing, act %d of the audit trail says that it was made", s.at["name"])
	}
	return v.compareKey(s)
}

// compareCreated compares when an account or a key was made. Acts of an older fareway do not say it.
func (v *verification) compareCreated(s *said) error {
	says, ok := s.values["created"]
	if !ok {
		return nil
	}
	return run(v.conn, `SELECT created FROM accounts WHERE id = ?1 UNION ALL SELECT created FROM keys WHERE id = ?1`,
		func(row *sqlite.Stmt) error {
			if is := quoted(moment(row.ColumnInt64(0)).Format(time.RFC3339Nano)); is != says {
				return disagree(s.subject, "it was made at %s, act %d of the audit trail says %s", is, s.at["created"], says)
			}
			return nil
		}, s.subject)
}

// compareKey compares what the trail writes in another way than the table: times, and the caps of lines.
func (v *verification) compareKey(s *said) error {
	return run(v.conn, `SELECT expires, root, n <> root, spend_cap FROM keys WHERE id = ?`, func(row *sqlite.Stmt) error {
		expires, ok := s.values["expires"]
		if is := quoted(book.SayExpiry(ledger.Key{Expires: columnOptionalTime(row, 0)})); ok && expires != is {
			return disagree(s.subject, "it expires %s, act %d of the audit trail says %s", is, s.at["expires"], expires)
		}
		says, ok := s.values["spend_cap_microcents"]
		if _, rotated := s.values["replaced_by"]; !ok || rotated || row.ColumnBool(2) {
			if !ok {
				return nil
			}
			return run(v.conn, `INSERT INTO temp.verify_caps (root, act, spend_cap) VALUES (?, ?, ?)
				ON CONFLICT DO UPDATE SET act = excluded.act, spend_cap = excluded.spend_cap WHERE excluded.act > act`, nil,
				row.ColumnInt64(1), s.at["spend_cap_microcents"], says)
		}
		if is := fmt.Sprint(row.ColumnInt64(3)); says != is {
			return disagree(s.subject, "it has a cap of %s microcents, act %d of the audit trail says %s", is,
				s.at["spend_cap_microcents"], says)
		}
		return nil
	}, s.subject)
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // a string always can be
	return string(b)
}

// verifyPruned compares since when every request has to be there with what the trail said last of it.
func (v *verification) verifyPruned() error {
	is := ""
	if v.pruned != 0 {
		is = moment(v.pruned).Format(time.RFC3339Nano)
	}
	says := ""
	err := run(v.conn,
		`SELECT after ->> 'settled_before' FROM audit WHERE action = 'ledger.prune' ORDER BY n DESC LIMIT 1`,
		func(row *sqlite.Stmt) error {
			says = row.ColumnText(0)
			return nil
		})
	if err == nil && says != is {
		err = disagree("meta", "the detail of requests is to be there since %q, the audit trail says %q", is, says)
	}
	return err
}
