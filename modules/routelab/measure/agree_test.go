package measure

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/routelab/learn"
)

// answered is a data set of three models that cost 1, 1 and 10 dollars: on three of four prompts the cheap ones agree,
// once both wrongly, and on the fourth they differ and the dear one is right.
func answered(n int) *learn.Dataset {
	d := &learn.Dataset{Name: "made", Models: []string{"a", "b", "c"}}
	for i := range n {
		r := learn.Row{ID: string(rune('a' + i)), Cost: []float64{1, 1, 10}}
		switch i % 4 {
		case 0, 1:
			r.Score, r.Answer = []float64{1, 1, 1}, []int{0, 0, 0}
		case 2:
			r.Score, r.Answer = []float64{0, 0, 0}, []int{0, 0, 1}
		case 3:
			r.Score, r.Answer = []float64{0, 0, 1}, []int{-1, -1, 0} // none of the seats has an answer
		}
		d.Rows = append(d.Rows, r)
	}
	return d
}

// The seats cost 2 and agree on three of four prompts, two of which are right; the fourth costs 12. The dear model
// alone is as good, and costs 10.
func TestAgree_byHand(t *testing.T) {
	t.Parallel()
	without := &learn.Dataset{Name: "without", Models: []string{"a"}}
	list, err := Agree([]*learn.Dataset{answered(8), without}, [2]string{"a", "b"}, "c", 1)
	require.NoError(t, err)
	require.Len(t, list, 1)
	a := list[0]
	require.Equal(t, []any{"made", 8, "c"}, []any{a.Dataset, a.N, a.Single})
	require.InDelta(t, 0.75, a.Agreed, 1e-9)
	require.InDelta(t, 2.0/3, a.Right, 1e-9)
	require.InDelta(t, 0.75, a.Quality, 1e-9)
	require.InDelta(t, 4.5, a.Cost, 1e-9)
	require.InDelta(t, 0.75, a.SingleQuality, 1e-9)
	require.InDelta(t, 0.55, a.Saved.Value, 1e-9)
	require.Zero(t, a.Gain.Value)
	require.Zero(t, a.Gain.Low, "it is right whenever the dear one is")
	require.Less(t, a.Saved.Low, a.Saved.Value)
	require.Greater(t, a.Saved.High, a.Saved.Value)

	// Escalated to a seat, there is no third call.
	list, err = Agree([]*learn.Dataset{answered(8)}, [2]string{"a", "c"}, "c", 1)
	require.NoError(t, err)
	require.InDelta(t, 11, list[0].Cost, 1e-9)
	require.InDelta(t, -0.1, list[0].Saved.Value, 1e-9)
}

// What is found on one half is measured on the other.
func TestAgreeBest(t *testing.T) {
	t.Parallel()
	d := answered(400)
	for i := range d.Rows {
		d.Rows[i].Prompt = string(rune(1000 + i))
	}
	list, err := AgreeBest([]*learn.Dataset{d}, 1)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, 400, list[0].N+list[1].N)
	for _, a := range list {
		require.Equal(t, [2]string{"a", "b"}, a.Seats)
		require.Equal(t, []string{"c", "c"}, []string{a.Escalate, a.Single})
		require.InDelta(t, 0, a.Gain.Value, 1e-9)
		require.Greater(t, a.Saved.Low, 0.4)
	}
}

func TestAgree_mistakes(t *testing.T) {
	t.Parallel()
	_, err := Agree([]*learn.Dataset{answered(4)}, [2]string{"a", "x"}, "c", 1)
	require.ErrorContains(t, err, "no data set has answers (the field `a`) of a, x and c")
	d := answered(4)
	d.Rows[0].Cost[2] = math.NaN()
	_, err = Agree([]*learn.Dataset{d}, [2]string{"a", "b"}, "c", 1)
	require.ErrorContains(t, err, "prices.json")
	d.Rows[1].Answer = nil
	_, err = AgreeBest([]*learn.Dataset{d}, 1)
	require.ErrorContains(t, err, "no data set has answers")
}
