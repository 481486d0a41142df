package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
)

// selectDetails reads an entry's number of 0 as -1, like auditEntries.
const selectDetails = `SELECT r.id, t.seq, t.route, t.provider, t.model, t.price_version, t.outcome,
	t.input, t.cache_read, t.cache_write, t.output, t.reasoning, t.estimated, t.created, t.receipt,
	r.account, r.key, r.owner, r.endpoint, r.profile, r.hold, r.status, r.reason, r.free, r.service_limit, r.surcharge,
	r.charge, r.waived, r.tokens, r.refunded, r.pending, r.created, r.settled, iif(r.entry = 0, -1, r.entry),
	r.over, t.worst, t.estimate_input, t.estimate_output, t.provider_key, t.operator
	FROM requests AS r LEFT JOIN attempts AS t ON t.request = r.id `

// eachDetail reads settled requests with their attempts, in the order of their ids, one at a time: each must not keep
// the one that it is given. where narrows requests AS r. Ids of accounts and keys are not filled in, nor are prices.
func eachDetail(conn *sqlite.Conn, where string, each func(*audit.Request) error, args ...any) error {
	var r audit.Request
	err := run(conn, selectDetails+where+` ORDER BY r.id, t.seq`,
		func(row *sqlite.Stmt) error {
			id := row.ColumnText(0)
			if id != r.ID {
				if r.ID != "" {
					if err := each(&r); err != nil {
						return err
					}
				}
				scanRequest(row, &r)
			}
			if !row.ColumnIsNull(1) {
				r.Attempts = append(r.Attempts, scanAttempt(row, id))
			}
			return nil
		}, args...)
	if err != nil || r.ID == "" {
		return err
	}
	return each(&r)
}

func scanRequest(row *sqlite.Stmt, r *audit.Request) {
	*r = audit.Request{RequestRecord: ledger.RequestRecord{Attempts: r.Attempts[:0]}}
	readColumns(row, 0, &r.ID)
	readColumns(row, 15, &r.AccountNumber, &r.KeyNumber, &r.Owner, &r.Endpoint, &r.Profile, &r.Held, &r.Status, &r.Reason,
		&r.Free, &r.ServiceLimit, &r.Surcharge, &r.Microcents, &r.Waived, &r.Tokens, &r.Refunded, &r.Pending, &r.Created,
		&r.Settled, &r.Entry, &r.Over)
}

func scanAttempt(row *sqlite.Stmt, request string) (a ledger.AttemptRecord) {
	var seq int64
	u := &a.Usage
	readColumns(row, 1, &seq, &a.Route, &a.Provider, &a.Model, &a.PriceVersion, (*string)(&a.Outcome), &u.Input,
		&u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning, &u.Estimated, &a.Created, &a.Receipt)
	a.ID, a.Worst, a.Estimate = ledger.AttemptID(request, seq), columnWorst(row, 35), columnEstimate(row, 36)
	readColumns(row, 38, &a.Key, &a.Operator)
	return a
}

// tariff is what a price version says, in microcents per million tokens.
type tariff struct {
	price, cost config.Price
	found       bool
}

// tariffs reads price versions once. There are as many as prices were changed, some hundred bytes each.
type tariffs struct {
	conn *sqlite.Conn
	read map[priceID]tariff
}

func newTariffs(conn *sqlite.Conn) *tariffs { return &tariffs{conn: conn, read: map[priceID]tariff{}} }

// fill fills in the prices of attempts; those of a version that does not exist are zero.
func (t *tariffs) fill(attempts []ledger.AttemptRecord) error {
	for i := range attempts {
		a := &attempts[i]
		id := priceID{a.Route, a.PriceVersion}
		p, ok := t.read[id]
		if !ok {
			var err error
			if p, err = readTariff(t.conn, a.Route, a.PriceVersion); err != nil {
				return err
			}
			t.read[id] = p
		}
		a.Price, a.Cost = p.price, p.cost
	}
	return nil
}

func readTariff(conn *sqlite.Conn, route string, n int64) (p tariff, err error) {
	err = run(conn, `SELECT `+priceColumns+` FROM prices WHERE route = ? AND version = ?`,
		func(row *sqlite.Stmt) (err error) {
			p.found = true
			p.price, p.cost, err = scanPrices(row, 0)
			return err
		}, route, n)
	return p, wrap(err, "reading price %s@%d", route, n)
}
