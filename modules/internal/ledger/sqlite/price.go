package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// PriceVersion implements ledger.Store.
func (s *Store) PriceVersion(ctx context.Context, route string, price, cost config.Price) (version int64, err error) {
	err = s.write(ctx, "price_version", func(t *tx) error {
		for _, p := range [...]config.Price{price, cost} {
			if min(p.Input, p.CacheRead, p.CacheWrite, p.Output) < 0 {
				return fmt.Errorf("%w: a negative price", ledger.ErrInvalid)
			}
		}
		version = 0
		var last, lastCost config.Price
		err := t.query(`SELECT version, input, cache_read, cache_write, output, cost_input, cost_cache_read, `+
			`cost_cache_write, cost_output
			FROM prices WHERE route = ? ORDER BY version DESC LIMIT 1`, func(row *sqlite.Stmt) error {
			version, last, lastCost = row.ColumnInt64(0), scanPrice(row, 1), scanPrice(row, 5)
			return nil
		}, route)
		if err != nil || version > 0 && last == price && lastCost == cost {
			return err
		}
		version++
		return t.exec(`INSERT INTO prices (route, version, input, cache_read, cache_write, output,
			cost_input, cost_cache_read, cost_cache_write, cost_output, since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			route, version, price.Input, price.CacheRead, price.CacheWrite, price.Output,
			cost.Input, cost.CacheRead, cost.CacheWrite, cost.Output, t.now())
	})
	if err != nil {
		return 0, fmt.Errorf("recording the price of route %q: %w", route, err)
	}
	return version, nil
}
