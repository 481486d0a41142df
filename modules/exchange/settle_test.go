package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// TestProvenNeedsNoReceipt: a receipt is asked for only where a reader waits for a stream that proved nothing. These
// have no provider, so that asking one would be a nil dereference.
func TestProvenNeedsNoReceipt(t *testing.T) {
	t.Parallel()
	known := &llm.Usage{Input: llm.Count(3), Output: llm.Count(2)}
	for name, tc := range map[string]struct {
		stream, gone bool
		usage        *llm.Usage
	}{
		"a stream that proved it":    {stream: true, usage: known},
		"a body that proved it":      {usage: known},
		"a body that proved nothing": {},
		"a client that left":         {stream: true, gone: true},
	} {
		t.Run("GAP-57 "+name, func(t *testing.T) {
			t.Parallel()
			d, _ := testDelivery(t, keepAliveOfTests)
			d.stream = tc.stream
			d.gone.Store(tc.gone)
			x := (&exchange{scope: scope{gen: new(engine.Generation), req: requestOf(tc.stream)}, delivery: d,
				work: work{current: &attempt{route: &standard, accepted: true, usage: tc.usage}}}).connect()
			require.Nil(t, x.work.proveUsage())
			require.Equal(t, tc.usage, x.work.current.usage)
		})
	}
}

// TestServiceLimit: which limits were the service's, and not the client's own.
func TestServiceLimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failure        failureKind
		shown, stalled bool
		finish         llm.FinishReason
		own, allowance int64
		want           bool
	}{
		"GAP-113 the total time":                  {failure: timeLimit, want: true},
		"GAP-112 of which the client used some":   {failure: timeLimit, stalled: true},
		"GAP-113 the route's after text":          {failure: attemptTimeout, shown: true, want: true},
		"GAP-113 the route's before any":          {failure: attemptTimeout},
		"GAP-112 the route's, used by the client": {failure: attemptTimeout, shown: true, stalled: true},
		"GAP-54 an allowance of the service's": {failure: noVisibleText, finish: llm.FinishLength, allowance: 10,
			want: true},
		"GAP-54 less than the client's": {failure: noVisibleText, finish: llm.FinishLength, own: 11, allowance: 10,
			want: true},
		"GAP-54 the client's":               {failure: noVisibleText, finish: llm.FinishLength, own: 10, allowance: 10},
		"GAP-54 the client's, raised":       {failure: noVisibleText, finish: llm.FinishLength, own: 9, allowance: 10},
		"GAP-54 nothing was said within it": {failure: noVisibleText, finish: llm.FinishStop, allowance: 10},
		"any other end":                     {failure: llm.ErrBroken, shown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := testDelivery(t, keepAliveOfTests)
			d.shown, d.stalled = tc.shown, tc.stalled
			x := (&exchange{delivery: d,
				scope: scope{req: &request{Request: &families.Request{LLM: &llm.Request{MaxTokens: tc.own}}}},
				work:  work{current: &attempt{allowance: tc.allowance, reply: &reply{finish: tc.finish}}}}).connect()
			require.Equal(t, tc.want, x.work.serviceLimit(&failure{kind: tc.failure}))
		})
	}
}

// TestOwedTextGoesAtOnce: what a matcher withheld reaches the client although the end, which waits for the settlement,
// may never be written.
func TestOwedTextGoesAtOnce(t *testing.T) {
	t.Parallel()
	for _, rest := range []string{"owed", ""} {
		d, w := testDelivery(t, keepAliveOfTests)
		x := (&exchange{delivery: d, work: work{current: &attempt{reply: new(reply)}}}).connect()
		x.delivery.encodeEnd(ending{rest: rest}, new(llm.Reply), families.End{Finish: llm.FinishStop,
			Usage: &llm.Usage{}})
		require.Equal(t, rest != "", d.shown)
		if rest != "" {
			require.Contains(t, w.Body.String(), rest)
		}
		require.NotContains(t, w.Body.String(), "[DONE]")
		d.writeEnd()
		require.Contains(t, w.Body.String(), "[DONE]")
	}
}

// liveAttempt is one whose reply the client gets as it comes.
func liveAttempt() *attempt {
	return &attempt{route: &standard, outcome: ledger.Failed, live: true, reply: new(reply)}
}

// TestTakeKeepsHowItEnded: an attempt is finished when its stream ended and said so, and not before.
func TestTakeKeepsHowItEnded(t *testing.T) {
	t.Parallel()
	broken := &failure{kind: llm.ErrBroken}
	for name, tc := range map[string]struct {
		batch  batch
		finish llm.FinishReason
		want   ledger.Outcome
		kind   failureKind
	}{
		"it goes on":                  {batch{}, llm.FinishStop, ledger.Failed, ""},
		"it broke":                    {batch{end: true, failure: broken}, llm.FinishStop, ledger.Failed, llm.ErrBroken},
		"it is whole":                 {batch{end: true}, llm.FinishStop, ledger.Finished, ""},
		"GAP-114 for no known reason": {batch{end: true}, "error", ledger.Failed, llm.ErrUpstream},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := testDelivery(t, keepAliveOfTests)
			a := liveAttempt()
			x := (&exchange{delivery: d, scope: scope{req: requestOf(true)}, work: work{current: a}}).connect()
			tc.batch.events = []llm.Event{{Kind: llm.EventFinish, Finish: tc.finish}}
			end, f := x.transport.takeBatch(a, tc.batch, false)
			require.Equal(t, tc.want, a.outcome)
			require.Equal(t, tc.batch.end, end)
			if tc.kind != "" {
				require.Equal(t, tc.kind, f.kind)
			} else {
				require.Nil(t, f)
			}
		})
	}
}

// TestTakeLate: what comes of an attempt whose time is over counts for its usage alone.
func TestTakeLate(t *testing.T) {
	t.Parallel()
	d, w := testDelivery(t, keepAliveOfTests)
	a := liveAttempt()
	x := (&exchange{delivery: d, scope: scope{req: requestOf(true)}, work: work{current: a}}).connect()
	usage := &llm.Usage{Input: llm.Count(3), Output: llm.Count(2)}
	over := &failure{kind: timeLimit}
	end, f := x.transport.takeBatch(a, batch{late: true, end: true, failure: over, events: []llm.Event{
		{Kind: llm.EventText, Text: "x"}, {Kind: llm.EventUsage, Usage: usage}, {Kind: llm.EventFinish}}}, false)
	require.True(t, end)
	require.Equal(t, over, f)
	require.Equal(t, usage, a.usage)
	require.Empty(t, w.Body.String())
	require.Equal(t, ledger.Failed, a.outcome)
}

// TestTakeFlushes: what is ready is written together.
func TestTakeFlushes(t *testing.T) {
	t.Parallel()
	d, w := testDelivery(t, keepAliveOfTests)
	a := liveAttempt()
	x := (&exchange{delivery: d, scope: scope{req: requestOf(true), call: new(gateway.Call)},
		work: work{current: a}}).connect()
	x.transport.takeBatch(a, textOf(1, 0), true)
	require.Empty(t, w.Body.String(), "more is ready")
	x.transport.takeBatch(a, textOf(maxWrite, 0), true)
	require.Greater(t, w.Body.Len(), maxWrite, "it is as much as one write takes")
	written := w.Body.Len()
	x.transport.takeBatch(a, textOf(1, 0), false)
	require.Greater(t, w.Body.Len(), written)
	written = w.Body.Len()
	x.transport.takeBatch(a, batch{events: textOf(1, 0).events, end: true}, true)
	require.Greater(t, w.Body.Len(), written)
}
