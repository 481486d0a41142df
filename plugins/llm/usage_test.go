package llm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
)

func TestUsageMerge(t *testing.T) {
	t.Parallel()
	n := llm.Count
	const smaller = "a later report has a smaller prompt"
	for _, tt := range []struct {
		name          string
		before, later *llm.Usage
		want          *llm.Usage
	}{
		{"nothing", nil, nil, nil},
		{"the first", nil, &llm.Usage{Input: n(1)}, &llm.Usage{Input: n(1)}},
		{"nothing new", &llm.Usage{Input: n(1)}, nil, &llm.Usage{Input: n(1)}},
		{"the other half", &llm.Usage{Input: n(10)}, &llm.Usage{Output: n(5)}, &llm.Usage{Input: n(10), Output: n(5)}},
		{"half of it, and less", &llm.Usage{Input: n(10), Output: n(5)}, &llm.Usage{Input: n(7)},
			&llm.Usage{Input: n(10), Output: n(5), Doubt: smaller}},
		{"less output", &llm.Usage{Input: n(10), Output: n(5)}, &llm.Usage{Output: n(4)},
			&llm.Usage{Input: n(10), Output: n(5), Doubt: "a later report has a smaller output"}},
		{"the first doubt stays", &llm.Usage{Input: n(10), Doubt: "x"}, &llm.Usage{Input: n(1), Doubt: "y"},
			&llm.Usage{Input: n(10), Doubt: "x"}},
		{"a later doubt", &llm.Usage{Input: n(10)}, &llm.Usage{Output: n(1), Doubt: "y"},
			&llm.Usage{Input: n(10), Output: n(1), Doubt: "y"}},
		{"more", &llm.Usage{Input: n(10), Output: n(5)}, &llm.Usage{Input: n(11), Output: n(6), Reasoning: n(2)},
			&llm.Usage{Input: n(11), Output: n(6), Reasoning: n(2)}},
		{"what was cached of it", &llm.Usage{Input: n(10)}, &llm.Usage{Input: n(6), CacheRead: n(3), CacheWrite: n(1)},
			&llm.Usage{Input: n(6), CacheRead: n(3), CacheWrite: n(1)}},
		{"no word of the cache", &llm.Usage{Input: n(6), CacheRead: n(4)}, &llm.Usage{Input: n(12)},
			&llm.Usage{Input: n(8), CacheRead: n(4)}},
		{"the cache alone", &llm.Usage{CacheRead: n(4)}, &llm.Usage{CacheRead: n(5)}, &llm.Usage{CacheRead: n(5)}},
		{"more in the caches than there is", &llm.Usage{Input: n(0), CacheRead: n(8)},
			&llm.Usage{Input: n(0), CacheWrite: n(9)},
			&llm.Usage{Input: n(0), CacheRead: n(8), CacheWrite: n(9)}},
		{"zeros", &llm.Usage{Input: n(100_000), CacheRead: n(30)}, &llm.Usage{Input: n(0), CacheRead: n(0), Output: n(50)},
			&llm.Usage{Input: n(100_000), CacheRead: n(30), Output: n(50), Doubt: smaller}},
		{"a correction of the same sum", &llm.Usage{Input: n(34_347)}, &llm.Usage{Input: n(3_883), CacheRead: n(30_464)},
			&llm.Usage{Input: n(3_883), CacheRead: n(30_464)}},
		{"the same sum without its parts", &llm.Usage{Input: n(3_883), CacheRead: n(30_464)}, &llm.Usage{Input: n(34_347)},
			&llm.Usage{Input: n(3_883), CacheRead: n(30_464)}},
		{"the same sum in another class", &llm.Usage{Input: n(10), CacheRead: n(30)},
			&llm.Usage{Input: n(10), CacheWrite: n(30)}, &llm.Usage{Input: n(10), CacheWrite: n(30)}},
		{"a class that was left out", &llm.Usage{Input: n(20)}, &llm.Usage{CacheRead: n(5_000), Output: n(1)},
			&llm.Usage{Input: n(20), CacheRead: n(5_000), Output: n(1)}},
		{"as far as it is not inside", &llm.Usage{Input: n(10), CacheRead: n(30)}, &llm.Usage{Input: n(45)},
			&llm.Usage{Input: n(15), CacheRead: n(30)}},
		{"none of it is inside", &llm.Usage{Input: n(10), CacheRead: n(30)}, &llm.Usage{Input: n(10), CacheWrite: n(50)},
			&llm.Usage{Input: n(10), CacheRead: n(30), CacheWrite: n(50)}},
		{"a class that is said to be none", &llm.Usage{Input: n(34_000)},
			&llm.Usage{Input: n(0), CacheRead: n(34_400)}, &llm.Usage{Input: n(0), CacheRead: n(34_400)}},
		{"a smaller report splits nothing", &llm.Usage{Input: n(34_347)},
			&llm.Usage{Input: n(3_883), CacheRead: n(20_000)}, &llm.Usage{Input: n(34_347), Doubt: smaller}},
		{"a flaw", &llm.Usage{Input: n(1), Output: n(1)}, &llm.Usage{Flaw: "x"},
			&llm.Usage{Input: n(1), Output: n(1), Doubt: "x"}},
		{"a flaw where nothing is known", &llm.Usage{CacheRead: n(1)}, &llm.Usage{Flaw: "x"}, &llm.Usage{Flaw: "x"}},
		{"after a flaw", &llm.Usage{Flaw: "x"}, &llm.Usage{Output: n(1)}, &llm.Usage{Output: n(1)}},
		{"reported after estimated", &llm.Usage{Input: n(9), Output: n(9), Estimated: true},
			&llm.Usage{Input: n(1), Output: n(1)},
			&llm.Usage{Input: n(1), Output: n(1)}},
		{"estimated after reported", &llm.Usage{Input: n(1), Output: n(1)},
			&llm.Usage{Input: n(9), Output: n(9), Estimated: true},
			&llm.Usage{Input: n(1), Output: n(1)}},
		{"estimated twice", &llm.Usage{Input: n(1), Output: n(1), Estimated: true},
			&llm.Usage{Input: n(2), Output: n(2), Estimated: true},
			&llm.Usage{Input: n(2), Output: n(2), Estimated: true}},
	} {
		t.Run("GAP-124 "+tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.before.Merge(tt.later))
		})
	}
	t.Run("GAP-124 no sum goes down", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			count := rapid.Ptr(rapid.Int64Range(0, 20), true)
			draw := func(who string) *llm.Usage {
				return &llm.Usage{Input: count.Draw(t, who+" input"), CacheRead: count.Draw(t, who+" read"),
					CacheWrite: count.Draw(t, who+" write"),
					Output:     count.Draw(t, who+" output"), Reasoning: count.Draw(t, who+" reasoning")}
			}
			before, later := draw("before"), draw("later")
			merged := before.Merge(later)
			for _, u := range []*llm.Usage{before, later} {
				require.GreaterOrEqual(t, merged.Prompt(), u.Prompt())
				require.GreaterOrEqual(t, llm.Tokens(merged.Output), llm.Tokens(u.Output))
				require.GreaterOrEqual(t, llm.Tokens(merged.Reasoning), llm.Tokens(u.Reasoning))
				require.True(t, merged.Input != nil || u.Input == nil)
				require.True(t, merged.Output != nil || u.Output == nil)
			}
			require.LessOrEqual(t, merged.Prompt(), before.Prompt()+later.Prompt())
			require.Equal(t, merged, merged.Merge(merged))
		})
	})
	t.Run("GAP-111 complete and known", func(t *testing.T) {
		t.Parallel()
		require.False(t, (*llm.Usage)(nil).Known())
		require.False(t, (*llm.Usage)(nil).Complete())
		require.False(t, (&llm.Usage{CacheRead: n(1)}).Known())
		require.True(t, (&llm.Usage{Input: n(0)}).Known())
		require.False(t, (&llm.Usage{Input: n(0)}).Complete())
		require.True(t, (&llm.Usage{Output: n(0)}).Known())
		require.False(t, (&llm.Usage{Output: n(0)}).Complete())
		require.True(t, (&llm.Usage{Input: n(0), Output: n(0)}).Complete())
		require.False(t, (&llm.Usage{Input: n(0), Output: n(0), Flaw: "x"}).Known())
		require.False(t, (&llm.Usage{Input: n(0), Output: n(0), Flaw: "x"}).Complete())
	})
}
