package contracttest

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// fixedTexts are those of GAP-95, which say no more than they do.
var fixedTexts = map[string]bool{
	"Image and audio input are not supported yet. Send text only.":  true,
	"The request was declined by the model route's content policy.": true,
	"The request was blocked by a content filter.":                  true,
}

var (
	retryAdvice = regexp.MustCompile(`[Tt]rying again|Try again|same request fails again`)
	noUse       = regexp.MustCompile(`Trying again does not help|same request fails again`)
)

// requireAdvice checks that a text says whether trying again helps, and says of that what the header does: final
// reports whether the reply has `x-should-retry: false`.
func requireAdvice(t testing.TB, message string, final bool) {
	t.Helper()
	if fixedTexts[message] {
		return
	}
	require.Regexp(t, retryAdvice, message)
	if !final {
		require.NotRegexp(t, noUse, message, "the header leaves the client to try again")
		return
	}
	if !noUse.MatchString(message) {
		require.Contains(t, message, "Trying again helps ", "it says on which condition")
	}
}
