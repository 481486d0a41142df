package config

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyRequires draws what can be required.
func anyRequires(t *rapid.T) Requires {
	var retention string
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 1:
		retention = noRetention
	case 2:
		retention = retentionText(new(day * time.Duration(rapid.IntRange(1, 3650).Draw(t, "days"))))
	case 3:
		retention = time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(maxRetention)).Draw(t, "kept")).String()
	}
	regions := rapid.SampledFrom([]string{"eu", "us", "ch", "us-east_1"})
	q, err := ParseRequires(rapid.SliceOfN(regions, 0, 3).Draw(t, "regions"), retention)
	require.NoError(t, err)
	return q
}

// TestRequiresTexts: what is required is read again as it was printed, from texts and from JSON.
func TestRequiresTexts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := anyRequires(t)
		again, err := ParseRequires(q.Texts())
		require.NoError(t, err)
		require.Equal(t, q, again)
		text, err := json.Marshal(q)
		require.NoError(t, err)
		again = Requires{Regions: []string{"before"}}
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, q, again)
		require.Equal(t, q.None(), string(text) == "{}")
	})
	require.Error(t, new(Requires).UnmarshalJSON([]byte(`{"retention":"long"}`)))
	require.Error(t, new(Requires).UnmarshalJSON([]byte(`[]`)))
}

// TestRequiresAnd: a route meets both exactly where it meets each.
func TestRequiresAnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRequires(t), anyRequires(t)
		regions := slices.Clone(a.Regions)
		both := a.And(b)
		require.Equal(t, regions, a.Regions)
		r := Route{Region: rapid.SampledFrom([]string{"", "eu", "us", "ch", "us-east_1"}).Draw(t, "region")}
		if kept := anyRequires(t).Retention; kept != nil {
			r.Retention = kept
		}
		require.Equal(t, a.MetBy(&r) && b.MetBy(&r), both.MetBy(&r))
	})
}
