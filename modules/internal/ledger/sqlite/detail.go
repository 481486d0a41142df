package sqlite

import (
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// detail is a settled request as the tables have it, with its attempts. Times are nanoseconds since 1970.
type detail struct {
	id           string
	account, key int64
	owner        string
	endpoint     string
	profile      string
	hold         int64
	status       int
	reason       string
	free         bool
	serviceLimit bool
	surcharge    int64
	charge       int64
	waived       int64
	over         int64
	tokens       int64
	refunded     int64
	pending      bool
	created      int64
	settled      int64
	entry        *int64 // of its charge
	attempts     []tried
}

// tried is one attempt of a detail.
type tried struct {
	seq             int64
	route           string
	provider, model string
	version         int64 // of the route's price
	outcome         ledger.Outcome
	usage           llm.Usage
	created         int64
	receipt         *int64 // when it came
	worst           int64  // below zero: not known
	estimate        *llm.Usage
	key             string // of the provider
	operator        bool   // it is the operator's
}

const selectDetails = `SELECT r.id, t.seq, t.route, t.provider, t.model, t.price_version, t.outcome,
	t.input, t.cache_read, t.cache_write, t.output, t.reasoning, t.estimated, t.created, t.receipt,
	r.account, r.key, r.owner, r.endpoint, r.profile, r.hold, r.status, r.reason, r.free, r.service_limit, r.surcharge,
	r.charge, r.waived, r.tokens, r.refunded, r.pending, r.created, r.settled, r.entry,
	r.over, t.worst, t.estimate_input, t.estimate_output, t.provider_key, t.operator
	FROM requests AS r LEFT JOIN attempts AS t ON t.request = r.id `

// eachDetail reads settled requests in the order of their ids, one at a time: each must not keep the detail that it
// is given. where narrows requests AS r.
func eachDetail(conn *sqlite.Conn, where string, each func(*detail) error, args ...any) error {
	var d detail
	err := run(conn, selectDetails+where+` ORDER BY r.id, t.seq`,
		func(row *sqlite.Stmt) error {
			id := row.ColumnText(0)
			if id != d.id {
				if d.id != "" {
					if err := each(&d); err != nil {
						return err
					}
				}
				d.scan(row)
			}
			if !row.ColumnIsNull(1) {
				d.attempts = append(d.attempts, scanTried(row))
			}
			return nil
		}, args...)
	if err != nil || d.id == "" {
		return err
	}
	return each(&d)
}

func (d *detail) scan(row *sqlite.Stmt) {
	*d = detail{attempts: d.attempts[:0]}
	readColumns(row, 0, &d.id)
	readColumns(row, 15, &d.account, &d.key, &d.owner, &d.endpoint, &d.profile, &d.hold, &d.status, &d.reason, &d.free,
		&d.serviceLimit, &d.surcharge, &d.charge, &d.waived, &d.tokens, &d.refunded, &d.pending, &d.created, &d.settled,
		&d.entry, &d.over)
}

func scanTried(row *sqlite.Stmt) (t tried) {
	u := &t.usage
	readColumns(row, 1, &t.seq, &t.route, &t.provider, &t.model, &t.version, (*string)(&t.outcome), &u.Input,
		&u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning, &u.Estimated, &t.created, &t.receipt)
	t.worst, t.estimate = columnWorst(row, 35), columnEstimate(row, 36)
	readColumns(row, 38, &t.key, &t.operator)
	return t
}

// tariff is what a price version says, in microcents per million tokens.
type tariff struct {
	price, cost config.Price
	found       bool
}

// tariffs reads price versions once. There are as many as prices were changed, some hundred bytes each.
type tariffs struct {
	conn *sqlite.Conn
	read map[version]tariff
}

type version struct {
	route string
	n     int64
}

func newTariffs(conn *sqlite.Conn) *tariffs { return &tariffs{conn: conn, read: map[version]tariff{}} }

// of is the tariff of a route's price version; found is false when there is none.
func (t *tariffs) of(route string, n int64) (tariff, error) {
	v := version{route, n}
	if p, ok := t.read[v]; ok {
		return p, nil
	}
	p, err := readTariff(t.conn, route, n)
	if err == nil {
		t.read[v] = p
	}
	return p, err
}

func readTariff(conn *sqlite.Conn, route string, n int64) (p tariff, err error) {
	err = run(conn, `SELECT `+priceColumns+` FROM prices WHERE route = ? AND version = ?`,
		func(row *sqlite.Stmt) (err error) {
			if p.price, p.cost, err = scanPrices(row, 0); err != nil {
				return disagree(fmt.Sprintf("%s@%d", route, n), "%v", err)
			}
			p.found = true
			return nil
		}, route, n)
	if err != nil {
		err = fmt.Errorf("reading price %s@%d: %w", route, n, err)
	}
	return p, err
}
