package health

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestLimitGrows: each first token in time makes room for a little more, and for less where the upstream refused as
// many within a minute; while not half of what may run does, it says nothing of more.
func TestLimitGrows(t *testing.T) {
	t.Parallel()
	const much, little, at = 1, 0.5, 2 * time.Hour
	for name, tt := range map[string]struct {
		running int64
		ceiling float64
		since   time.Duration // when it refused
		by      float64       // over the root of the limit, or over the limit
	}{
		"half of it runs":              {50, 0, 0, much},
		"less than half":               {49, 0, 0, 0},
		"as many were refused":         {100, 100, 0, little},
		"a little before it refused":   {100, 124.9, 0, little},
		"well before it refused":       {100, 125.1, 0, much},
		"it refused for a minute":      {100, 100, time.Minute - 1, little},
		"it refused a minute ago":      {100, 100, time.Minute, much},
		"it refused and runs for less": {49, 100, 0, 0},
	} {
		l := limit{ceiling: tt.ceiling, dropped: at - tt.since}
		l.set(100)
		l.from.value = 7
		l.sample(at, time.Second, small, tt.running)
		want := 100 + tt.by/10
		if tt.by == little {
			want = 100 + tt.by/100
		}
		require.InDelta(t, want, l.value, 1e-9, name)
		require.Zero(t, l.from.value, "what was late is over")
	}
	var l limit // which was never refused
	l.begin()
	l.sample(time.Second, time.Second, small, 20)
	require.InDelta(t, 20+1/math.Sqrt(20), l.value, 1e-9, "as much as it can from the first second on")
	for set, most := range map[float64]int64{0: 1, 1.9: 1, 999.5: 999, 5000: 1000} {
		l.set(set)
		require.Equal(t, most, l.most())
	}
}

// TestLimitLowers: first tokens that come later than three times the early ones (nine times for a reply in one piece)
// lower the limit by as much as they are late, three tenths at most, once in twice the time that one takes.
func TestLimitLowers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind  kind
		usual float64 // with 1 as the early one
		want  float64
	}{
		{small, 2.999, 100.1}, {small, 3.3, 100 / 1.1}, {small, 9, 70}, {large, 3.3, 100 / 1.1},
		{inOnePiece, 8.999, 100.1}, {inOnePiece, 9.9, 100 / 1.1},
	} {
		took := time.Duration(tt.usual * float64(time.Second))
		for _, early := range []time.Duration{1, 0} {
			var l limit
			l.set(100)
			l.paces[tt.kind] = firstTokenPace{early: 1, usual: tt.usual, at: 2 * took}
			l.lowered = early
			l.sample(2*took, took, tt.kind, 100)
			if early == 0 || tt.want > 100 {
				require.InDelta(t, tt.want, l.value, 1e-6, "%+v", tt)
			} else {
				require.InDelta(t, 100, l.value, 0, "%+v, an instant too early", tt)
			}
		}
	}
}

// TestLimitIsHalvedOnce: once the limit is half of what it was, or one, it shows whether fewer attempts are less
// late. If not, as late is what is usual.
func TestLimitIsHalvedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value, usual, early float64 // of a limit that was 100, when 4 seconds were the worst of what was early 1
	}{
		{50.1, 4, 1}, {50, 4, 4}, {50, 3.1, 3.1}, {50, 3, 1}, {50, 5, 5}, {leastLimit, 4, 4},
	} {
		var l limit
		l.set(tt.value)
		l.from.value, l.from.usual = 100, 4
		p := firstTokenPace{early: 1, usual: tt.usual}
		l.lower(time.Hour, 2, &p)
		require.InDelta(t, tt.early, p.early, 1e-9, "%+v", tt)
		if tt.value > 50 {
			require.InDelta(t, tt.value*backOff, l.value, 1e-9)
			continue
		}
		require.InDelta(t, tt.value, l.value, 0, "%+v", tt)
		require.Zero(t, l.from.value, "the next time is another one")
	}
}

// TestQueue: attempts wait in the order in which they came, and whichever leaves, the others go on waiting.
func TestQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var want []*Attempt
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				a := new(Attempt)
				q.push(a)
				want = append(want, a)
			},
			"remove": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip("nobody waits")
				}
				i := rapid.IntRange(0, len(want)-1).Draw(t, "which")
				q.remove(want[i])
				require.Equal(t, Attempt{}, *want[i])
				want = slices.Delete(want, i, i+1)
			},
			"": func(t *rapid.T) {
				var forwards, backwards []*Attempt
				for a := q.first; a != nil; a = a.later {
					require.True(t, a.waiting)
					forwards = append(forwards, a)
				}
				for a := q.last; a != nil; a = a.earlier {
					backwards = append(backwards, a)
				}
				slices.Reverse(backwards)
				require.Len(t, forwards, len(want))
				require.Len(t, backwards, len(want))
				for i, a := range want {
					require.True(t, a == forwards[i] && a == backwards[i])
				}
			},
		})
	})
}
