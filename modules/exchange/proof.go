package exchange

import (
	"context"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
)

// proofWait is how long an attempt whose time is over is heard out for what it used. The client waits for its answer
// meanwhile, and it is less than what delivery.limit leaves for the last frame.
const proofWait = 3 * time.Second

// cancel asks a provider that can prove it to stop an attempt and to say what it used (GAP-47).
func (x *exchange) cancel(ctx context.Context, stream engine.Stream) {
	if err := stream.Cancel(ctx); err != nil {
		x.engine.Logger().Warn("cancelling an attempt", "request_id", x.call.ID, "error", err)
	}
}

// awaitProof cancels an attempt whose time is over, and reads its stream to the end for what it used. Nothing else of
// that counts any more. Where the proof does not come, a later receipt may.
func (x *exchange) awaitProof(a *attempt, stream engine.Stream, q *queue) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), proofWait)
	defer cancel()
	x.cancel(ctx, stream)
	for {
		select {
		case <-q.ready:
			b, _, _ := q.pop()
			for _, ev := range b.events {
				a.note(ev)
			}
			if b.end != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
