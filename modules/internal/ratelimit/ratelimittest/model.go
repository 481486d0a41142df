package ratelimittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// times is a limiter as simple as can be: the time of each request of each subject.
type times map[ratelimit.Subject][]time.Duration

func (m times) check(now time.Duration, asks []ratelimit.Ask) *ratelimit.Refusal {
	var r *ratelimit.Refusal
	for i, a := range asks {
		wait := time.Duration(0)
		for m.counted(now+wait, a.Subject) >= a.Limit && a.Limit > 0 {
			wait += time.Second
		}
		if wait == 0 {
			continue
		}
		if r == nil {
			r = &ratelimit.Refusal{Ask: i}
		}
		r.Wait = max(r.Wait, wait)
	}
	return r
}

func (m times) counted(now time.Duration, s ratelimit.Subject) int64 {
	var n int64
	for _, t := range m[s] {
		if now < t+ratelimit.Window {
			n++
		}
	}
	return n
}

func (m times) take(now time.Duration, asks []ratelimit.Ask) *ratelimit.Refusal {
	r := m.check(now, asks)
	for _, a := range asks {
		if r == nil && a.Limit > 0 {
			m[a.Subject] = append(m[a.Subject], now)
		}
	}
	return r
}

// model asks the limiter and the list the same questions, at times that lie close together and far apart, with
// limits that change.
func model(t *testing.T, open Open) {
	t.Parallel()
	subjects := []ratelimit.Subject{KeyOf("x"), KeyOf("y"), AccountOf("x"), AddressOf("192.0.2.1"), AddressOf("2001:db8::"), FailuresOf("192.0.2.1")}
	rapid.Check(t, func(rt *rapid.T) {
		b, simple := newBench(t, open), make(times)
		limits := rapid.SampledFrom([]int64{0, 1, 2, 3, 4, 7, 20})
		pause := rapid.OneOf(
			rapid.Just(time.Duration(0)),
			rapid.Map(rapid.Int64Range(1, 3), func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }),
			rapid.Map(rapid.Int64Range(1, 20_000), func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }),
			rapid.SampledFrom([]time.Duration{time.Second, 59 * time.Second, time.Minute - time.Microsecond, time.Minute, 70 * time.Minute, 72 * time.Minute,
				(1<<32 - 1) * time.Microsecond, 1 << 32 * time.Microsecond, 1<<32*time.Microsecond + time.Minute}),
		)
		for range rapid.IntRange(1, 120).Draw(rt, "requests") {
			var asks []ratelimit.Ask
			for _, s := range rapid.Permutation(subjects).Draw(rt, "subjects")[:rapid.IntRange(1, ratelimit.MaxAsks).Draw(rt, "asks")] {
				asks = append(asks, ratelimit.Ask{Subject: s, Limit: limits.Draw(rt, "limit")})
			}
			want, ask := simple.take, b.limiter.Take
			if rapid.IntRange(0, 9).Draw(rt, "check") == 0 {
				want, ask = simple.check, b.limiter.Check
			}
			expected := want(b.Elapsed(), asks)
			got, err := ask(t.Context(), asks)
			require.NoError(rt, err)
			require.Equal(rt, expected, got, "at %v: %v", b.Elapsed(), asks)
			b.Advance(pause.Draw(rt, "pause"))
		}
	})
}
