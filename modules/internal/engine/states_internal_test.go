package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestStates proves GAP-117 against a model: a state is found by its account, route, conversation and call alone, as
// long as it was used within the hour; and there is never more than the bound.
func TestStates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		s := newStates(func() time.Time { return now })
		type known struct {
			value   string
			expires time.Time
		}
		model := map[stateKey]known{}
		names := rapid.SampledFrom([]string{"", "a", "b", "ab"})
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := stateKey{names.Draw(t, "account"), names.Draw(t, "route"), names.Draw(t, "call"),
				rapid.Uint64Range(0, 1).Draw(t, "conversation")}
			now = now.Add(time.Duration(rapid.IntRange(0, 25).Draw(t, "minutes")) * time.Minute)
			if rapid.Bool().Draw(t, "keeps") {
				value := fmt.Sprint(key, i)
				s.Keep(key.account, key.route, key.conversation, key.call, []byte(value))
				model[key] = known{value, now.Add(stateAge)}
			} else {
				want, ok := model[key]
				if ok = ok && now.Before(want.expires); ok {
					model[key] = known{want.value, now.Add(stateAge)}
				} else {
					want.value = ""
				}
				require.Equal(t, want.value, string(s.Find(key.account, key.route, key.conversation, key.call)))
			}
			size := 0
			for e := s.used.Front(); e != nil; e = e.Next() {
				size += e.Value.(*state).size()
			}
			require.Equal(t, size, s.bytes)
			require.Len(t, s.byCall, s.used.Len())
		}
	})
}

// TestStatesAreBounded: what was used longest ago goes first, and what nobody asks for goes when others come.
func TestStatesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	s := newStates(func() time.Time { return now })
	large := make([]byte, maxStates/4)
	for i := range 3 {
		s.Keep("a", "r", 7, fmt.Sprint(i), large)
	}
	require.NotNil(t, s.Find("a", "r", 7, "0"))
	s.Keep("a", "r", 7, "3", large)
	require.LessOrEqual(t, s.bytes, maxStates)
	require.Nil(t, s.Find("a", "r", 7, "1"), "it was used longest ago")
	require.NotNil(t, s.Find("a", "r", 7, "0"))
	s.Keep("a", "r", 7, "4", make([]byte, maxStates))
	require.Zero(t, s.bytes, "one that is too large is not kept, and nothing beside it")
	s.Keep("a", "r", 7, "5", large)
	now = now.Add(stateAge)
	s.Keep("a", "r", 7, "6", nil)
	require.Len(t, s.byCall, 1, "nobody has to ask for what is too old")
}
