package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEarlyIsForgottenHalf: first tokens that come later than they did are taken for late for a while, and then for
// usual: what was early doubles in ten minutes, however many came in that time.
func TestEarlyIsForgottenHalf(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{10 * time.Minute, time.Minute, time.Second} {
		var p firstTokenPace
		p.sample(0, time.Second)
		for at := every; at <= 10*time.Minute; at += every {
			p.sample(at, time.Minute)
		}
		require.InDelta(t, 2, p.early, 1e-6, "one every %s", every)
	}
}

// TestPace: what is early and what is usual go towards what comes in steps, so that one alone does not count much:
// what is early a tenth towards what is earlier, and what is usual a fifth, up or down.
func TestPace(t *testing.T) {
	t.Parallel()
	var p firstTokenPace
	p.sample(0, time.Second)
	require.Equal(t, []float64{1, 1}, []float64{p.early, p.usual}, "the first one is all that is known")
	p.sample(0, 100*time.Millisecond)
	require.InDeltaSlice(t, []float64{0.9, 1 / 1.2}, []float64{p.early, p.usual}, 1e-9)
	p.sample(0, 880*time.Millisecond)
	require.InDeltaSlice(t, []float64{0.88, 0.88}, []float64{p.early, p.usual}, 1e-9)
	p.sample(0, 2*time.Second)
	require.InDeltaSlice(t, []float64{0.88, 0.88 * 1.2}, []float64{p.early, p.usual}, 1e-9)
	for range 100 {
		p.sample(0, 0)
	}
	require.InDeltaSlice(t, []float64{0.001, 0.001}, []float64{p.early, p.usual}, 1e-9, "a millisecond is the least")
}

// TestLateFollowsWhatIsUsual: what is late is known from twenty times on, and follows what is usual within sixteen.
func TestLateFollowsWhatIsUsual(t *testing.T) {
	t.Parallel()
	var p firstTokenTimes
	for n := range knownFrom {
		late, ok := p.from(3, 0)
		require.False(t, ok, n)
		usual, ok := p.quantile(0.5)
		require.False(t, ok, n)
		require.Zero(t, late+usual)
		p.add(time.Second)
	}
	limit, ok := p.from(3, 0)
	require.True(t, ok)
	for range 5 * knownFrom {
		p.add(8 * time.Second)
	}
	median, _ := p.quantile(0.5)
	longer, _ := p.from(3, 0)
	require.Equal(t, 3*median, longer)
	require.Greater(t, longer, 7*limit)
	for range 15 {
		for range 100 {
			p.counts[0]++ // had they been added, sixteen would be over
			p.total++
		}
		p.add(0)
		same, _ := p.from(3, 0)
		require.Equal(t, longer, same)
	}
	p.add(0)
	shorter, _ := p.from(3, 0)
	require.Equal(t, 3*time.Millisecond, shorter)
}

// TestPastRemembersTheLatest: however many times came, the shares are of those that are remembered, and the latest
// count the most.
func TestPastRemembersTheLatest(t *testing.T) {
	t.Parallel()
	const remembered = 1024
	var p firstTokenTimes
	for i := range 10 * remembered {
		p.add(time.Second)
		var sum uint32
		for _, n := range p.counts {
			sum += n
		}
		require.Equal(t, sum, p.total, i)
		require.Less(t, p.total, uint32(2*remembered))
		if i < 2*remembered {
			require.EqualValues(t, (i+1)%(2*remembered)+(i+1)/(2*remembered)*remembered, p.total, "half of them")
		}
	}
	for range 2 * remembered {
		p.add(time.Minute)
	}
	usual, ok := p.quantile(0.5)
	require.True(t, ok)
	require.GreaterOrEqual(t, usual, time.Minute)
}

// TestPastBounds: what takes a millisecond at most is told as one, and what takes over four minutes as the last
// bucket.
func TestPastBounds(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, time.Millisecond: time.Millisecond, time.Hour: 1 << 18 * time.Millisecond,
	} {
		var p firstTokenTimes
		for range knownFrom {
			p.add(took)
		}
		got, ok := p.quantile(0.5)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
}

// TestKinds: what is compared with what.
func TestKinds(t *testing.T) {
	t.Parallel()
	for call, want := range map[Call]kind{
		{}: small, {Input: 4_000}: small, {Input: 4_001}: middle, {Input: 32_000}: middle, {Input: 32_001}: large,
		{Whole: true}: inOnePiece, {Input: 32_001, Whole: true}: inOnePiece,
	} {
		require.Equal(t, want, kindOf(call), "%+v", call)
	}
}
