package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOutcomesAreKeptOnlyWhereThatIsAllowed: off by default, and never for longer than an account or its plan lets
// anybody keep what it sends.
func TestOutcomesAreKeptOnlyWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	none, week, year := time.Duration(0), 7*day, 365*day
	for name, tc := range map[string]struct {
		block       string
		retention   *time.Duration
		lines, text bool
	}{
		"off":                   {"", nil, false, false},
		"on":                    {"outcomes {\n}\n", nil, true, false},
		"on, no retention":      {"outcomes {\n}\n", &none, false, false},
		"on, a week":            {"outcomes {\n}\n", &week, false, false},
		"on for a week, a week": {"outcomes {\n keep = \"7d\"\n}\n", &week, true, false},
		"on, a year":            {"outcomes {\n}\n", &year, true, false},
		"text":                  {"outcomes {\n text = true\n}\n", nil, true, true},
		"text, no retention":    {"outcomes {\n text = true\n}\n", &none, false, false},
		"text for an hour, a week": {"outcomes {\n text = true\n keep = \"7d\"\n text_keep = \"1h\"\n}\n", &week, true,
			true},
		"text for two weeks, for lines": {"outcomes {\n text = true\n keep = \"15d\"\n}\n", new(14 * day), false, false},
	} {
		cfg, diags := loadText(t, tc.block+minimal)
		require.Empty(t, diags.All(), name)
		q := &Requires{Retention: tc.retention}
		require.Equal(t, tc.lines, cfg.Outcomes.Allows(q), name)
		require.Equal(t, tc.text, cfg.Outcomes.AllowsText(q), name)
	}
}
