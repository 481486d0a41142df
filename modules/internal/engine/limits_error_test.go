package engine

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// failing is a limiter that cannot say.
type failing struct {
	ratelimit.Limiter
	check, acquire error
}

func (f failing) Check(ctx context.Context, asks []ratelimit.Ask) (*ratelimit.Refusal, error) {
	if f.check != nil {
		return nil, f.check
	}
	return f.Limiter.Check(ctx, asks)
}

func (f failing) Acquire(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	if f.acquire != nil {
		return 0, nil, f.acquire
	}
	return f.Limiter.Acquire(ctx, asks)
}

// TestLimiterFails: what nobody has counted is not admitted, and takes no place of another.
func TestLimiterFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken by the test")
	for name, f := range map[string]failing{
		"when it counts": {acquire: broken}, "when max_streams is reached": {check: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alone := config.Plan{Name: "alone", Limits: config.Limits{ConcurrentRequests: 1}}
			begin, _ := limits(&config.Config{Plans: []config.Plan{alone}})
			w := begin()
			f.Limiter = w.engine.limiter
			w.engine.limiter = f
			if f.check != nil {
				w.engine.streams.limit(0)
			}
			who, here := client("k", "a", "alone"), netip.MustParseAddr("192.0.2.1")
			_, err := w.AdmitCharged(t.Context(), who, here)
			require.ErrorIs(t, err, broken)
			require.Zero(t, w.engine.streams.used.Load())
			w.engine.limiter = f.Limiter
			w.engine.streams.limit(1)
			l, err := w.AdmitCharged(t.Context(), who, here)
			require.NoError(t, err)
			require.Nil(t, l, "the one place is free")
			w.Release()
		})
	}
}
