package gateway

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// count writes a number of things.
func count[N int | int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%s %s", thousands(int64(n)), what)
}

// credits writes an amount of whole credits and what it is worth, as in "1,000 credits (US$10.00)".
func credits(n int64) string {
	return fmt.Sprintf("%s (%s)", count(n, "credit"), dollars(n))
}

// dollars writes whole credits, which are US cents, as US dollars.
func dollars(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%sUS$%s.%02d", sign, thousands(n/100), n%100)
}

// thousands writes a number with commas.
func thousands(n int64) string {
	digits, negative := strings.CutPrefix(strconv.FormatInt(n, 10), "-")
	if negative {
		return "-" + grouped(digits)
	}
	return grouped(digits)
}

// grouped puts commas into a number's digits.
func grouped(digits string) string {
	if len(digits) <= 3 {
		return digits
	}
	return grouped(digits[:len(digits)-3]) + "," + digits[len(digits)-3:]
}

// exact writes microcents as credits with six decimals, which loses nothing: "1,234.567890".
func exact(microcents int64) string {
	sign := ""
	if microcents < 0 {
		sign, microcents = "-", -microcents
	}
	return fmt.Sprintf("%s%s.%06d", sign, thousands(microcents/ledger.MicrocentsPerCredit), microcents%ledger.MicrocentsPerCredit)
}

// cents writes microcents as a fraction of a US cent, which is a credit.
func cents(microcents int64) string { return exact(microcents) + " cents" }

// amount writes microcents in both units: "1,335,000 microcents (1.335000 credits)".
func amount(microcents int64) string {
	return fmt.Sprintf("%s (%s credits)", count(microcents, "microcent"), exact(microcents))
}
