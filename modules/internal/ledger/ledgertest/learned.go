package ledgertest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// testLearned is what is kept of outcomes, over restarts: it is replaced in one piece, and no money.
func testLearned(t *testing.T, open Open) {
	f := newFixture(t, open, 10, ledger.Terms{})
	ctx := soon(t)
	learn := func(want, put []ledger.Learned) {
		t.Helper()
		var kept []ledger.Learned
		require.NoError(t, f.store.Learn(ctx, func(k []ledger.Learned) []ledger.Learned {
			kept = slices.Clone(k)
			return put
		}))
		require.Equal(t, want, kept)
	}
	at := start.UTC()
	a := ledger.Learned{Route: "a", Model: "m", Kind: "code", Worked: 1.5, Failed: 0.25, Good: 1, Bad: 2, At: at}
	b := ledger.Learned{Route: "a", Model: "m", Kind: "math", Worked: 1e-9, At: at}
	c := ledger.Learned{Route: "a", Model: "n", Kind: "code", Failed: 1e9, At: at.AddDate(1, 0, 0)}
	learn(nil, nil)
	learn(nil, []ledger.Learned{c, b, a})
	learn([]ledger.Learned{a, b, c}, []ledger.Learned{a, c})
	f.restart()
	learn([]ledger.Learned{a, c}, nil)
	learn(nil, []ledger.Learned{b})
	f.verify()
}
