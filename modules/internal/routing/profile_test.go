package routing_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestProfilePrecedence is worked example E26, as far as it is not a family's: families that do not read
// reasoning_effort, and values of it that are not valid, never get here.
func TestProfilePrecedence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		header   []string
		model    string
		effort   string
		fallback string
		want     string
	}{
		{"PROF-04 default applies", nil, "service/auto", "", "max", "max"},
		{"PROF-09 PROF-17 low effort", nil, "service/auto", "low", "balanced", "budget"},
		{"PROF-10 medium effort", nil, "service/auto", "medium", "max", "balanced"},
		{"PROF-11 high effort", nil, "auto", "high", "balanced", "max"},
		{"PROF-08 model id", nil, "service/max", "", "balanced", "max"},
		{"PROF-14 model id outranks effort", nil, "service/budget", "high", "balanced", "budget"},
		{"PROF-06 budget header", []string{"budget"}, "service/auto", "", "balanced", "budget"},
		{"PROF-06 balanced header", []string{"balanced"}, "service/auto", "", "max", "balanced"},
		{"PROF-06 PROF-16 max header", []string{"max"}, "service/auto", "", "balanced", "max"},
		{"PROF-07 any case", []string{"bAlAnCeD"}, "service/auto", "", "max", "balanced"},
		{"PROF-13 header outranks model id", []string{"budget"}, "service/max", "", "balanced", "budget"},
		{"PROF-15 header outranks effort", []string{"max"}, "service/auto", "low", "balanced", "max"},
		{"PROF-15 header outranks both", []string{"MAX"}, "service/budget", "low", "balanced", "max"},
		{"blanks around the value", []string{" \tbudget "}, "auto", "", "balanced", "budget"},
		{"agent name carries none", nil, "gpt-5", "low", "balanced", "budget"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			selected, ok := routing.Accept("service", config.ModelNames{}, tt.model)
			require.True(t, ok)
			got, err := routing.Profile(routing.Ask{Header: tt.header, Model: selected, Effort: tt.effort}, tt.fallback)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestProfileHeaderRefused(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"PROF-18 unknown":            {"cheap"},
		"PROF-18 two in one line":    {"budget,max"},
		"PROF-18 auto":               {"auto"},
		"PROF-18 two lines":          {"budget", "max"},
		"PROF-18 one profile twice":  {"max", "max"},
		"PROF-18 inner blank":        {"ma x"},
		"PROF-19 empty":              {""},
		"PROF-19 blank":              {"  "},
		"PROF-19 two empty lines":    {"", ""},
		"PROF-19 empty and a value":  {"", "max"},
		"PROF-18 other blanks stay":  {"\u00a0max"},
		"PROF-18 long s is not an s": {"balanceſ"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := routing.Profile(routing.Ask{Header: lines, Model: "max", Effort: "high"}, "balanced")
			require.ErrorIs(t, err, routing.ErrProfileHeader)
		})
	}
}

// TestHeaderPresence reads headers as a server does: present and empty is not absent.
func TestHeaderPresence(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	got, err := routing.Profile(routing.Ask{Header: h.Values("x-service-profile")}, "balanced")
	require.NoError(t, err)
	require.Equal(t, "balanced", got)

	h.Set("x-service-profile", "")
	_, err = routing.Profile(routing.Ask{Header: h.Values("x-service-profile")}, "balanced")
	require.ErrorIs(t, err, routing.ErrProfileHeader)
	require.False(t, strings.Contains(err.Error(), "service"), "the namespace is the operator's choice")
}
