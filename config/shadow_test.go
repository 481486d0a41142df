package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShadow: a shadow names a route that there is, and a share that means something.
func TestShadow(t *testing.T) {
	t.Parallel()
	second := minimal + strings.Replace(minimal[strings.Index(minimal, "route"):], "small", "deep", 1)
	shadow := func(text string) string {
		return "profile \"balanced\" {\n  cost    = 1\n  quality = 1\n  shadow {\n" + text + "\n  }\n}\n"
	}
	c, diags := loadText(t, second+shadow("route = \"deep\"\nshare = 0.25"))
	require.False(t, diags.HasErrors(), "%v", diags)
	require.Empty(t, diags.All())
	for _, p := range c.Profiles {
		want := Shadow{}
		if p.Name == "balanced" {
			want = Shadow{Route: "deep", Share: 0.25}
		}
		require.Equal(t, want, p.Shadow)
	}
	for text, want := range map[string]string{
		"route = \"deep\"":                 "share",
		"share = 0.5":                      "route",
		"route = \"dep\"\nshare = 1":       `Did you mean "deep"?`,
		"route = \"deep\"\nshare = 0":      "must be over 0 and at most 1",
		"route = \"deep\"\nshare = 1.0001": "must be over 0 and at most 1",
	} {
		_, diags := loadText(t, second+shadow(text))
		require.True(t, diags.HasErrors(), text)
		require.Contains(t, diags.Error(), want, text)
	}
	_, diags = loadText(t, minimal+shadow("route = \"small\"\nshare = 1"))
	require.False(t, diags.HasErrors())
	require.Contains(t, fmt.Sprint(diags.All()), "Nothing to compare with")
}

// TestShadowTakes: of the same ids always the same, and about as many as the share says; a larger share has all that a
// smaller one has.
func TestShadowTakes(t *testing.T) {
	t.Parallel()
	const n = 20_000
	shares := []float64{0, 0.01, 0.3, 1}
	taken := make([]int, len(shares))
	for i := range n {
		id := fmt.Sprintf("req_%032x", i)
		before := false
		for j, share := range shares {
			s := Shadow{Share: share}
			takes := s.Takes(id)
			require.Equal(t, takes, s.Takes(id))
			require.True(t, takes || !before)
			if before = takes; takes {
				taken[j]++
			}
		}
	}
	require.Equal(t, []int{0, n}, []int{taken[0], taken[3]})
	require.InDelta(t, 0.01*n, taken[1], 0.003*n)
	require.InDelta(t, 0.3*n, taken[2], 0.02*n)
}
