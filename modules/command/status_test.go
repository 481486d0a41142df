package command

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/routing"
)

func TestRouteState(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	for want, r := range map[string]admin.Route{
		"":                    {State: "serves"},
		": not_ready":         {State: "not_ready"},
		": it is down":        {State: "open", Reason: "it is down"},
		", 1 request waiting": {State: "serves", Waiting: 1},
		": rate limited, until 2026-11-25 10:00:00 UTC, 3 requests waiting, at most 2 attempts at a time": {
			State: "limited", Reason: "rate limited", Until: &until, Waiting: 3, ConcurrencyLimit: 2},
	} {
		require.Equal(t, want, routeState(r), "GAP-139")
	}
}

// Status says who predicts: the model, and a provider of the operator's before it.
func TestStatusSaysWhoPredicts(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	printStatus(&out, admin.Status{Model: &routing.About{SHA256: "0123456789abcdef"}, Classifier: "words"})
	require.Regexp(t, `predicted by +provider words, and where it knows nothing the model that is built in \(0123`,
		out.String())
	out.Reset()
	printStatus(&out, admin.Status{Model: &routing.About{SHA256: "0123456789abcdef"}})
	require.Regexp(t, `predicted by +the model that is built in \(0123`, out.String())
}
