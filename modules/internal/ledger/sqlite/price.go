package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// PriceVersion implements ledger.Store.
func (s *Store) PriceVersion(ctx context.Context, route string, price, cost config.Price) (version int64, err error) {
	err = s.write(ctx, "price_version", func(t *tx) error {
		var known []book.Price
		err := t.query(`SELECT version, `+priceColumns+` FROM prices WHERE route = ? ORDER BY version`,
			func(row *sqlite.Stmt) (err error) {
				p := book.Price{Version: row.ColumnInt64(0)}
				p.Price, p.Cost, err = scanPrices(row, 1)
				known = append(known, p)
				return err
			}, route)
		if err != nil {
			return err
		}
		version, err = book.DecidePrice(known, price, cost)
		if err != nil || version <= int64(len(known)) {
			return err
		}
		return t.exec(`INSERT INTO prices (route, version, `+priceColumns+`, since) `+
			`VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			route, version, price.Input, price.CacheRead, price.CacheWrite, price.Output, book.TiersText(price.Tiers),
			cost.Input, cost.CacheRead, cost.CacheWrite, cost.Output, book.TiersText(cost.Tiers), t.now())
	})
	return wrapResult(version, err, "recording the price of route %q", route)
}

// priceColumns are what scanPrices reads.
const priceColumns = `input, cache_read, cache_write, output, tiers, ` +
	`cost_input, cost_cache_read, cost_cache_write, cost_output, cost_tiers`

// scanPrices reads priceColumns from col on: what the account pays, and what the operator does.
func scanPrices(row *sqlite.Stmt, col int) (price, cost config.Price, err error) {
	if price, err = scanPrice(row, col); err == nil {
		cost, err = scanPrice(row, col+5)
	}
	return price, cost, err
}

func scanPrice(row *sqlite.Stmt, col int) (config.Price, error) {
	var p config.Price
	readColumns(row, col, &p.Input, &p.CacheRead, &p.CacheWrite, &p.Output)
	err := book.ParseTiers(row.ColumnText(col+4), &p)
	return p, err
}
