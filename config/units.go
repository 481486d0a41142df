package config

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// decimalBits is a little less than the precision with which HCL keeps numbers, so that rounding to it removes
// what arithmetic (0.1 * 3) left behind; no literal is long enough to be changed by it.
const decimalBits = 480

// decimal rounds a number of HCL to what was meant.
func decimal(f *big.Float) *big.Float { return new(big.Float).SetPrec(decimalBits).Set(f) }

// tooExtreme reports whether the decimal text of a number could be long.
func tooExtreme(f *big.Float) bool {
	size := new(big.Float).Abs(f)
	return size.Cmp(big.NewFloat(maxMagnitude)) > 0 || (f.Sign() != 0 && size.Cmp(big.NewFloat(1/maxMagnitude)) < 0)
}

const (
	// microcentsPerDollar: US$1 is 100 credits, a credit is 1,000,000 microcents (BILL-01).
	microcentsPerDollar = 100 * microcentsPerCredit
	microcentsPerCredit = 1_000_000
	priceDecimals       = 8

	// maxPrice is in US dollars per tokensPerPrice tokens. That a product of price and tokens fits into an int64 also
	// before its division is checked by route (classes).
	maxPrice       = 1_000_000
	maxTokens      = 100_000_000
	tokensPerPrice = 1_000_000
)

// microcents turns a price in US dollars into microcents, exactly. The second result says what is wrong.
func microcents(dollars *big.Float) (int64, string) {
	switch {
	case dollars.Sign() < 0:
		return 0, "must not be negative"
	case dollars.Cmp(big.NewFloat(maxPrice)) > 0:
		return 0, "must be at most 1000000 US dollars per million tokens"
	}
	const inexact = "must have at most 8 decimals: smaller parts of a dollar cannot be charged exactly"
	if dollars.Sign() != 0 && dollars.Cmp(big.NewFloat(1e-9)) < 0 {
		return 0, inexact // before its decimal text is made, which could be endless
	}
	whole, fraction, _ := strings.Cut(decimal(dollars).Text('f', -1), ".")
	if len(fraction) > priceDecimals {
		return 0, inexact
	}
	amount, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", priceDecimals-len(fraction)), 10, 64)
	if err != nil {
		return 0, "must be a plain number"
	}
	return amount, ""
}

// Durations outside of these are slips of the pen.
const (
	minDuration = time.Millisecond
	maxDuration = 24 * time.Hour
)

// duration reads "10m", "1m30s", "250ms", "7d"; most is in whole hours, in whole days above one, or in whole
// seconds. The second result
// says what is wrong.
func duration(text string, most time.Duration) (time.Duration, string) {
	d, ok := ParseDuration(text)
	switch {
	case !ok:
		return 0, notDuration
	case d >= minDuration && d <= most:
		return d, ""
	case most > maxDuration:
		return 0, fmt.Sprintf("must be between \"1ms\" and \"%dd\"", most/day)
	case most < time.Hour:
		return 0, fmt.Sprintf("must be between \"1ms\" and \"%ds\"", most/time.Second)
	}
	return 0, fmt.Sprintf("must be between \"1ms\" and \"%dh\"", most/time.Hour)
}

// notDuration is what is wrong with a text that is none.
const notDuration = "must be a number with a unit: ms, s, m, h or d, as in \"10m\" or \"1m30s\""

const day = 24 * time.Hour

// daysPattern has weeks and days, and the rest.
var daysPattern = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?(.*)$`)

// ParseDuration reads Go's notation of a length of time, with weeks and days of 24 hours before it: "2w", "1d12h30m".
func ParseDuration(text string) (time.Duration, bool) {
	m := daysPattern.FindStringSubmatch(text)
	if m == nil {
		return 0, false // there is a line break in it
	}
	weeks, _ := strconv.Atoi(m[1]) // the pattern leaves digits only, or nothing
	days, _ := strconv.Atoi(m[2])
	if days += 7 * weeks; days > int(math.MaxInt64/day) {
		return 0, false
	}
	d := time.Duration(days) * day
	if m[3] == "" && text != "" {
		return d, true
	}
	rest, err := time.ParseDuration(m[3])
	if err != nil || d > 0 && (rest < 0 || rest > math.MaxInt64-d) {
		return 0, false
	}
	return d + rest, true
}

// byteUnits are the suffixes of sizes as powers of two.
var byteUnits = map[string]uint{"KiB": 10, "MiB": 20, "GiB": 30}

const maxSize = 1 << 40 // bytes; more is a slip of the pen

// size reads "32MiB", "64KiB", "1GiB" or a plain number of bytes. The second result says what is wrong.
func size(text string) (int64, string) {
	digits, shift := text, uint(0)
	for suffix, s := range byteUnits {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			digits, shift = strings.TrimSpace(number), s
		}
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, "must be a whole number with KiB, MiB or GiB, as in \"32MiB\", or of bytes"
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || n > maxSize>>shift:
		return 0, "must be at most \"1024GiB\""
	case n == 0:
		return 0, "must be more than zero"
	}
	return n << shift, ""
}
