package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
)

// Request implements ledger.Books. ErrNotFound also for a request whose detail was pruned; its entries are still
// listed by Entries.
func (b *books) Request(ctx context.Context, id string) (ledger.RequestRecord, error) {
	var r ledger.RequestRecord
	err := b.list(ctx, "request", func(conn *sqlite.Conn) (err error) {
		found := false
		if r, found, err = settledRecord(conn, id); err != nil || found {
			return err
		}
		if r, found, err = runningRecord(conn, id); err == nil && !found {
			err = fmt.Errorf("%w: a request with this id; the detail of old ones is removed after the retention time",
				ledger.ErrNotFound)
		}
		return err
	})
	return wrapResult(r, err, "reading request %q", id)
}

func settledRecord(conn *sqlite.Conn, id string) (r ledger.RequestRecord, found bool, err error) {
	err = eachDetail(conn, `WHERE r.id = ?`, func(is *audit.Request) (err error) {
		found = true
		if err = newTariffs(conn).fill(is.Attempts); err == nil {
			err = fillIDs(conn, &is.RequestRecord, is.AccountNumber, is.KeyNumber)
		}
		if err == nil {
			is.Entries, err = entriesOf(conn, is)
		}
		r = is.RequestRecord
		return err
	}, id)
	return r, found, err
}

// fillIDs fills in the ids of the account and the key.
func fillIDs(conn *sqlite.Conn, r *ledger.RequestRecord, account, key int64) error {
	return run(conn, `SELECT (SELECT id FROM accounts WHERE n = ?), (SELECT id FROM keys WHERE n = ?)`,
		to(&r.Account, &r.Key), account, key)
}

// Pruned implements ledger.Books. No index has the charges of requests, for it would cost every charge: the journal is
// read through.
func (b *books) Pruned(ctx context.Context, id string) (ledger.PrunedRequest, error) {
	p := ledger.PrunedRequest{ID: id}
	err := b.list(ctx, "pruned", func(conn *sqlite.Conn) error {
		kept, before := false, int64(0)
		err := run(conn, `SELECT pruned_before, EXISTS (SELECT 1 FROM requests WHERE id = ?) FROM meta`,
			to(&before, &kept), id)
		if err == nil && before != 0 && !kept {
			err = run(conn, entriesAbout, func(row *sqlite.Stmt) error {
				p.Add(published(scanEntry(row)))
				return nil
			}, id)
		}
		if err == nil && len(p.Entries) == 0 {
			err = fmt.Errorf("%w: a request with this id whose detail was pruned", ledger.ErrNotFound)
		}
		return err
	})
	return wrapResult(p, err, "looking for request %q in the journal", id)
}

// PrunedBefore implements ledger.Books.
func (b *books) PrunedBefore(ctx context.Context) (before time.Time, err error) {
	err = b.brief(ctx, "pruned_before", func(conn *sqlite.Conn) error {
		return run(conn, `SELECT pruned_before FROM meta WHERE pruned_before <> 0`, to(&before))
	})
	return wrapResult(before, err, "reading what was pruned")
}

const (
	entriesAbout = `SELECT ` + entryColumns +
		` FROM entries AS e CROSS JOIN accounts AS a ON a.n = e.account WHERE e.request = ? ORDER BY e.n`
	entryByNumber = `SELECT ` + entryColumns +
		` FROM entries AS e CROSS JOIN accounts AS a ON a.n = e.account WHERE e.n = ?`
	laterEntries = `SELECT ` + entryColumns + ` FROM entries AS e INDEXED BY later CROSS JOIN accounts AS a ON a.n = ` +
		`e.account
		WHERE e.request = ? AND (e.kind = 'receipt' OR e.kind = 'closing' OR e.kind = 'refund') ORDER BY e.n`
)

// entriesOf are those that moved money for a request: its charge, and what came later.
func entriesOf(conn *sqlite.Conn, r *audit.Request) (entries []ledger.Entry, err error) {
	row := appendTo(&entries, func(row *sqlite.Stmt) ledger.Entry { return published(scanEntry(row)) })
	if err := run(conn, entryByNumber, row, r.Entry); err != nil {
		return nil, err
	}
	err = run(conn, laterEntries, row, r.ID)
	return entries, err
}

func runningRecord(conn *sqlite.Conn, id string) (r ledger.RequestRecord, found bool, err error) {
	var account, key int64
	err = run(conn, `SELECT seq, route, provider, model, price_version, created, account, key, owner, endpoint, profile,
		hold, worst
		FROM holds WHERE request = ? ORDER BY seq`, func(row *sqlite.Stmt) error {
		var seq int64
		var a ledger.AttemptRecord
		is := ledger.RequestRecord{ID: id, Running: true}
		readColumns(row, 0, &seq, &a.Route, &a.Provider, &a.Model, &a.PriceVersion, &a.Created, &account, &key, &is.Owner,
			&is.Endpoint, &is.Profile, &is.Held)
		if !found {
			found = true
			r = is
			r.Created = a.Created
		}
		if seq > 0 { // 0 is the hold's own
			a.ID, a.Worst = ledger.AttemptID(id, seq), columnWorst(row, 12)
			r.Attempts = append(r.Attempts, a)
		}
		return nil
	}, id)
	if err == nil {
		err = newTariffs(conn).fill(r.Attempts)
	}
	if err != nil || !found {
		return r, found, err
	}
	return r, true, fillIDs(conn, &r, account, key)
}

// moment is the time that the tables have as nanoseconds since 1970.
func moment(ns int64) time.Time { return time.Unix(0, ns).UTC() }
