package routing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// steps names what is done, one after the other; behind a bar are those that are waited for.
func steps(it *routing.Itinerary) (names []string) {
	if it.Steps == nil {
		return nil
	}
	for _, s := range it.Steps.Steps {
		name := routing.Opening(s).Route.Name
		if at := routing.Opening(s).Back; !at.IsZero() {
			name = fmt.Sprintf("%s at %d", name, at.Unix())
		}
		names = append(names, name)
	}
	return names
}

func TestWaits(t *testing.T) {
	t.Parallel()
	back := func(second int64) routing.Standing {
		return routing.Standing{Why: routing.ErrBusy, Back: time.Unix(second, 0)}
	}
	away := routing.Standing{Why: routing.ErrBusy}
	down := routing.Standing{Why: routing.ErrNotReady}
	guessed := routing.Standing{Why: routing.ErrBusy, Behind: true}
	for name, c := range map[string]struct {
		standing map[string]routing.Standing // of a, b and c
		waits    []string
		steps    []string
		err      error
	}{
		"GAP-139 all serve": {nil, nil, []string{"a", "b", "c"}, nil},
		"GAP-139 behind those that serve": {map[string]routing.Standing{"a": back(5)}, []string{"a"},
			[]string{"b", "c", "a at 5"}, nil},
		"GAP-139 nobody serves, the one that is back first is first": {map[string]routing.Standing{"a": back(5), "b": back(3),
			"c": back(4)}, []string{"b", "c", "a"}, []string{"b at 3", "c at 4", "a at 5"}, routing.ErrBusy},
		"GAP-139 of those that are back together the first of the file": {map[string]routing.Standing{"a": back(3),
			"b": back(3), "c": down}, []string{"a", "b"}, []string{"a at 3", "b at 3"}, routing.ErrBusy},
		"GAP-139 those that said nothing are not waited for": {map[string]routing.Standing{"a": away, "b": down, "c": away},
			nil, nil, routing.ErrBusy},
		"GAP-139 a guess is called all the same": {map[string]routing.Standing{"a": guessed, "b": back(3), "c": down},
			[]string{"b"}, []string{"a", "b at 3"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := routing.Input{Profile: best, InputTokens: 1000, Routes: []config.Route{route("a", 0.9, 1), route("b", 0.8, 1),
				route("c", 0.7, 1)}, Standing: func(r *config.Route, _ bool) routing.Standing { return c.standing[r.Name] }}
			it, err := routing.MakeItinerary(in)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.steps, steps(&it))
			var waits []string
			for i := range it.Waits {
				w := &it.Waits[i]
				waits = append(waits, w.Route.Name)
				require.Positive(t, w.Allowance)
				require.Equal(t, in.InputTokens, w.Input)
			}
			require.Equal(t, c.waits, waits)
			require.Equal(t, c.waits, routing.Explain(in, free, nil).Waits)
			require.Len(t, it.Rejected, 3-len(it.Candidates), "who is waited for is no candidate")
		})
	}
	t.Run("GAP-139 only routes that can take the request", func(t *testing.T) {
		t.Parallel()
		small := route("small", 0.9, 1)
		small.ContextWindow, small.MaxOutput = 1000, 500
		it, err := routing.MakeItinerary(
			routing.Input{Profile: best, InputTokens: 5000, Routes: []config.Route{small, route("b", 0.8, 1)},
				Standing: func(*config.Route, bool) routing.Standing { return back(3) }},
		)
		require.ErrorIs(t, err, routing.ErrBusy)
		require.Equal(t, []string{"b at 3"}, steps(&it))
	})
}

// free is what nothing costs.
func free(*routing.Candidate) routing.Worst { return routing.Worst{} }
