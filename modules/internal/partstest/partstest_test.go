package partstest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaults: what a part takes of another one is found, and what it is given is not.
func TestFaults(t *testing.T) {
	t.Parallel()
	parts := Parts{Shared: "ground", Order: []string{"cellar", "hall", "attic", "house"},
		Values: map[string][]string{"value": {"cellar"}}}
	require.Equal(t, []string{
		"hall knows attic, which comes after it",
		"house.go:41: hall selects wine of cellar",
		"house.go:43: attic sets n of value",
		"house.go:46: house sets n of value",
		"house.go:47: house selects guests of hall",
		"house.go:48: house makes a attic",
	}, parts.faults(t, "testdata/house"))
	parts.Of = map[string]string{"hall": "cellar"}
	parts.Order = []string{"cellar", "attic", "house"}
	require.NotContains(t, parts.faults(t, "testdata/house"), "house.go:41: hall selects wine of cellar")
}
