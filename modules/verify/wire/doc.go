// Package wire is the contract as bytes: how the three families' requests are written and their replies, streams and
// errors read, by rules that know nothing of how the gateway writes them. Both suites read with it: verify, which any
// deployment can be put to, and the contract tests, which see the inside of a gateway as well.
//
// What reads takes a [Reporter], the test or check that fails where a rule is broken.
package wire

// Reporter is a test, or a check of verify. Fatalf ends it.
type Reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}
