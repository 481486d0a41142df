package outcome

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/llm"
)

// note notes so many verdicts of an account.
func (w *world) note(account string, times int, v Verdict) {
	for range times {
		w.Note(small, account, &coding, v)
	}
}

// TestOneAccountMovesNobody is GAP-130: what one account brings about.
func TestOneAccountMovesNobody(t *testing.T) {
	t.Parallel()
	for _, v := range []Verdict{Mismatch, Refused, Empty, Unaccepted, ToolFailed, Retried} {
		t.Run("GAP-130 alone "+v.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.note("hostile", 260, v)
			w.save(t)
			require.InDelta(t, 0.8, w.expected(small), 0, "nobody else has met it")
			w.note("other", 1, Worked)
			w.save(t)
			require.InDelta(t, 0.8, w.expected(small), 0.02, "and one outcome of another makes it no more than one")
			for i := range 9 {
				w.note(fmt.Sprint("honest", i), 20, Worked)
			}
			w.save(t)
			require.InDelta(t, 0.8, w.expected(small), 0.2, "a quarter at most")
			require.Greater(t, w.expected(small), 0.8*(50+75)/(50+100)-1e-9)
		})
	}
	t.Run("GAP-130 with one the whole", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.note("only", 50, InvalidCall)
		w.save(t)
		require.InDelta(t, 0.4, w.expected(small), 1e-9)
		w.note("second", 10, Worked)
		w.save(t)
		require.InDelta(t, 0.8*(50+10)/(50+20), w.expected(small), 1e-6, "shares are new with another account")
	})
	t.Run("GAP-130 an account that is forgotten has no share", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.note("once", 1, Worked)
		w.save(t)
		w.at = w.at.Add(time.Hour)
		w.note("only", 50, InvalidCall)
		w.save(t)
		require.InDelta(t, 0.4, w.expected(small), 0.01)
	})
	t.Run("GAP-130 what all meet is learned", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		for i := range 10 {
			w.note(fmt.Sprint("account", i), 10, Mismatch)
		}
		w.save(t)
		require.InDelta(t, 0.4, w.expected(small), 1e-9)
	})
	t.Run("what operators are told has no account", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.Remember(Request{ID: "r", Route: "small", Model: "small-1", Kinds: coding})
		w.Tell("r", ToldBad)
		w.note("one", 30, Mismatch)
		w.save(t)
		require.InDelta(t, 0.8, w.expected(small), 0.03, "it is no other account")
	})
}

// TestShares: whatever accounts there are, none has more than its part of what counts, and none counts more than it
// has seen (GAP-130).
func TestShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seen := rapid.SliceOfN(rapid.Float64Range(present, MaxSeen), 1, 12).Draw(t, "seen")
		var of []Row
		for _, n := range seen {
			of = append(of, Row{Worked: n})
		}
		most, total := LargestShare(seen, MaxSeen), 0.0
		for _, n := range seen {
			total += min(n, most)
		}
		require.Positive(t, most)
		parts := float64(min(len(seen), mostShares))
		for _, n := range seen {
			require.LessOrEqual(t, min(n, most), total/parts*(1+1e-6))
		}
		at := newWorld().at
		row := shareCell(of, at)
		require.LessOrEqual(t, row.Worked, MaxSeen+1e-9)
	})
}

// TestAccountsAreBounded: of a cell those are kept that have seen most.
func TestAccountsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.note("heavy", 5, Worked)
	for i := range 3 * maxAccounts {
		w.note(fmt.Sprint("account", i), 1, Worked)
	}
	w.save(t)
	require.Len(t, w.kept, maxAccounts)
	require.Equal(t, "heavy", w.kept[maxAccounts-1].Account)
	require.Len(t, w.Rows(), 1)
}

// TestAPromptOverAndOver: a client that sends one prompt again and again did not dislike each answer (GAP-130).
func TestAPromptOverAndOver(t *testing.T) {
	t.Parallel()
	w, req := newWorld(), conversation(says(llm.RoleUser, "Are you there?"))
	turn, retried := TurnOf(affinity.Key{1}, req), 0
	for i := range 30 {
		if _, v := w.Look(turn, req); v == Retried {
			retried++
		}
		w.Remember(Request{ID: fmt.Sprint(i), Route: "small", Model: "small-1", Kinds: coding, Turn: turn})
		w.at = w.at.Add(time.Second)
	}
	require.Equal(t, 1, retried)
}
