package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/live"
)

// breakable is a store whose transactions some courses break.
type breakable struct {
	breaking []string
	away     int // after so many transactions; 0: never
	begun    int
	taken    []string
}

func (s *breakable) TakeUp(_ context.Context, courses []book.Course) ([]book.TakenUp, error) {
	s.begun++
	if s.away > 0 && s.begun > s.away {
		return nil, fmt.Errorf("the test's: %w", ledger.ErrUnavailable)
	}
	var all []book.TakenUp
	for _, c := range courses {
		if slices.Contains(s.breaking, c.ID) {
			return nil, errors.New("it breaks at " + c.ID)
		}
		all = append(all, book.TakenUp{Charge: ledger.Charge{Microcents: c.Held}})
	}
	for _, c := range courses {
		s.taken = append(s.taken, c.ID)
	}
	return all, nil
}

// TestTakeUpFindsWhatBreaks: a course that breaks its transaction is found in few others, and what the rest comes to is
// said of each, in their order (GAP-132).
func TestTakeUpFindsWhatBreaks(t *testing.T) {
	t.Parallel()
	const n = 2048
	courses := make([]book.Course, n)
	for i := range courses {
		courses[i].ID, courses[i].Held = fmt.Sprint(i), int64(i)
	}
	for _, breaking := range [][]string{nil, {"0"}, {"2047"}, {"1023", "1024"}, {"7", "8", "9", "1500"}} {
		s := &breakable{breaking: breaking}
		all, err := live.TakeUp(t.Context(), s, courses)
		require.NoError(t, err)
		require.Len(t, all, n)
		require.Len(t, s.taken, n-len(breaking))
		require.LessOrEqual(t, s.begun, 1+2*11*len(breaking))
		next := 0
		for i, got := range all {
			if slices.Contains(breaking, courses[i].ID) {
				require.EqualError(t, got.Err, "it breaks at "+courses[i].ID)
				continue
			}
			require.Equal(t, int64(i), got.Charge.Microcents)
			require.Equal(t, courses[i].ID, s.taken[next], "they are taken up in their order")
			next++
		}
	}
	s := &breakable{breaking: []string{"5"}, away: 3}
	_, err := live.TakeUp(t.Context(), s, courses)
	require.ErrorIs(t, err, ledger.ErrUnavailable, "all are to be taken up again")
	require.Equal(t, 4, s.begun, "and nothing more is tried")
}
