//go:build soak

package verify

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSoakPatient runs the checks that TestContract leaves out, for they take a minute.
func TestSoakPatient(t *testing.T) {
	t.Parallel()
	findings, err := performOps(t.Context(), slices.DeleteFunc(opsChecks(),
		func(c opsCheck) bool { return c.gate != slowGate }))
	require.NoError(t, err)
	require.Len(t, findings, len(opsSlowChecks())+1, "and one of the ledger")
	for _, f := range findings {
		require.Equal(t, Pass, f.status, "%s: %s", f.check.Does, f.detail)
	}
}
