package change

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// ShowValue writes a value of a field for people: prices, which are microcents per million tokens, in dollars.
func ShowValue(name string, value json.RawMessage) string {
	var text string
	isPrice := strings.HasPrefix(name, "price.") || strings.HasPrefix(name, "cost.")
	switch n, err := strconv.ParseInt(string(value), 10, 64); {
	case value == nil:
		return "none"
	case isPrice && err == nil:
		return "$" + Dollars(n) + " per million"
	case json.Unmarshal(value, &text) == nil:
		return strconv.Quote(text)
	}
	return string(value)
}

// microcentsPerDollar: a credit is US$0.01, and has a million of them.
const microcentsPerDollar = 100_000_000

// Dollars writes microcents as dollars: with cents, and with more decimals where they say something.
func Dollars(microcents int64) string {
	text := strconv.FormatFloat(float64(microcents)/microcentsPerDollar, 'f', -1, 64)
	whole, decimals, _ := strings.Cut(text, ".")
	for len(decimals) < 2 {
		decimals += "0"
	}
	return whole + "." + decimals
}

// FollowsPrice reports whether a field is a cost that changes as the price does, which says it already.
func (b *Block) FollowsPrice(f Field) bool {
	name, ok := strings.CutPrefix(f.Name, "cost.")
	return ok && slices.ContainsFunc(b.Fields, func(p Field) bool {
		return p.Name == "price."+name && string(p.Before) == string(f.Before) && string(p.After) == string(f.After)
	})
}
