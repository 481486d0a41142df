package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConditionsOverWhatIsNotKnown: what was not recorded of a request is said plainly, and not guessed.
func TestConditionsOverWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	facts := Facts{Profile: "max", Difficulty: 0.9, Account: AccountFacts{Name: "acme"}, Unread: true, Nameless: true}
	for when, want := range map[string]string{
		`request.difficulty > 0.5`:                          "request.difficulty",
		`request.kind.code > 0.5 || request.kind.math > 1`:  "request.kind.code, request.kind.math",
		`account.name == "acme"`:                            "account.name",
		`account.name == "acme" && request.difficulty > 0`:  "account.name, request.difficulty",
		`profile == "max"`:                                  "",
		`profile == "max" || request.difficulty > 0.5`:      "",
		`request.allowance > 0 && account.name == "acme"`:   "",
		`request.difficulty > request.difficulty - 1`:       "request.difficulty",
		`(profile == "max" ? request.difficulty : 0) > 0.5`: "request.difficulty",
	} {
		s := loadStrategy(t, when)
		holds, err := s.When.Holds(&facts)
		if want == "" {
			require.NoError(t, err, when)
			require.Equal(t, when[0] == 'p', holds, when)
			continue
		}
		require.ErrorIs(t, err, ErrUnknownFact, when)
		require.EqualError(t, err, "it is not known of the request: "+want)
	}
	for _, when := range []string{`profile == null`, `coalesce("a", profile) == account.plan`} {
		loadStrategy(t, when) // it never holds, and nothing is known to be meant instead
	}
	asks := loadStrategy(t, `profile == "max" && account.name == "acme"`).When
	require.True(t, asks.Asks("account.name"))
	require.False(t, asks.Asks("request.difficulty"))
}

func loadStrategy(t *testing.T, when string) Strategy {
	t.Helper()
	c, diags := loadText(t, minimal+"strategy \"s\" {\n  kind = \"single\"\n  steps = [\"small\"]\n  when = "+when+"\n}\n")
	require.False(t, diags.HasErrors(), "%v", diags)
	return c.Strategies[0]
}
