package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// scribe is a classifier's provider: it says how long each request's prompt is, after a while, and keeps the batches.
type scribe struct {
	takes   time.Duration
	err     error
	mu      sync.Mutex
	batches []int
}

func (s *scribe) predict(ctx context.Context, requests []llm.PredictRequest) (out []llm.Prediction, err error) {
	s.mu.Lock()
	s.batches = append(s.batches, len(requests))
	takes, failed := s.takes, s.err
	s.mu.Unlock()
	if takes > 0 { // a timer that is over at once crashes under the race detector, see TestHandOver of package exchange
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for _, r := range requests {
		out = append(out, llm.Prediction{float64(r.InputTokens)})
	}
	return out, failed
}

// become changes how long the next call takes.
func (s *scribe) become(takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = takes
}

func ofLength(n int) llm.PredictRequest { return llm.PredictRequest{InputTokens: int64(n)} }

// A predictor of one's own, batched, with a deadline. The clock is synctest's.
func TestClassifier(t *testing.T) {
	t.Parallel()
	const deadline = 5 * time.Millisecond
	begin := func(s *scribe) *classifier { return &classifier{predict: s.predict, deadline: deadline} }
	t.Run("requests that come meanwhile travel together", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &scribe{takes: 1500 * time.Microsecond}
			c := begin(s)
			var all sync.WaitGroup
			var said [70]llm.Prediction
			var failed [70]error
			for i := range 70 {
				all.Go(func() {
					time.Sleep(time.Duration(min(i, 1)) * time.Millisecond) //nolint:forbidigo // the clock is synctest's
					said[i], failed[i] = c.Predict(t.Context(), ofLength(i))
				})
			}
			all.Wait()
			for i := range said {
				require.NoError(t, failed[i])
				require.Equal(t, llm.Prediction{float64(i)}, said[i], "each has its own")
			}
			synctest.Wait()
			require.Equal(t, []int{1, 64, 5}, s.batches)
			_, err := c.Predict(t.Context(), ofLength(1))
			require.NoError(t, err, "it begins again")
		})
	})
	t.Run("nobody waits longer than the deadline, nor at all while an answer is late", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &scribe{takes: time.Second}
			c := begin(s)
			begun := time.Now()
			_, err := c.Predict(t.Context(), ofLength(1))
			require.ErrorIs(t, err, errClassifiedLate)
			require.Equal(t, deadline, time.Since(begun))
			time.Sleep(time.Microsecond) //nolint:forbidigo // the clock is synctest's
			begun = time.Now()
			_, err = c.Predict(t.Context(), ofLength(2))
			require.ErrorIs(t, err, errClassifierBusy)
			require.Zero(t, time.Since(begun))
			time.Sleep(time.Second) //nolint:forbidigo // the clock is synctest's
			s.become(0)
			p, err := c.Predict(t.Context(), ofLength(3))
			require.NoError(t, err)
			require.Equal(t, llm.Prediction{3}, p)
			synctest.Wait()
			require.Equal(t, []int{1, 1}, s.batches, "who has gone is not asked about")
		})
	})
	t.Run("a call that hangs ends", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &scribe{takes: time.Hour}
			c := begin(s)
			_, err := c.Predict(t.Context(), ofLength(1))
			require.ErrorIs(t, err, errClassifiedLate)
			time.Sleep(classifyFor) //nolint:forbidigo // the clock is synctest's
			synctest.Wait()
			s.become(0)
			_, err = c.Predict(t.Context(), ofLength(2))
			require.NoError(t, err)
		})
	})
	t.Run("a failure is everybody's, and a caller who leaves goes at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &scribe{err: errors.New("no model")}
			c := begin(s)
			_, err := c.Predict(t.Context(), ofLength(1))
			require.EqualError(t, err, "no model")
			s.become(time.Millisecond)
			ctx, leave := context.WithCancel(t.Context())
			leave()
			_, err = c.Predict(ctx, ofLength(2))
			require.ErrorIs(t, err, context.Canceled)
		})
	})
}
