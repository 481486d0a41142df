package exchange

import (
	"context"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
)

// proofWait is how long an attempt whose time is over is heard out for what it used. The client waits for its answer
// meanwhile, and it is less than what delivery.setLastDeadline leaves for the last frame.
const proofWait = 3 * time.Second

// cancelAttempt asks a provider that can prove it to stop an attempt and to say what it used (GAP-47). What it used,
// and the end, can be here before the answer to that: then nobody waits for the answer any more.
func (t *transport) cancelAttempt(ctx context.Context, stream engine.Stream, ended <-chan struct{}) {
	err := stream.Cancel(ctx)
	if err == nil {
		return
	}
	select {
	case <-ended:
	default:
		t.engine.Logger().Warn("cancelling an attempt", "request_id", t.call.ID, "error", err)
	}
}

// awaitProof sees to it that an attempt which can prove it says what it used, beside the exchange, which reads its
// stream to the end: it cancels the attempt when the client has left, and when its time is over, for which it hears it
// out for a while. Where the proof does not come, a later receipt may. A failure of the service's own needs no proof.
func (t *transport) awaitProof(ctx context.Context, a *attempt, stream engine.Stream, hangUp func(),
	ended <-chan struct{},
) {
	select {
	case <-ended:
		return
	case <-t.delivery.connectionBroken():
		t.cancelAttempt(ctx, stream, ended)
	case <-t.request.Context().Done():
		t.cancelAttempt(ctx, stream, ended)
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	defer hangUp()
	if interrupted(ctx).isFree() {
		return
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), proofWait)
	defer cancel()
	if a.racer != nil {
		defer context.AfterFunc(a.racer.race.over, cancel)()
	}
	t.cancelAttempt(wait, stream, ended)
	select {
	case <-ended:
	case <-wait.Done():
	}
}
