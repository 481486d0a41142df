package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// kind is what the value of an attribute can be. The readers of value.go take their bounds from it, and the reference
// its column.
type kind struct {
	name    string // for people
	hcl     string // in the notation of HCL's types
	least   int64
	most    int64         // of numbers
	longest time.Duration // of durations
	bytes   int           // of texts
	choices []string      // of texts and of lists of them
}

var (
	anything  = kind{name: "any value", hcl: "any"}
	aSize     = kind{name: "size", hcl: "string"}
	aPath     = kind{name: "path", hcl: "string", bytes: 4096}
	aDigest   = kind{name: "64 hexadecimal digits", hcl: "string", bytes: 128}
	aFlag     = kind{name: "true, false", hcl: "bool"}
	aList     = kind{name: "list", hcl: "list(string)"}
	aMap      = kind{name: "map", hcl: "map(string)"}
	aFraction = kind{name: "0 to 1", hcl: "number"}
	aQuality  = kind{name: "0 to 1, or `\"auto\"`", hcl: "number"}
	aShare    = kind{name: "over 0, to 1", hcl: "number"}
	aWeight   = kind{name: "number from 0 on", hcl: "number"}
	// aCondition is an expression over the facts of a request.
	aCondition = kind{name: "condition", hcl: "bool"}
	aPrice     = kind{name: "dollars", hcl: "number"}
)

// aConcurrency is how many attempts run at a time.
var aConcurrency = kind{name: "0 to 1,000,000, or `\"auto\"`", hcl: "any", most: maxConcurrent}

// aRetention is for how long something is kept.
var aRetention = kind{name: "`\"none\"`, or duration up to `\"3650d\"`", hcl: "string", longest: maxRetention}

// aHedge is when a call is late.
var aHedge = kind{name: "`\"p50\"` to `\"p99\"`, or duration", hcl: "string", longest: maxDuration}

func aText(bytes int) kind {
	return kind{name: fmt.Sprintf("text of at most %d bytes", bytes), hcl: "string", bytes: bytes}
}

func anInteger(least, most int64) kind {
	return kind{name: fmt.Sprintf("%d to %s", least, grouped(most)), hcl: "number", least: least, most: most}
}

func aDuration(longest time.Duration) kind {
	k := kind{name: "duration", hcl: "string", longest: longest}
	switch {
	case longest > maxDuration:
		k.name += fmt.Sprintf(" up to `\"%dd\"`", longest/day)
	case longest < time.Hour:
		k.name += fmt.Sprintf(" up to `\"%ds\"`", longest/time.Second)
	}
	return k
}

func oneOf(choices ...string) kind {
	return kind{name: "one of " + quoted(choices), hcl: "string", bytes: 64, choices: choices}
}

func aListOf(choices ...string) kind {
	return kind{name: "list of " + quoted(choices), hcl: "list(string)", choices: choices}
}

func quoted(words []string) string {
	each := make([]string, len(words))
	for i, word := range words {
		each[i] = "`\"" + word + "\"`"
	}
	return strings.Join(each, ", ")
}

// grouped writes a whole number as people do: 1,000,000.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
