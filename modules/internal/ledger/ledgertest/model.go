package ledgertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func isInsufficient(err error) bool { return errors.Is(err, ledger.ErrInsufficient) }

// model is an account as the rules describe it: worth, holds, and what each settled request cost. It counts
// in microcents only and knows neither credits nor accruals; those must follow.
type model struct {
	net        int64
	holds      map[string]int64
	attempts   map[string][]string // of running requests
	settled    map[string]ledger.Charge
	references map[string]bool
}

func (m *model) held() (sum int64) {
	for _, h := range m.holds {
		sum += h
	}
	return sum
}

// credits is the worth in whole credits, and what is missing to them.
func (m *model) credits() (credits, accrued int64) {
	for credits = m.net/1_000_000 - 1; credits*1_000_000 < m.net; credits++ {
	}
	return credits, credits*1_000_000 - m.net
}

func (m *model) admits(microcents int64) bool {
	credits, accrued := m.credits()
	available := credits*1_000_000 - (m.held()+999_999)/1_000_000*1_000_000
	if accrued > 0 {
		available -= 1_000_000
	}
	return available >= 1_000_000 && microcents <= available
}

// testModel drives a store and the model with the same random operations and compares them after each.
// The ledger of all runs together is verified when the fixture ends. Charges stay within holds, so the worth less the holds never falls below zero (GAP-50).
func testModel(t *testing.T, open Open) {
	f := newFixture(t, open, 0)
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		f.newAccount(0)
		m := &model{holds: map[string]int64{}, attempts: map[string][]string{}, settled: map[string]ledger.Charge{}, references: map[string]bool{}}
		amounts := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1_000_000), rapid.Int64Range(999_998, 1_000_002), rapid.Int64Range(0, 9_000_000))
		running := func(t *rapid.T) string {
			if len(m.holds) == 0 {
				t.Skip("nothing runs")
			}
			return rapid.SampledFrom(sortedKeys(m.holds)).Draw(t, "request")
		}
		t.Repeat(map[string]func(*rapid.T){
			"credit": func(t *rapid.T) {
				n := rapid.Int64Range(1, 12).Draw(t, "credits")
				ref := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "reference")
				_, applied, err := f.store.AddCredit(ctx, ledger.Credit{Account: f.account.ID, Credits: n, Reference: ref})
				require.NoError(t, err)
				require.Equal(t, !m.references[ref], applied)
				if applied {
					m.net += n * 1_000_000
					m.references[ref] = ref != ""
				}
			},
			"hold": func(t *rapid.T) {
				h := f.newHold("unit", amounts.Draw(t, "microcents"))
				_, err := f.store.Hold(ctx, h)
				if !m.admits(h.Microcents) {
					require.ErrorIs(t, err, ledger.ErrInsufficient)
					return
				}
				require.NoError(t, err)
				m.holds[h.Request], m.attempts[h.Request] = h.Microcents, []string{h.Attempt.ID}
			},
			"begin": func(t *rapid.T) {
				id := running(t)
				total := amounts.Draw(t, "total")
				a := f.attempt("fraction")
				err := f.store.Begin(ctx, id, a, total)
				if more := total - m.holds[id]; more > 0 && !m.admits(more) {
					require.ErrorIs(t, err, ledger.ErrInsufficient)
					return
				}
				require.NoError(t, err)
				m.holds[id], m.attempts[id] = max(total, m.holds[id]), append(m.attempts[id], a.ID)
			},
			"settle": func(t *rapid.T) {
				id := running(t)
				s, want := m.settlement(t, id)
				c, err := f.store.Settle(ctx, s)
				require.NoError(t, err)
				require.Equal(t, want.Microcents, c.Microcents)
				require.Equal(t, want.Pending, c.Pending)
				m.net -= want.Microcents
				m.settled[id] = want
				delete(m.holds, id)
			},
			"settle again": func(t *rapid.T) {
				if len(m.settled) == 0 {
					t.Skip("nothing is settled")
				}
				id := rapid.SampledFrom(sortedKeys(m.settled)).Draw(t, "request")
				c, err := f.store.Settle(ctx, ledger.Settlement{Request: id, Surcharge: 5})
				require.NoError(t, err)
				require.Equal(t, m.settled[id].Microcents, c.Microcents)
				require.Equal(t, m.settled[id].Pending, c.Pending)
			},
			"crash": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
					t.Skip("not now")
				}
				f.restart()
				for id := range m.holds {
					m.settled[id] = ledger.Charge{Pending: true}
				}
				clear(m.holds)
			},
			"": func(t *rapid.T) {
				credits, accrued := m.credits()
				require.Equal(t, ledger.Balance{Credits: credits, Accrued: accrued, Held: m.held()}, f.balance())
				require.GreaterOrEqual(t, m.net, m.held())
			},
		})
	})
}

// settlement draws how a request ends, and says what that has to cost: nothing above its hold.
func (m *model) settlement(t *rapid.T, id string) (ledger.Settlement, ledger.Charge) {
	left := m.holds[id]
	s := ledger.Settlement{Request: id, Free: rapid.IntRange(0, 4).Draw(t, "free") == 0}
	s.Surcharge = rapid.Int64Range(0, min(left, 1_350)).Draw(t, "surcharge")
	left -= s.Surcharge
	var exact int64 // microcents x 1,000,000
	pending := false
	for i, a := range m.attempts[id] {
		r := ledger.Result{Attempt: a, Outcome: rapid.SampledFrom([]ledger.Outcome{ledger.Finished, ledger.Failed, ledger.Unproven}).Draw(t, "outcome")}
		price := prices["fraction"].Output
		if i == 0 {
			price = prices["unit"].Output
		}
		if rapid.Bool().Draw(t, "proven") {
			n := rapid.Int64Range(0, (left*1_000_000-exact)/price).Draw(t, "tokens")
			r.Usage = usage(0, n)
			exact += n * price
		}
		pending = pending || r.Outcome == ledger.Unproven || r.Outcome == ledger.Finished && r.Usage == nil
		s.Results = append(s.Results, r)
	}
	if s.Free {
		return s, ledger.Charge{}
	}
	return s, ledger.Charge{Microcents: s.Surcharge + exact/1_000_000, Pending: pending}
}

// sortedKeys gives random draws an order to draw from.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
