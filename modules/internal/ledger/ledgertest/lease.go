package ledgertest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Leases are the lease of one ledger, kept in memory: that of each process expires unless it is renewed.
type Leases struct {
	Now    func() time.Time
	Length time.Duration

	mu   sync.Mutex
	last ledger.Grant
	free bool // it was given back
}

func (l *Leases) held() bool { return l.last.Generation > 0 && !l.free && l.last.Holds(l.Now()) }

// Acquire implements ledger.Lease.
func (l *Leases) Acquire(owner string) (ledger.Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held() {
		return ledger.Grant{}, ledger.ErrLocked
	}
	l.free = false
	l.last = ledger.Grant{Owner: owner, Generation: l.last.Generation + 1, Expires: l.Now().Add(l.Length)}
	return l.last, nil
}

// Renew implements ledger.Lease.
func (l *Leases) Renew(g ledger.Grant) (ledger.Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held() || g.Generation != l.last.Generation {
		return ledger.Grant{}, ledger.ErrLapsed
	}
	l.last.Expires = l.Now().Add(l.Length)
	return l.last, nil
}

// Release implements ledger.Lease.
func (l *Leases) Release(g ledger.Grant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = l.free || g.Generation == l.last.Generation
	return nil
}

// LeaseCase is a lease to be tested.
type LeaseCase struct {
	// Process is the lease as another process sees it, each time.
	Process func() ledger.Lease
	// Wait moves the lease's clock; nil where leases never expire.
	Wait func(time.Duration)
	// Length is after how long one expires that is not renewed.
	Length time.Duration
}

// RunLease runs the suite that every ledger.Lease passes.
func RunLease(t *testing.T, open func(t *testing.T) LeaseCase) {
	test := func(name string, run func(t *testing.T, c LeaseCase, one, two ledger.Lease)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t)
			run(t, c, c.Process(), c.Process())
		})
	}
	acquire := func(t *testing.T, l ledger.Lease, owner string) ledger.Grant {
		g, err := l.Acquire(owner)
		require.NoError(t, err)
		require.Equal(t, owner, g.Owner)
		require.Positive(t, g.Generation)
		t.Cleanup(func() { require.NoError(t, l.Release(g)) }) // until then it is reachable, and what it has open is, too
		return g
	}
	test("one has it at a time", func(t *testing.T, _ LeaseCase, one, two ledger.Lease) {
		g := acquire(t, one, "one")
		_, err := two.Acquire("two")
		require.ErrorIs(t, err, ledger.ErrLocked)
		_, err = one.Acquire("one")
		require.ErrorIs(t, err, ledger.ErrLocked, "nor twice")
		require.NoError(t, one.Release(g))
		require.Greater(t, acquire(t, two, "two").Generation, g.Generation)
	})
	test("what was given back is nobody's", func(t *testing.T, _ LeaseCase, one, two ledger.Lease) {
		g := acquire(t, one, "one")
		require.NoError(t, one.Release(g))
		_, err := one.Renew(g)
		require.ErrorIs(t, err, ledger.ErrLapsed)
		next := acquire(t, two, "two")
		require.NoError(t, one.Release(g), "and once more")
		again, err := two.Renew(next)
		require.NoError(t, err)
		require.Equal(t, next.Generation, again.Generation)
		_, err = one.Acquire("one")
		require.ErrorIs(t, err, ledger.ErrLocked)
	})
	test("none is had without being acquired", func(t *testing.T, _ LeaseCase, one, _ ledger.Lease) {
		_, err := one.Renew(ledger.Grant{})
		require.ErrorIs(t, err, ledger.ErrLapsed)
		require.NoError(t, one.Release(ledger.Grant{}))
		acquire(t, one, "one")
	})
	test("many call at once", func(t *testing.T, _ LeaseCase, one, two ledger.Lease) {
		g := acquire(t, one, "one")
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				_, err := one.Renew(g)
				assert.NoError(t, err)
				_, err = two.Acquire("two")
				assert.ErrorIs(t, err, ledger.ErrLocked)
				_, err = one.Acquire("one")
				assert.ErrorIs(t, err, ledger.ErrLocked)
			})
		}
		group.Wait()
	})
	test("it ends, or never", func(t *testing.T, c LeaseCase, one, two ledger.Lease) {
		g := acquire(t, one, "one")
		if c.Wait == nil {
			require.Zero(t, g.Expires)
			require.True(t, g.Holds(time.Now().AddDate(100, 0, 0)))
			return
		}
		begin := g.Expires.Add(-c.Length)
		require.True(t, g.Holds(begin))
		require.True(t, g.Holds(g.Expires.Add(-1)))
		require.False(t, g.Holds(g.Expires))
		c.Wait(c.Length - 1)
		_, err := two.Acquire("two")
		require.ErrorIs(t, err, ledger.ErrLocked)
		renewed, err := one.Renew(g)
		require.NoError(t, err)
		require.Equal(t, ledger.Grant{Owner: "one", Generation: g.Generation, Expires: begin.Add(2*c.Length - 1)}, renewed)
		c.Wait(c.Length - 1)
		_, err = two.Acquire("two")
		require.ErrorIs(t, err, ledger.ErrLocked)
		c.Wait(1)
		_, err = one.Renew(renewed)
		require.ErrorIs(t, err, ledger.ErrLapsed, "nobody has it yet, and yet it may be somebody's")
		next := acquire(t, two, "two")
		require.Greater(t, next.Generation, g.Generation)
		_, err = one.Renew(renewed)
		require.ErrorIs(t, err, ledger.ErrLapsed)
		require.NoError(t, one.Release(renewed))
		_, err = two.Renew(next)
		require.NoError(t, err, "another's stays that")
	})
}
