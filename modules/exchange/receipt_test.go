package exchange

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// tardy is a backend that has receipts after a while.
type tardy struct {
	engine.Backend
	ready time.Time
	usage llm.Usage
	asked int
}

func (l *tardy) Receipts(ctx context.Context, attempts []ledger.Waiting) ([]host.Receipt, error) {
	if l.asked++; attempts[0].Reference != "gen-1" {
		return nil, errors.New("who is that")
	}
	switch {
	case ctx.Err() != nil:
		return nil, llm.Errorf(llm.ErrCanceled, "the caller left")
	case time.Now().Before(l.ready):
		return []host.Receipt{{Attempt: attempts[0].Attempt}}, errors.New("nothing yet")
	}
	return []host.Receipt{{Attempt: attempts[0].Attempt, Usage: l.usage}}, errors.New("some are missing")
}

func TestReceiptOf(t *testing.T) {
	t.Parallel()
	usage := llm.Usage{Input: llm.Count(0), Output: llm.Count(5)}
	asked := ledger.Waiting{Attempt: "a.1", Reference: "gen-1"}
	for _, tc := range []struct {
		name  string
		after time.Duration
		asked int
	}{
		{"GAP-57 at once", 0, 1},
		{"GAP-57 soon", 200 * time.Millisecond, 4},
		{"GAP-57 late", 29 * time.Second, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &tardy{ready: time.Now().Add(tc.after), usage: usage}
				ctx, cancel := context.WithTimeout(t.Context(), receiptWait)
				defer cancel()
				got, err := receiptOf(ctx, b, asked)
				require.NoError(t, err)
				require.Equal(t, &usage, got)
				require.Equal(t, tc.asked, b.asked)
			})
		})
	}
	t.Run("GAP-57 too late", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &tardy{ready: time.Now().Add(time.Minute)}
			ctx, cancel := context.WithTimeout(t.Context(), receiptWait)
			defer cancel()
			begin := time.Now()
			got, err := receiptOf(ctx, b, asked)
			require.ErrorContains(t, err, "nothing yet", "what the provider said")
			require.Nil(t, got)
			require.Equal(t, receiptWait, time.Since(begin))
		})
	})
}

// Receipts survive: by what an attempt that proved nothing is asked for is in the ledger, for a provider that gives
// receipts, and nothing for one that does not.
func TestReferencesAreKeptForReceipts(t *testing.T) {
	t.Parallel()
	for plugin, want := range map[string][]string{
		"later": {"gen-first", "gen-second", "gen-third"}, "plain": {"", "", ""},
	} {
		t.Run("GAP-56 "+plugin, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, plugin, func(c *config.Config) { c.Providers[0].Carry = config.CarryProcess })
			for range want {
				b.upstream.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Cut()}})
			}
			w, call := httptest.NewRecorder(), &gateway.Call{Kind: gateway.Generate, Body: []byte(`{"model":"service/auto",
				"messages":[{"role":"user","content":"hello"}]}`)}
			b.ask(t, t.Context(), w, call)
			require.Equal(t, http.StatusBadGateway, w.Code)
			rows, err := b.engine.Store().Waiting(t.Context(), "up", "", 10)
			require.NoError(t, err)
			var got []string
			for _, r := range rows {
				got = append(got, r.Reference)
			}
			require.Equal(t, want, got)
		})
	}
}

// A settlement says it too, for a note in the ledger may be lost.
func TestResultsHaveReferences(t *testing.T) {
	t.Parallel()
	a := &attempt{id: "a.1", route: &config.Route{}, accepted: true, reference: "gen-1", outcome: ledger.Failed}
	require.Equal(t, ledger.Result{Attempt: "a.1", Outcome: ledger.Unproven, Reference: "gen-1"}, a.result(false))
	require.Equal(t, ledger.Result{Attempt: "a.1", Outcome: ledger.Failed}, a.result(true), "nothing is asked")
}
