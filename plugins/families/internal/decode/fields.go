package decode

import (
	"strings"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/internal/jsonview"
)

const (
	maxStops     = 16  // as sent (STOP-16, STOP-17)
	maxStopUnits = 256 // UTF-16 code units (STOP-18, STOP-19)

	// maxAllowance is what larger output allowances are read as. It fits no window (GAP-34), and sums
	// with it do not overflow.
	maxAllowance = 1 << 53
)

// Flag reads an optional boolean; absent is false.
func (v Value) Flag() bool {
	if v.Set() && v.Is(jsonview.Bool) {
		b, _ := v.Bool()
		return b
	}
	return false
}

// Allowance reads an optional output allowance in tokens: an integer of at least 1 (GAP-25), 0 when absent.
func (v Value) Allowance() int64 {
	if !v.Set() {
		return 0
	}
	if f, ok := v.Float(); ok && f >= maxAllowance {
		return maxAllowance
	}
	n, ok := v.Int()
	if !ok || n < 1 {
		v.Invalid("must be an integer of at least 1")
		return 0
	}
	return n
}

// Temperature reads an optional temperature from 0 to 2 (GAP-25).
func (v Value) Temperature() *float64 { return v.temperature(2, "must be a number from 0 to 2") }

// UnitTemperature reads an optional temperature from 0 to 1, the range of the messages family (GAP-25).
func (v Value) UnitTemperature() *float64 { return v.temperature(1, "must be a number from 0 to 1") }

func (v Value) temperature(highest float64, rule string) *float64 {
	if !v.Set() {
		return nil
	}
	t, ok := v.Float()
	if !ok || t < 0 || t > highest {
		v.Invalid(rule)
		return nil
	}
	return &t
}

// Effort reads an optional reasoning_effort (CHAT-18, CHAT-19): "low", "medium" or "high", "" when absent.
func (v Value) Effort() string {
	if !v.Set() {
		return ""
	}
	switch effort, _ := v.Str(); effort {
	case "low", "medium", "high":
		return effort
	}
	v.Invalid(`must be "low", "medium" or "high"`)
	return ""
}

// Stop reads optional stop sequences, a string or an array of strings, and returns those that count: not
// empty, each once, in the order sent (STOP-14 to STOP-20). Every entry has to keep the limits.
func (v Value) Stop() []string {
	if v.Kind() == jsonview.String {
		return v.appendStop(nil)
	}
	return v.StopList("must be a string or an array of strings")
}

// StopList reads stop sequences as Stop does, from an array of strings only; rule is what it reports of
// anything else.
func (v Value) StopList(rule string) []string {
	if !v.Set() {
		return nil
	}
	if v.Kind() != jsonview.Array {
		v.Invalid(rule)
		return nil
	}
	var stops []string
	for i, e := range v.Elems() {
		if i == maxStops {
			v.Invalid("must have at most 16 entries, empty and repeated ones included")
			return nil
		}
		entry := v.Elem(i, e)
		stops = entry.appendStop(stops)
	}
	return stops
}

func (v Value) appendStop(stops []string) []string {
	stop := v.Required()
	if units(stop) > maxStopUnits {
		v.Invalid("must be at most 256 characters long (UTF-16 code units)")
		return stops
	}
	if stop == "" {
		return stops
	}
	for _, s := range stops {
		if s == stop {
			return stops
		}
	}
	return append(stops, strings.Clone(stop)) // they are looked for until the reply ends
}

// units counts the UTF-16 code units of s.
func units(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xFFFF && r <= utf8.MaxRune {
			n++
		}
	}
	return n
}
