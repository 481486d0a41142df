// Package human writes and reads numbers, amounts and times as people do.
package human

import (
	"fmt"
	"strconv"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Count writes a number of things.
func Count[N int | int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%s %s", Thousands(int64(n)), what)
}

// Credits writes an amount of whole credits and what it is worth, as in "1,000 credits (US$10.00)".
func Credits(n int64) string {
	return fmt.Sprintf("%s (%s)", Count(n, "credit"), dollars(n))
}

// dollars writes whole credits, which are US cents, as US dollars.
func dollars(n int64) string {
	sign, size := signed(n)
	return fmt.Sprintf("%sUS$%s.%02d", sign, Grouped(strconv.FormatUint(size/100, 10)), size%100)
}

// signed divides a number into its sign, "-" or "", and its size: that of the smallest one is no int64.
func signed(n int64) (sign string, size uint64) {
	if n < 0 {
		return "-", -uint64(n)
	}
	return "", uint64(n)
}

// Thousands writes a number with commas.
func Thousands(n int64) string {
	sign, size := signed(n)
	return sign + Grouped(strconv.FormatUint(size, 10))
}

// Grouped puts commas into a number's digits.
func Grouped(digits string) string {
	if len(digits) <= 3 {
		return digits
	}
	return Grouped(digits[:len(digits)-3]) + "," + digits[len(digits)-3:]
}

// Exact writes microcents as credits with six decimals, which loses nothing: "1,234.567890".
func Exact(microcents int64) string {
	sign, size := signed(microcents)
	return fmt.Sprintf("%s%s.%06d", sign, Grouped(strconv.FormatUint(size/ledger.MicrocentsPerCredit, 10)),
		size%ledger.MicrocentsPerCredit)
}

// Cents writes microcents as a fraction of a US cent, which is a credit.
func Cents(microcents int64) string { return Exact(microcents) + " cents" }

// Amount writes microcents in both units: "1,335,000 microcents (1.335000 credits)".
func Amount(microcents int64) string {
	return fmt.Sprintf("%s (%s credits)", Count(microcents, "microcent"), Exact(microcents))
}
