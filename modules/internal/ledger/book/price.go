package book

import (
	"encoding/json"
	"fmt"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Price is a version of a route's price, and of what the route costs the operator.
type Price struct {
	Version     int64 // 0: there is none yet
	Price, Cost config.Price
}

// DecidePrice is the version of a price: that of known, the versions of its route in any order, which is the same, or
// else the next, which is to be kept then. So two processes that have different prices of one route, and say so in
// turn, make two versions and no more.
func DecidePrice(known []Price, price, cost config.Price) (version int64, err error) {
	for _, p := range [...]config.Price{price, cost} {
		if err := CheckPrice(p); err != nil {
			return 0, err
		}
	}
	last := int64(0)
	for i := range known {
		if known[i].Price.Equal(price) && known[i].Cost.Equal(cost) {
			return known[i].Version, nil
		}
		last = max(last, known[i].Version)
	}
	return last + 1, nil
}

// CheckPrice is ErrInvalid for what no price can be.
func CheckPrice(p config.Price) error {
	above := int64(0)
	for _, t := range p.Tiers {
		if t.Above <= above {
			return fmt.Errorf("%w: tiers of a price that do not rise", ledger.ErrInvalid)
		}
		above = t.Above
		if min(t.Input, t.CacheRead, t.CacheWrite, t.Output) < 0 {
			return fmt.Errorf("%w: a negative price", ledger.ErrInvalid)
		}
	}
	if min(p.Input, p.CacheRead, p.CacheWrite, p.Output) < 0 {
		return fmt.Errorf("%w: a negative price", ledger.ErrInvalid)
	}
	return nil
}

// TiersText is how stores keep tiers: as JSON, and no tiers as "".
func TiersText(tiers []config.Tier) string {
	if len(tiers) == 0 {
		return ""
	}
	b, err := json.Marshal(tiers)
	if err != nil {
		panic(err) // numbers only
	}
	return string(b)
}

// ParseTiers reads what TiersText made into a price whose other parts are read, and checks the price where it has some.
func ParseTiers(text string, p *config.Price) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &p.Tiers); err != nil {
		return fmt.Errorf("the tiers of a price cannot be read: %w", err)
	}
	return CheckPrice(*p)
}
