package ratelimittest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// times is a limiter as simple as can be: the time of each request of each subject, and how many permits of it are
// out.
type times struct {
	requests map[ratelimit.Subject][]time.Duration
	permits  map[ratelimit.Subject]int64
}

func (m times) check(now time.Duration, asks []ratelimit.Ask) *ratelimit.Refusal {
	var r *ratelimit.Refusal
	for i, a := range asks {
		wait := time.Duration(0)
		if m.permits[a.Subject] >= a.Limit && a.Limit > 0 {
			wait = time.Second
		}
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
	for _, t := range m.requests[s] {
		if now < t+ratelimit.Window {
			n++
		}
	}
	return n
}

// acquire returns the semaphore of which it takes a permit, nil when it takes none.
func (m times) acquire(now time.Duration, asks []ratelimit.Ask) (semaphore *ratelimit.Subject, r *ratelimit.Refusal) {
	if r = m.check(now, asks); r != nil {
		return nil, r
	}
	for i, a := range asks {
		switch {
		case a.Subject.Kind.Semaphore():
			m.permits[a.Subject]++
			semaphore = &asks[i].Subject
		case a.Limit > 0:
			m.requests[a.Subject] = append(m.requests[a.Subject], now)
		}
	}
	return semaphore, nil
}

// out is a permit that has not been released, or has.
type out struct {
	permit    ratelimit.Permit
	semaphore *ratelimit.Subject // nil once it is released
}

// model asks the limiter and the list the same questions, at times that lie close together and far apart, with
// limits that change, and releases permits, some twice.
func model(t *testing.T, open Open) {
	t.Parallel()
	rates := []ratelimit.Subject{KeyOf("x"), KeyOf("y"), AccountOf("x"), AddressOf("192.0.2.1"), AddressOf("2001:db8::"),
		FailuresOf("192.0.2.1")}
	semaphores := []ratelimit.Subject{RunningOf("x"), RunningOf("y"), AttemptsOn("x")}
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, open)
		simple := times{requests: make(map[ratelimit.Subject][]time.Duration), permits: make(map[ratelimit.Subject]int64)}
		var permits []out
		limits := rapid.SampledFrom([]int64{0, 1, 2, 3, 4, 7, 20})
		pause := rapid.OneOf(
			rapid.Just(time.Duration(0)),
			rapid.Map(rapid.Int64Range(1, 3), func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }),
			rapid.Map(rapid.Int64Range(1, 20_000), func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }),
			rapid.SampledFrom([]time.Duration{time.Second, 59 * time.Second, time.Minute - time.Microsecond, time.Minute,
				70 * time.Minute, 72 * time.Minute, (1<<32 - 1) * time.Microsecond, 1 << 32 * time.Microsecond,
				1<<32*time.Microsecond + time.Minute}),
		)
		for range rapid.IntRange(1, 120).Draw(rt, "requests") {
			subjects := rapid.Permutation(rates).Draw(rt, "subjects")[:rapid.IntRange(0, ratelimit.MaxAsks-1).Draw(rt, "asks")]
			if len(subjects) == 0 || rapid.Bool().Draw(rt, "semaphore") {
				at := rapid.IntRange(0, len(subjects)).Draw(rt, "at")
				subjects = slices.Insert(slices.Clone(subjects), at, rapid.SampledFrom(semaphores).Draw(rt, "of"))
			}
			var asks []ratelimit.Ask
			for _, s := range subjects {
				asks = append(asks, ratelimit.Ask{Subject: s, Limit: limits.Draw(rt, "limit")})
			}
			switch what := rapid.IntRange(0, 9).Draw(rt, "what"); {
			case what == 0:
				expected := simple.check(b.Elapsed(), asks)
				got, err := b.limiter.Check(t.Context(), asks)
				require.NoError(rt, err)
				require.Equal(rt, expected, got, "at %v: %v", b.Elapsed(), asks)
			case what <= 3 && len(permits) > 0:
				p := &permits[rapid.IntRange(0, len(permits)-1).Draw(rt, "permit")]
				b.limiter.Release(p.permit)
				if p.semaphore != nil {
					simple.permits[*p.semaphore]--
					p.semaphore = nil
				}
			default:
				semaphore, expected := simple.acquire(b.Elapsed(), asks)
				permit, got, err := b.limiter.Acquire(t.Context(), asks)
				require.NoError(rt, err)
				require.Equal(rt, expected, got, "at %v: %v", b.Elapsed(), asks)
				require.Equal(rt, semaphore != nil, permit != 0)
				permits = append(permits, out{permit, semaphore})
			}
			b.Advance(pause.Draw(rt, "pause"))
		}
	})
}
