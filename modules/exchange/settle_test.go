package exchange

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

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
			d.stream, d.gone = tc.stream, tc.gone
			x := &exchange{gen: new(engine.Generation), delivery: d, request: new(http.Request),
				attempts: []*attempt{{route: &standard, accepted: true, usage: tc.usage}}}
			require.Nil(t, x.prove())
			require.Equal(t, tc.usage, x.attempt().usage)
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
		"GAP-54 an allowance of the service's":    {failure: noVisibleText, finish: llm.FinishLength, allowance: 10, want: true},
		"GAP-54 less than the client's":           {failure: noVisibleText, finish: llm.FinishLength, own: 11, allowance: 10, want: true},
		"GAP-54 the client's":                     {failure: noVisibleText, finish: llm.FinishLength, own: 10, allowance: 10},
		"GAP-54 the client's, raised":             {failure: noVisibleText, finish: llm.FinishLength, own: 9, allowance: 10},
		"GAP-54 nothing was said within it":       {failure: noVisibleText, finish: llm.FinishStop, allowance: 10},
		"any other end":                           {failure: llm.ErrBroken, shown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := testDelivery(t, keepAliveOfTests)
			d.shown, d.stalled = tc.shown, tc.stalled
			x := &exchange{delivery: d, reply: &reply{finish: tc.finish},
				req:      &request{Request: &families.Request{LLM: &llm.Request{MaxTokens: tc.own}}},
				attempts: []*attempt{{allowance: tc.allowance}}}
			require.Equal(t, tc.want, x.serviceLimit(&failure{kind: tc.failure}))
		})
	}
}

// TestOwedTextGoesAtOnce: what a matcher withheld reaches the client although the end, which waits for the settlement,
// may never be written.
func TestOwedTextGoesAtOnce(t *testing.T) {
	t.Parallel()
	for _, rest := range []string{"owed", ""} {
		d, w := testDelivery(t, keepAliveOfTests)
		x := &exchange{delivery: d, reply: new(reply)}
		require.Nil(t, x.encode(ending{rest: rest}, families.End{Finish: llm.FinishStop, Usage: &llm.Usage{}}))
		require.Equal(t, rest != "", d.shown)
		if rest != "" {
			require.Contains(t, w.Body.String(), rest)
		}
		require.NotContains(t, w.Body.String(), "[DONE]")
		d.end()
		require.Contains(t, w.Body.String(), "[DONE]")
	}
}

// TestNextKeepsHowItEnded: an attempt is finished when its stream ended and said so, and not before.
func TestNextKeepsHowItEnded(t *testing.T) {
	t.Parallel()
	broken := &failure{kind: llm.ErrBroken}
	for name, tc := range map[string]struct {
		end    *ended
		finish llm.FinishReason
		want   ledger.Outcome
		kind   failureKind
	}{
		"it goes on":                  {nil, llm.FinishStop, ledger.Failed, ""},
		"it broke":                    {&ended{broken}, llm.FinishStop, ledger.Failed, llm.ErrBroken},
		"it is whole":                 {&ended{}, llm.FinishStop, ledger.Finished, ""},
		"GAP-114 for no known reason": {&ended{}, "error", ledger.Failed, llm.ErrUpstream},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := testDelivery(t, keepAliveOfTests)
			a := &attempt{route: &standard, outcome: ledger.Failed}
			x := &exchange{delivery: d, request: new(http.Request), attempts: []*attempt{a}, reply: new(reply)}
			q := newQueue(&shared{max: 1 << 20})
			defer q.close()
			require.Nil(t, x.next(a, q), "nothing came")
			require.True(t, q.push(batch{events: []llm.Event{{Kind: llm.EventFinish, Finish: tc.finish}}, end: tc.end}))
			end := x.next(a, q)
			require.Equal(t, tc.want, a.outcome)
			require.Equal(t, tc.end == nil, end == nil)
			if tc.kind != "" {
				require.Equal(t, tc.kind, end.failure.kind)
			} else if end != nil {
				require.Nil(t, end.failure)
			}
		})
	}
}
