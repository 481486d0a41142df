package engine

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

// clock is a time that tests turn.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func TestKeyCache(t *testing.T) {
	t.Parallel()
	who := ledger.Principal{Key: ledger.Key{ID: "key_1"}}
	hash := [32]byte{1}
	fresh := func() (*keyCache, *clock) {
		c := &clock{now: time.Unix(1000, 0)}
		return newKeyCache(time.Second, c.read), c
	}

	t.Run("remembers for a second", func(t *testing.T) {
		t.Parallel()
		cache, clock := fresh()
		_, epoch, ok := cache.get(hash)
		require.False(t, ok)
		cache.put(hash, who, epoch)
		clock.now = clock.now.Add(999 * time.Millisecond)
		got, _, ok := cache.get(hash)
		require.True(t, ok)
		require.Equal(t, who, got)
		clock.now = clock.now.Add(time.Millisecond)
		_, _, ok = cache.get(hash)
		require.False(t, ok)
	})
	t.Run("an answer from before a change is not kept after it", func(t *testing.T) {
		t.Parallel()
		cache, _ := fresh()
		_, epoch, _ := cache.get(hash)
		cache.forget() // while the store was being read
		cache.put(hash, who, epoch)
		_, _, ok := cache.get(hash)
		require.False(t, ok)
	})
	t.Run("is bounded", func(t *testing.T) {
		t.Parallel()
		cache, _ := fresh()
		for i := range 10_000 {
			cache.put([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, who, 0)
			require.Len(t, cache.entries, i+1)
		}
		cache.put([32]byte{255, 255, 255}, who, 0)
		require.Len(t, cache.entries, 1, "all are looked up again")
	})
}

// TestLookup shows that what is changed through the engine acts on the next request (STATE-05), and what is
// changed behind its back within a second.
func TestLookup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := &clock{now: time.Unix(1000, 0)}
	e := (&Engine{core: core{store: store, now: c.read}, requests: requests{keys: newKeyCache(time.Second,
		c.read)}}).connect()
	a, err := store.CreateAccount(ctx, "acme", "")
	require.NoError(t, err)
	hash := [32]byte{7}

	_, err = e.Lookup(ctx, hash)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	key, err := store.CreateKey(ctx, a.ID, "laptop", hash, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	p, err := e.Lookup(ctx, hash)
	require.NoError(t, err, "a key that was not found is not remembered")
	require.False(t, p.Key.Revoked)

	_, err = store.SetState(ctx, a.ID, ledger.Suspended)
	require.NoError(t, err)
	e.ForgetKeys()
	p, err = e.Lookup(ctx, hash)
	require.NoError(t, err)
	require.Equal(t, ledger.Suspended, p.Account.State, "at once")

	_, err = store.RevokeKey(ctx, key.ID)
	require.NoError(t, err)
	c.now = c.now.Add(time.Second)
	_, err = e.Lookup(ctx, hash)
	require.ErrorIs(t, err, ledger.ErrNotFound, "within a second")
}

// oneKey is a ledger that has one key, and counts how often it is asked.
type oneKey struct {
	ledger.Store
	key     ledger.Key
	lookups int
}

func (s *oneKey) Lookup(context.Context, [32]byte) (ledger.Principal, error) {
	s.lookups++
	return ledger.Principal{Key: s.key}, nil
}

func TestLookupOfUnusableKeys(t *testing.T) {
	t.Parallel()
	ctx, begin := context.Background(), time.Unix(1000, 0)
	fresh := func(k ledger.Key) (*Engine, *oneKey, *clock) {
		store, c := &oneKey{key: k}, &clock{now: begin}
		e := &Engine{core: core{store: store, now: c.read}, requests: requests{keys: newKeyCache(time.Second, c.read)}}
		return e.connect(), store, c
	}
	t.Run("AUTH-12 a revoked key takes the way of one that never was", func(t *testing.T) {
		t.Parallel()
		e, store, _ := fresh(ledger.Key{Revoked: true})
		for n := range 3 {
			p, err := e.Lookup(ctx, [32]byte{})
			require.ErrorIs(t, err, ErrKeyEnded)
			require.ErrorIs(t, err, ledger.ErrNotFound)
			require.True(t, p.Key.Revoked, "whose it was is known")
			require.Equal(t, n+1, store.lookups, "it is not remembered")
		}
	})
	t.Run("a key opens nothing from the moment on in which it expires", func(t *testing.T) {
		t.Parallel()
		e, store, c := fresh(ledger.Key{Expires: begin.Add(500 * time.Millisecond)})
		c.now = begin.Add(499 * time.Millisecond)
		_, err := e.Lookup(ctx, [32]byte{})
		require.NoError(t, err)
		c.now = begin.Add(500 * time.Millisecond)
		_, err = e.Lookup(ctx, [32]byte{})
		require.ErrorIs(t, err, ledger.ErrNotFound, "though it is remembered")
		require.Equal(t, 2, store.lookups, "and takes the work of one that is not")
	})
}
