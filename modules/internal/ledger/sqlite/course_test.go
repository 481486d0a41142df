package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// TestOlderCourse (GAP-132): a running request's course that is older than what the store has changes nothing.
func TestOlderCourse(t *testing.T) {
	t.Parallel()
	p := newTill(t, nil)
	const id = "req_0001"
	require.NoError(t, p.hold(id))
	require.NoError(t, p.Begin(t.Context(), ledger.Next{Request: id, Attempt: p.attempt(id, 2), Microcents: 2_000_000}))
	before, err := p.Request(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, before.Attempts, 2)
	balance := p.balance()

	c := book.Course{Running: book.Running{ID: id, Account: p.account, Key: p.key, Owner: p.BootID(), Endpoint: "chat",
		Profile: "max", Held: 1_000_000, Created: before.Created}, Kept: true}
	for attempts := range 2 {
		all, err := p.TakeUp(t.Context(), []book.Course{c})
		require.NoError(t, err)
		require.NoError(t, all[0].Err, "with %d attempts", attempts)
		after, err := p.Request(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.Equal(t, balance, p.balance())
		c.Attempts = append(c.Attempts, book.BeginAttempt(p.attempt(id, 1), prices(1), prices(1), before.Created))
	}
	_, err = p.settle(id, 7)
	require.NoError(t, err)
	p.verified()
}
