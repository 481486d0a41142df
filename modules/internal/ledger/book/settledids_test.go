package book

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An id that is settled is never taken for a new one, whatever the order of ids and however many there are.
func TestSettledIDsKnowEveryOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s SettledIDs
		first := rapid.IntRange(0, 50).Draw(t, "first")
		s.Reset(fmt.Sprintf("req_%06d", first))
		s.max = 5
		all := map[string]bool{}
		for i := range rapid.IntRange(0, 60).Draw(t, "n") {
			id := fmt.Sprintf("req_%06d", max(0, first+i+rapid.IntRange(-20, 20).Draw(t, "jitter")))
			require.False(t, all[id] && s.IsNew(id), "%s is settled", id)
			s.Add(id)
			all[id] = true
			require.LessOrEqual(t, len(s.young.ids)+len(s.old.ids), 5)
		}
		for id := range all {
			require.False(t, s.IsNew(id), "%s is settled", id)
		}
		require.True(t, s.IsNew("req_999999"))
	})
}
